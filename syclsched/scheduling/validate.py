# SPDX-License-Identifier: Apache-2.0
"""An independent check of a schedule against its problem.

It shares no code with the policies but the problem's own data: where items lie and when they can be had is worked out
again from the definition, so that a mistake in the engine shows.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from itertools import pairwise

from syclsched.errors import PlanError
from syclsched.model.schedule import Assignment, Schedule
from syclsched.scheduling.problem import Problem

#: Times are sums of floats in different orders: they may differ by this share of the makespan.
TOLERANCE = 1e-9


def validate(problem: Problem, schedule: Schedule) -> None:
    """Check that a schedule solves a problem.

    Parameters
    ----------
    problem : Problem
        What was to be scheduled.
    schedule : Schedule
        What a policy made of it.

    Raises
    ------
    PlanError
        If anything is wrong; names the first few things.
    """
    found = violations(problem, schedule)
    if found:
        more = f" (and {len(found) - 3} more)" if len(found) > 3 else ""
        raise PlanError("; ".join(found[:3]) + more, where=f"schedule by {schedule.policy!r}")


def violations(problem: Problem, schedule: Schedule) -> tuple[str, ...]:
    """Return everything that is wrong with a schedule.

    Parameters
    ----------
    problem : Problem
        What was to be scheduled.
    schedule : Schedule
        What a policy made of it.

    Returns
    -------
    tuple of str
        Empty if every task is there once, on a lane that exists of a device that can run it, for as long as it takes,
        after its predecessors and the copies of their data, with no two tasks of a lane at once, and if the order of
        the assignments respects dependencies.
    """
    found = list(_membership(problem, schedule))
    if found:
        return tuple(found)
    by_task = {a.task: a for a in schedule.assignments}
    slack_s = TOLERANCE * schedule.makespan_s
    found += _durations(problem, by_task, slack_s)
    if found:
        return tuple(found)
    found += _precedence(problem, by_task, slack_s)
    found += _arrivals(problem, by_task, slack_s)
    found += _overlaps(schedule, slack_s)
    found += _order(problem, schedule)
    return tuple(found)


def _membership(problem: Problem, schedule: Schedule) -> Iterator[str]:
    seen: set[str] = set()
    known = set(problem.names)
    processors = {(problem.devices[device], lane) for device, lane in problem.processors}
    for a in schedule.assignments:
        if a.task not in known:
            yield f"there is no task {a.task!r}"
        if a.task in seen:
            yield f"task {a.task!r} is scheduled twice"
        seen.add(a.task)
        if (a.device, a.lane) not in processors:
            yield f"task {a.task!r} is on lane {a.lane} of {a.device!r}, which does not exist"
    for name in problem.names:
        if name not in seen:
            yield f"task {name!r} is not scheduled"


def _durations(problem: Problem, by_task: Mapping[str, Assignment], slack_s: float) -> Iterator[str]:
    for task, name in enumerate(problem.names):
        a = by_task[name]
        device = problem.devices.index(a.device)
        seconds = float(problem.seconds[task, device])
        if not (0.0 <= a.start_s < math.inf and 0.0 <= a.finish_s < math.inf):
            yield f"task {name!r} runs from {a.start_s!r} to {a.finish_s!r}"
        elif math.isinf(seconds):
            yield f"task {name!r} cannot run on {a.device!r}"
        elif abs(a.finish_s - a.start_s - seconds) > slack_s:
            yield f"task {name!r} is given {a.finish_s - a.start_s:g} s on {a.device!r}, it takes {seconds:g} s"
        elif a.implementation != problem.implementations[task][device]:
            yield f"task {name!r} is given {a.implementation!r} on {a.device!r}, its time is for another implementation"


def _precedence(problem: Problem, by_task: Mapping[str, Assignment], slack_s: float) -> Iterator[str]:
    for task, name in enumerate(problem.names):
        for arc in problem.predecessors[task]:
            before = by_task[problem.names[arc.task]]
            if by_task[name].start_s < before.finish_s - slack_s:
                yield f"task {name!r} starts before {before.task!r} has finished ({arc.kind})"


def _arrivals(problem: Problem, by_task: Mapping[str, Assignment], slack_s: float) -> Iterator[str]:
    """Follow every item from where it is made; topological order sees producers first."""
    made: dict[int, tuple[int, float]] = {
        index: (problem.input_space, 0.0) for index, item in enumerate(problem.items) if item.producer < 0
    }
    for task, name in enumerate(problem.names):
        a = by_task[name]
        reached = problem.reaches[problem.devices.index(a.device)]
        read_in: dict[int, int] = {}
        for index in problem.reads[task]:
            origin, made_s = made[index]
            nbytes = problem.items[index].nbytes
            space, copy_s = reached[0], problem.copy_seconds(nbytes, origin, reached[0])
            for other in reached[1:]:
                if problem.copy_seconds(nbytes, origin, other) < copy_s:
                    space, copy_s = other, problem.copy_seconds(nbytes, origin, other)
            read_in[index] = origin if origin in reached else space
            if a.start_s < made_s + copy_s - slack_s:
                array = problem.items[index].array
                yield f"task {name!r} starts on {a.device!r} before array {array!r} is there"
        for product in problem.makes[task]:
            made[product.item] = (read_in.get(product.replaces, reached[0]), a.finish_s)


def _overlaps(schedule: Schedule, slack_s: float) -> Iterator[str]:
    lanes: dict[tuple[str, int], list[Assignment]] = {}
    for a in schedule.assignments:
        lanes.setdefault((a.device, a.lane), []).append(a)
    for (device, lane), placed in lanes.items():
        placed.sort(key=lambda a: (a.start_s, a.finish_s))
        for first, second in pairwise(placed):
            if second.start_s < first.finish_s - slack_s:
                yield f"tasks {first.task!r} and {second.task!r} overlap on lane {lane} of {device!r}"


def _order(problem: Problem, schedule: Schedule) -> Iterator[str]:
    position = {a.task: i for i, a in enumerate(schedule.assignments)}
    for task, name in enumerate(problem.names):
        for arc in problem.predecessors[task]:
            if position[problem.names[arc.task]] > position[name]:
                yield f"task {name!r} is listed before {problem.names[arc.task]!r}, on which it depends"
