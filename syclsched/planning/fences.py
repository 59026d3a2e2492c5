# SPDX-License-Identifier: Apache-2.0
"""How many fences the engine will submit for a plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from syclsched.model.platform import Platform
from syclsched.planning.columns import StepColumns
from syclsched.planning.rows import WORK, Rows
from syclsched.planning.steps import MODES, Draft, Flags, Ints, Step

#: With more waits than this, one fence is submitted for them instead of a long event list, on any backend.
FENCE_WAITS: Final = 8


def count_fences(
    draft: Draft,
    columns: StepColumns,
    rows: Rows,
    wait_starts: Ints,
    waits: Ints,
    platform: Platform,
    nbytes: Mapping[str, int],
) -> int:
    """Return how many fences a plan's device lanes need if nothing that is waited for is done beforehand.

    On OpenCL a kernel on an in-order queue cannot be trusted to wait for events of other queues, so it goes behind a
    fence; elsewhere only one that waits for many does. A barrier, and what writes no bytes, is itself a fence. Host
    functions, and work of devices in another memory space (another SYCL context), are waited for by the host instead.

    Parameters
    ----------
    draft : Draft
        All steps.
    columns : StepColumns
        The same as columns.
    rows : Rows
        With allocations.
    wait_starts, waits : ndarray of int64
        Ragged: what each row waits for.
    platform : Platform
        Its devices.
    nbytes : Mapping[str, int]
        Size of each array.

    Returns
    -------
    int
        At least as many as a run counts, and as many if every wait finds its event unfinished.
    """
    devices = {d.name: d for d in platform.devices}
    spaces = {name: n for n, name in enumerate({d.space for d in platform.devices})}
    # Number of the space whose context a lane's events belong to; -1 where there are no events.
    context_of_lane = [-1 if k.kind == "host" else spaces[devices[k.device].space] for k in draft.lanes]
    longest = [0 if devices[k.device].backend == "opencl" else FENCE_WAITS for k in draft.lanes]
    lane = columns.lane[rows.step]
    works = rows.phase == WORK
    context = np.where(works, np.array(context_of_lane, np.int64)[lane], -1)
    waiting = np.repeat(np.arange(len(lane)), np.diff(wait_starts))
    events = np.bincount(waiting[context[waits] == context[waiting]], minlength=len(lane))
    for row in np.unique(waiting[~works[waits] & (context[waiting] >= 0)]).tolist():
        behind = _work(works, lane, wait_starts, waits, waits[wait_starts[row] : wait_starts[row + 1]].tolist())
        events[row] = sum(1 for before in behind if context[before] == context[row])
    waits_long = (events > np.array(longest, np.int64)[lane])[works]
    fenced = (np.array(context_of_lane, np.int64)[columns.lane] >= 0) & ~(columns.copies & (columns.nbytes > 0))
    alone = ~columns.launches
    if not all(nbytes.values()):
        empty = [not nbytes[array] for array, _ in draft.blocks]
        alone = alone | np.array([_writes_nothing(step, empty) for step in draft.steps], np.bool_)
    return int((fenced & waits_long).sum() + (fenced & alone).sum())


def _writes_nothing(step: Step, empty: Sequence[bool]) -> bool:
    written = [empty[block] for block, mode in zip(step.blocks, step.modes, strict=True) if MODES[mode].writes]
    return bool(written) and all(written)


def _work(works: Flags, lane: Ints, starts: Ints, waits: Ints, todo: list[int]) -> set[int]:
    """Return the work waited for: an ``alloc`` or ``free`` stands for its own waits and the work before it."""
    found: set[int] = set()
    while todo:
        row = todo.pop()
        if works[row]:
            found.add(row)
            continue
        todo.extend(waits[starts[row] : starts[row + 1]].tolist())
        before = np.flatnonzero(works[:row] & (lane[:row] == lane[row]))
        found.update(before[-1:].tolist())
    return found
