# SPDX-License-Identifier: Apache-2.0
"""A policy of another package, written once: simulated, run by Python, and run by compiled code."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from support.instances import layered
from support.running import DTYPE, MIX, sequential
from support.starting import live_called

from syclsched.compiled import lean
from syclsched.costs import CostModel
from syclsched.errors import ExecutionError
from syclsched.execution.dynamic import execute_dynamic
from syclsched.execution.dynamic.compiled.compiled_loop import EventLoop, loop_of
from syclsched.model.graph import TaskGraph
from syclsched.planning import verify
from syclsched.scheduling import build_problem, validate
from syclsched.scheduling.dynamic import PolicyState, RulePolicy, StaticInfo, run_dynamic
from syclsched.scheduling.dynamic.compiled.operations import can_run, is_decided, is_open, ready_count, start
from syclsched.scheduling.dynamic.compiled.run_state import RunState
from syclsched.scheduling.dynamic.static_info import static_info_of
from syclsched.scheduling.problem import Problem
from syclsched.scheduling.tables import Floats


@lean
def _last_first(state: RunState, parameters: Floats) -> None:
    """Start on each open lane, the last lane first, a late ready task: the last but ``skipped``."""
    if parameters[0] < 0.0 or len(parameters) != 1:
        raise ValueError("no task can be chosen")
    for lane in range(len(state.known.device_of) - 1, -1, -1):
        count = ready_count(state)
        for position in range(max(count - 1 - int(parameters[0]), 0) if count else -1, -1, -1):
            task = state.ready[position]
            fits = can_run(state, task, state.known.device_of[lane]) and not is_decided(state, task)
            if fits and is_open(state, lane):
                start(state, task, lane)
                break


@dataclass(frozen=True, slots=True)
class Contrary(RulePolicy):
    """A policy that takes the least urgent task first."""

    skipped: int = 1
    name: str = "contrary"
    sorts_queues: bool = False
    rule = staticmethod(_last_first)

    @property
    def parameters(self) -> tuple[float, ...]:
        return (float(self.skipped),)

    def prepare(self, problem: Problem) -> StaticInfo:
        return static_info_of(problem, [problem.tables.priority])


def test_an_added_policy_is_simulated() -> None:
    problem = layered(60, 3, 2, seed=1)
    run = run_dynamic(problem, Contrary())
    validate(problem, run.timetable)
    assert [entry.task for entry in run.log][:3] == [5, 4, 3]  # seven are ready, and each lane takes one
    assert [entry.processor for entry in run.log][:3] == [2, 1, 0]


@pytest.mark.sycl
@pytest.mark.parametrize("is_compiled", [True, False])
def test_an_added_policy_runs(is_compiled: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = TaskGraph("pairs")
    arrays = [graph.array(f"a{i}", data=np.arange(100, dtype=DTYPE) + i) for i in range(4)]
    for i in range(30):
        graph.kernel(MIX, name=f"t{i}", x=arrays[i % 4], y=arrays[(i + 1 + i % 3) % 4], a=i)
    live = live_called("halves")
    problem = build_problem(graph, live.platform, CostModel(live.platform, None))
    limits: Mapping[str, int] = {}
    if not is_compiled:  # compiled code uses up to a quarter of a memory
        limits = {
            space.name: 2 * sum(array.nbytes for array in graph.arrays.values()) for space in live.platform.spaces
        }
    decided = []
    by_python, by_loop = RulePolicy.decide, EventLoop.drive

    def decide(policy: RulePolicy, state: PolicyState) -> Any:
        decided.append("by Python")
        return by_python(policy, state)

    def drive(loop: EventLoop) -> int:
        decided.append("by compiled code")
        return by_loop(loop)

    monkeypatch.setattr(RulePolicy, "decide", decide)
    monkeypatch.setattr(EventLoop, "drive", drive)
    with execute_dynamic(graph, problem, live, Contrary(), memory_limits=limits) as run:
        run.wait(600)  # it may have to be compiled
        expected = sequential(graph, graph.data)
        assert all(np.array_equal(run.result(name), expected[name]) for name in graph.arrays)
        verify(run.plan, graph)
    assert set(decided) == {"by compiled code" if is_compiled else "by Python"}
    loop: Any = loop_of(Contrary.rule)
    assert not loop.dispatcher.overloads  # the rule alone is compiled


@pytest.mark.sycl
def test_an_error_of_the_policy_rule_ends_the_run() -> None:
    graph = TaskGraph("one")
    graph.kernel(
        MIX, x=graph.array("x", data=np.arange(9, dtype=DTYPE)), y=graph.array("y", data=np.arange(9, dtype=DTYPE)), a=1
    )
    live = live_called("halves")
    problem = build_problem(graph, live.platform, CostModel(live.platform, None))
    with (
        pytest.raises(ExecutionError, match="no task can be chosen"),
        execute_dynamic(graph, problem, live, Contrary(skipped=-1)) as run,
    ):
        run.wait(600)
