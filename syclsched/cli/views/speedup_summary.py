# SPDX-License-Identifier: Apache-2.0
"""Summary of the speed-up of a plan over single devices, in sentences."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from syclsched.model.text.units import format_seconds, plural

if TYPE_CHECKING:
    from syclsched.model.plan import Plan

#: Speed-ups below this are reported as no gain.
_LEAST_SPEEDUP = 1.02


def speedup_lines(plan: Plan) -> Iterator[str]:
    """Yield sentences: speed-up over the first device alone, times of other single devices, and shares of the work."""
    devices = [device.name for device in plan.platform.compute_devices]
    alone = {
        name: candidate.makespan_s
        for name in devices
        for candidate in plan.candidates
        if candidate.policy == f"single:{name}" and candidate.makespan_s is not None
    }
    if len(devices) < 2 or devices[0] not in alone or not plan.makespan_s:
        return
    first, others = devices[0], devices[1:]
    base = alone[first]
    yield (
        f"On {first} alone a run takes {format_seconds(base)}; with {_listed(others)} "
        f"{format_seconds(plan.makespan_s)}: {_faster(base / plan.makespan_s)}."
    )
    for name in others:
        if name in alone:
            yield f"On {name} alone it takes {format_seconds(alone[name])}."
    done: dict[str, list[float]] = {}
    for assignment in plan.schedule.assignments:
        done.setdefault(assignment.device, []).append(assignment.finish_s - assignment.start_s)
    total = sum(map(sum, done.values())) or 1.0
    shares = [
        f"{name} does {plural(len(times), 'task')} ({100 * sum(times) / total:.0f} % of the computing time)"
        for name, times in done.items()
    ]
    yield f"In that plan {_listed(shares)}; {plural(plan.counters.copies, 'copy', 'copies')} between memories."


def _faster(ratio: float) -> str:
    if ratio < _LEAST_SPEEDUP:
        return "no gain"
    return f"{ratio:.2g} times as fast" if ratio < 10 else f"{ratio:.0f} times as fast"


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
