# SPDX-License-Identifier: Apache-2.0
"""Hazards between steps: which must finish before which, from the buffers they touch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from syclsched.planning.steps import Buffer, Step


def hazards(steps: Sequence[Step], after: Mapping[str, Sequence[str]]) -> list[list[int]]:
    """Return for each step the earlier steps it depends on.

    Two steps that touch the same buffer, at least one of them writing, keep their global order (RAW, WAR, WAW); a
    free comes after every use. Tasks ordered explicitly or by a barrier keep that order.

    Parameters
    ----------
    steps : sequence of Step
        In global order.
    after : Mapping[str, sequence of str]
        Explicit and barrier dependencies: task name to the tasks before it.

    Returns
    -------
    list of list of int
        Positions of predecessors, without duplicates.
    """
    last_writer: dict[Buffer, int] = {}
    readers: dict[Buffer, list[int]] = {}
    task_step: dict[str, int] = {}
    result: list[list[int]] = []
    for position, step in enumerate(steps):
        before: dict[int, None] = {}
        if step.kind == "alloc":  # host work at submission: nothing on the device precedes it
            result.append([])
            continue
        for use in step.uses:
            buffer = (use.array, use.space)
            writer = last_writer.get(buffer)
            if use.mode.writes:
                # Readers came after the writer, so they cover it.
                since = readers.get(buffer)
                if since:
                    before.update(dict.fromkeys(since))
                elif writer is not None:
                    before[writer] = None
                last_writer[buffer] = position
                readers[buffer] = []
            else:
                if writer is not None:
                    before[writer] = None
                readers.setdefault(buffer, []).append(position)
        if step.kind in ("launch", "host", "barrier") and step.task is not None:
            for name in after.get(step.task, ()):
                before[task_step[name]] = None
            task_step[step.task] = position
        before.pop(position, None)
        result.append(list(before))
    return result
