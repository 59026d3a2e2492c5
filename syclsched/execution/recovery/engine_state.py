# SPDX-License-Identifier: Apache-2.0
"""State of an engine that has ended: the tasks that it has executed, and the array versions in its buffers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from syclsched.execution.core.program import MEMORY_KINDS, Buffer
from syclsched.execution.handle.engine import EndedEngine
from syclsched.execution.recovery.versions import Versions, find_contents, find_versions
from syclsched.model.plan import Plan


@dataclass(frozen=True, slots=True)
class EngineState:
    """Executed tasks, and the version of its array that each buffer holds completely."""

    versions: Versions
    done: frozenset[str]
    contents: Mapping[Buffer, int]


def engine_state(engine: EndedEngine, plan: Plan) -> EngineState:
    """Return the state of an engine of a plan that has failed, was cancelled, or has executed everything."""
    failures = engine.failures
    work = [i for _, i in plan.instructions() if i.kind not in MEMORY_KINDS]
    not_started, invalid = set(failures.not_started), set(failures.invalid)
    for instruction in work:
        if not engine.passed(instruction.id) and instruction.id not in not_started | invalid:
            # After an error of the engine itself it is unknown whether the instruction was submitted.
            (not_started if engine.error is None else invalid).add(instruction.id)
    undone = not_started | invalid
    if not engine.owns_buffers and (failures.halted or engine.cancelled):
        # Buffers of a bound plan share memory, reused when commands run: skip allocations and frees after the last
        # submitted command.
        last = max((i.id for i in work if i.id not in not_started), default=-1)
        not_started |= {i.id for _, i in plan.instructions() if i.kind in MEMORY_KINDS and i.id > last}
    done = {i.task for i in work if i.kind in ("launch", "host", "barrier") and i.id not in undone}
    versions = find_versions(plan.tasks)
    contents = find_contents(plan, versions, not_started, invalid)
    return EngineState(versions, frozenset(task for task in done if task is not None), contents)
