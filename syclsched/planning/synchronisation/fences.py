# SPDX-License-Identifier: Apache-2.0
"""Number of fences (barrier commands) the engine will submit for a plan."""

from __future__ import annotations

from typing import Final

import numpy as np

from syclsched.model.graph_parts.access_columns import WRITES
from syclsched.model.platform import Platform, backend_facts
from syclsched.planning.draft import LAUNCH, Flags, Ints, PlanDraft, Steps
from syclsched.planning.instruction_rows import WORK, InstructionRows

#: With more waits than this, one fence is submitted instead of a long event list, on any backend.
FENCE_WAITS: Final = 8


def count_fences(
    draft: PlanDraft,
    rows: InstructionRows,
    wait_starts: Ints,
    waits: Ints,
    platform: Platform,
    nbytes: Ints,
) -> int:
    """Return how many fences a plan's device lanes need if no event they wait for has completed beforehand.

    Where a backend's kernels on in-order queues do not wait for events of other queues, a fence is submitted before
    each that should; on other backends only before a kernel that waits for many events. A barrier, or a task that
    writes no bytes, is a fence itself. The host waits for host functions, and for devices of another memory space
    (another SYCL context).
    """
    steps, devices = draft.steps, {d.name: d for d in platform.devices}
    spaces = {name: n for n, name in enumerate({d.space for d in platform.devices})}
    # The space whose SYCL context a lane's events belong to; -1 for lanes without events.
    context_of_lane = [-1 if k.kind == "host" else spaces[devices[k.device].space] for k in draft.lanes]
    longest = [FENCE_WAITS if backend_facts(devices[k.device].backend).kernels_wait else 0 for k in draft.lanes]
    lane = steps.lane[rows.step]
    works = rows.phase == WORK
    context = np.where(works, np.array(context_of_lane, np.int64)[lane], -1)
    waiting = np.repeat(np.arange(len(lane)), np.diff(wait_starts))
    events = np.bincount(waiting[context[waits] == context[waiting]], minlength=len(lane))
    for row in np.unique(waiting[~works[waits] & (context[waiting] >= 0)]).tolist():
        predecessors = _work(works, lane, wait_starts, waits, waits[wait_starts[row] : wait_starts[row + 1]].tolist())
        events[row] = sum(1 for before in predecessors if context[before] == context[row])
    waits_long = (events > np.array(longest, np.int64)[lane])[works]
    fenced = (np.array(context_of_lane, np.int64)[steps.lane] >= 0) & ~(steps.copies & (steps.nbytes > 0))
    alone = steps.kind != LAUNCH
    if not nbytes.all():
        alone = alone | _write_nothing(steps, nbytes[draft.blocks.array] == 0)
    return int((fenced & waits_long).sum() + (fenced & alone).sum())


def _write_nothing(steps: Steps, empty: Flags) -> Flags:
    """Return which steps write only empty arrays."""
    writes = WRITES[steps.modes]
    step = np.repeat(np.arange(len(steps)), np.diff(steps.starts))
    written = np.bincount(step[writes], minlength=len(steps))
    filled = np.bincount(step[writes & ~empty[steps.blocks]], minlength=len(steps))
    empty_only: Flags = (written > 0) & (filled == 0)
    return empty_only


def _work(works: Flags, lane: Ints, starts: Ints, waits: Ints, todo: list[int]) -> set[int]:
    """Return the steps waited for; an ``alloc`` or ``free`` stands for its own waits and its lane predecessor."""
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
