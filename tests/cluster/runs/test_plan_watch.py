# SPDX-License-Identifier: Apache-2.0
"""Decisions of the hybrid policy between machines, with made-up progress and predictions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import permutations
from typing import Any

import pytest

from syclsched.cluster.parts import divide
from syclsched.cluster.platforms import NetworkPath, joined
from syclsched.cluster.recovery.attempt import Binding, RunAttempt
from syclsched.cluster.recovery.part_state import LaneWork, PartProgress
from syclsched.cluster.recovery.remaining import RunLineage
from syclsched.cluster.runs import plan_watch
from syclsched.cluster.runs.plan_watch import Move, PlanWatch
from syclsched.model.graph import TaskGraph
from syclsched.model.platform import HOST, Platform
from tests.support.opened import until
from tests.support.running import DTYPE, MIX, TWO_DEVICES, plan_by

TASKS, TASK_S = 20, 1.0


def platform_of(*machines: str) -> Platform:
    roomy = replace(TWO_DEVICES, spaces=tuple(replace(s, capacity_bytes=10**9) for s in TWO_DEVICES.spaces))
    paths = [NetworkPath(*pair, 1e-4, 1e9) for pair in permutations([HOST, *machines], 2)]
    return joined(dict.fromkeys(machines, roomy), paths)


class Answer:
    def __init__(self, value: Any) -> None:
        self._value = value

    def result(self, timeout_s: float | None = None) -> Any:
        return self._value


class FakeMachines:
    """Machines whose completed seconds of work and predictions the test sets."""

    def __init__(self, stay_s: float, move_s: float, cost_s: float = 0.5) -> None:
        self.done_s: dict[str, float] = {}
        self.predictions, self.move_s = (stay_s, move_s), cost_s
        self.there = frozenset(("one", "two"))
        self.slowness: Mapping[str, float] = {}

    def call_part(self, binding: Binding, machine: str, function: str, *arguments: Any) -> Any:
        return Answer(PartProgress((LaneWork(self.done_s[machine], TASK_S, True),), ()))

    def names_there(self) -> frozenset[str]:
        return self.there

    def platform(self) -> Platform:
        return platform_of(*sorted(self.there))

    def predicted_s(self, *arguments: Any) -> tuple[float, float]:
        self.slowness = arguments[-1]
        return self.predictions


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now_s = [0.0]
    monkeypatch.setattr(plan_watch.time, "perf_counter", lambda: now_s[0])
    return now_s


def begun() -> tuple[RunAttempt, RunLineage]:
    """Start an attempt on two machines."""
    graph = TaskGraph("even")
    for number in range(TASKS):
        x, y = graph.array(f"x{number}", (8,), DTYPE), graph.array(f"y{number}", (8,), DTYPE)
        graph.kernel(MIX, name=f"t{number}", x=x, y=y, a=1)
    platform = platform_of("one", "two")
    plan = plan_by(graph, platform, lambda n: (f"{('one', 'two')[int(n[1:]) % 2]}/host", 0, "host"), TASK_S)
    divided = divide(plan, graph, lambda *_, **__: None, lambda *_, **__: None)
    return RunAttempt(Binding("", plan, graph, divided, {"one": "", "two": ""}), ""), RunLineage(plan, graph)


def watched(
    machines: FakeMachines, clock: list[float], pace: Mapping[str, float], seconds: Iterable[float]
) -> list[Move]:
    """Watch two machines that complete this much of their work in a second; return the moves."""
    attempt, lineage = begun()
    watch, moves = PlanWatch(machines), []  # type: ignore[arg-type]
    for now_s in seconds:
        clock[0] = now_s
        machines.done_s = {machine: now_s * done for machine, done in pace.items()}
        move = watch.look(attempt, ("one", "two"), lambda: lineage)
        moves += [] if move is None else [move]
    return moves


def test_machines_as_fast_as_planned_cause_no_move(clock: list[float]) -> None:
    machines = FakeMachines(100.0, 1.0)
    assert watched(machines, clock, {"one": 1.0, "two": 1.0}, range(10)) == []
    assert machines.slowness == {}  # the move was not even considered


def test_a_slow_machine_is_found_with_its_slowness(clock: list[float]) -> None:
    moves = watched(FakeMachines(100.0, 50.0), clock, {"one": 1.0, "two": 0.1}, range(10))
    assert moves[0].reason == "late" and moves[0].what.startswith("two takes ")
    assert moves[0].slowness["two"] > 1.05 > moves[0].slowness["one"]
    assert moves[0].machines == {"one", "two"}


@pytest.mark.parametrize(("stay_s", "move_s", "cost_s"), [(100.0, 95.0, 0.5), (100.0, 50.0, 60.0), (5.0, 4.0, 0.0)])
def test_work_does_not_move_without_a_clear_gain(
    clock: list[float], stay_s: float, move_s: float, cost_s: float
) -> None:
    machines = FakeMachines(stay_s, move_s, cost_s)
    assert watched(machines, clock, {"one": 1.0, "two": 0.1}, range(10)) == []
    assert machines.slowness["two"] > 2.0  # of the ten seconds, after as many seconds


def test_moves_have_an_end(clock: list[float]) -> None:
    moves = watched(FakeMachines(100.0, 1.0), clock, {"one": 1.0, "two": 0.001}, range(1, 1000))
    assert len(moves) == plan_watch.MOST_MOVES


def test_a_machine_that_has_joined_and_left_is_not_planned_for(clock: list[float]) -> None:
    """Before, the run was stopped for this machine again and again."""
    attempt, lineage = begun()
    machines = FakeMachines(100.0, 1.0)
    watch = PlanWatch(machines)  # type: ignore[arg-type]

    def look() -> Move | None:
        clock[0] += 1.0
        machines.done_s = {"one": clock[0], "two": clock[0]}
        return watch.look(attempt, ("one", "two"), lambda: lineage)

    machines.there = frozenset(("one", "two", "three"))
    moves: list[Move] = []

    def joined() -> bool:  # once the machine has been measured
        moves.extend(move for move in (look(),) if move is not None)
        return bool(moves) and moves[-1].reason == "joined"

    until(joined)
    assert "three" in moves[-1].machines
    machines.there = frozenset(("one", "two"))
    later = [look() for _ in range(5)]
    assert not any(move is not None and move.reason == "joined" for move in later)
