# SPDX-License-Identifier: Apache-2.0
"""Durations of tasks in runs: by kind, free of interference and first calls, from a sample of runs."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from support.opened import live_on
from support.running import MIX, SPIN, plan_by

import syclsched
from syclsched.costs.history import HistoryKey
from syclsched.execution.core.execution_records import Record
from syclsched.execution.core.history_feed import FEED
from syclsched.execution.dispatch.prepared import PreparedPlan, prepare
from syclsched.execution.runner import task_durations
from syclsched.execution.runner.bound_plan import Runner
from syclsched.execution.runner.plan_makespans import PlanMakespans
from syclsched.execution.runner.task_durations import DurationRecorder, GenerationDurations
from syclsched.model.graph import TaskGraph
from syclsched.model.plan import Plan
from syclsched.model.trace import Span
from syclsched.profiling import HistoryStore


def mixes(count: int) -> TaskGraph:
    graph = TaskGraph("mixes")
    for n in range(count):
        x = graph.array(f"x{n}", data=np.ones(64, np.int64))
        graph.kernel(MIX, x=x, y=graph.array(f"y{n}", data=np.ones(64, np.int64)), a=2)
    return graph


class Feed:
    """A feed that keeps the durations a run is to store."""

    def __init__(self) -> None:
        self.queued: list[Callable[[], Sequence[tuple[HistoryKey, float]]]] = []
        self.makespans: list[tuple[HistoryKey, float]] = []

    def begin(self) -> None:
        pass

    def add(
        self,
        durations: Callable[[], Sequence[tuple[HistoryKey, float]]] | None,
        makespan: tuple[HistoryKey, float] | None = None,
    ) -> None:
        if durations is not None:
            self.queued.append(durations)
        if makespan is not None:
            self.makespans.append(makespan)

    def last(self) -> list[float]:
        return [seconds for _, seconds in self.queued[-1]()]


def slowed(plan: Plan, factor: float, tasks: Sequence[str]) -> Plan:
    """Return a plan which predicts that these tasks share their cores with others."""

    def each(i: Any) -> Any:
        return replace(i, finish_s=i.start_s + i.duration_s * (factor if i.task in tasks else 1.0))

    return replace(plan, lanes=tuple(replace(m, instructions=tuple(map(each, m.instructions))) for m in plan.lanes))


def prepared_on(device: str, count: int) -> PreparedPlan:
    graph = mixes(count)
    plan = syclsched.plan(graph, syclsched.describe(["cpu"]), policy=f"single:{device}", rewrite="none")
    return prepare(slowed(plan, 1.0, ()), graph)


def ended(prepared: PreparedPlan, milliseconds: Sequence[float], **changes: Any) -> Any:
    """Return an engine that has executed the tasks of a plan in these times."""
    numbers = sorted(prepared.work)
    times = zip(numbers, milliseconds, strict=True)
    records = {number: Record(0, start_ns=1000, finish_ns=1000 + round(ms * 1e6)) for number, ms in times}
    failures = SimpleNamespace(none=True)
    values = {"recording": True, "error": None, "cancelled": False, "failures": failures, "records": records, **changes}
    return SimpleNamespace(**values)


def recorder(prepared: PreparedPlan, feed: Feed, plan: str | None = None) -> DurationRecorder:
    makespans = None if plan is None else PlanMakespans(lambda kind: HistoryKey("cpu", "plan", plan, "", kind))
    return DurationRecorder(prepared, feed, makespans)  # type: ignore[arg-type]


def test_a_kind_of_task_took_the_median_of_its_tasks() -> None:
    prepared, feed = prepared_on("cpu", 3), Feed()
    recorder(prepared, feed).add(ended(prepared, [2.0, 7.0, 3.0]))
    assert feed.last() == pytest.approx([3e-3])
    ((key, _),) = feed.queued[0]()
    assert (key.operation, key.device_key) == ("mix", prepared.plan.platform.device("cpu").key)


def test_incomplete_or_failed_runs_are_not_measured() -> None:
    prepared, feed = prepared_on("cpu", 3), Feed()
    engine = ended(prepared, [2.0, 7.0, 3.0])
    engine.records[min(engine.records)].outcome = "cancelled"
    recorder(prepared, feed).add(engine)
    assert feed.last() == pytest.approx([5e-3])
    before = len(feed.queued)
    recorder(prepared, feed).add(ended(prepared, [2.0] * 3, failures=SimpleNamespace(none=False)))
    recorder(prepared, feed).add(ended(prepared, [2.0] * 3, recording=False))
    recorder(prepared, feed).add(ended(prepared, [2.0] * 3), recoveries=("a recovery",))  # type: ignore[arg-type]
    assert len(feed.queued) == before


def test_tasks_sharing_cores_count_only_without_others() -> None:
    prepared, feed = prepared_on("cpu", 3), Feed()
    first, second, third = (prepared.work[number].task.name for number in sorted(prepared.work))
    some = replace(prepared, plan=slowed(prepared.plan, 2.0, [first, second]))
    recorder(some, feed).add(ended(some, [6.0, 8.0, 4.0]))
    assert feed.last() == pytest.approx([4e-3])
    every = replace(prepared, plan=slowed(prepared.plan, 2.0, [first, second, third]))
    recorder(every, feed).add(ended(every, [6.0, 8.0, 4.0]))
    assert feed.last() == pytest.approx([3e-3])


def test_the_first_call_of_a_host_function_does_not_count() -> None:
    prepared, feed = prepared_on("host", 3), Feed()
    durations = recorder(prepared, feed)
    durations.add(ended(prepared, [900.0, 2.0, 3.0]))
    assert feed.last() == pytest.approx([2.5e-3])
    durations.add(ended(prepared, [4.0, 2.0, 3.0]))
    assert feed.last() == pytest.approx([3e-3])


def test_of_many_runs_few_are_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    from syclsched.execution.runner import task_durations

    now_s = 0.0
    monkeypatch.setattr(task_durations.time, "monotonic", lambda: now_s)
    prepared, feed = prepared_on("cpu", 1), Feed()
    durations, engine = recorder(prepared, feed), ended(prepared, [2.0])
    for _ in range(1000):
        durations.add(engine)
    assert len(feed.queued) == 6
    now_s = 100.0
    for _ in range(64):
        durations.add(engine)
    assert len(feed.queued) == 7


@pytest.mark.sycl
@pytest.mark.parametrize("way", ["run", "bind", "stream"])
def test_every_way_to_run_a_graph_records_durations(way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    graph, platform = mixes(4), syclsched.discover("cpu")
    plan = syclsched.plan(graph, platform, policy="single:cpu", rewrite="none")
    if way == "run":
        with syclsched.run(graph, platform, plan=plan) as run:
            run.wait()
    else:
        with syclsched.bind(graph, platform, plan=plan) as runner:
            if way == "bind":
                runner()
            else:
                assert len(list(runner.stream([None] * 3, in_flight=1))) == 3
    FEED.flush()
    with HistoryStore() as history:
        entries = history.entries()
    used = {a.implementation for a in plan.schedule.assignments}
    assert {key.implementation for key, _ in entries} == {f"{each}, in a run" for each in used}
    assert all(sample.source == "run" and sample.seconds > 0.0 for _, samples in entries for sample in samples)


@pytest.mark.sycl
def test_a_deterministic_run_does_not_depend_on_measured_times(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from syclsched.costs.history import history_key

    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    graph, platform = mixes(2), syclsched.discover("cpu")
    task = graph.tasks[0]
    assert task.operation is not None and task.signature is not None
    chosen = []
    for slow in (None, *task.operation.implementations):
        with HistoryStore() as history:
            history.forget_matching(None)
            for each in task.operation.implementations:
                for device in platform.devices:
                    key = history_key(device.key, task.operation, each, task.signature)
                    history.record(key, [1.0 if each is slow else 1e-6] * 5)
        with syclsched.bind(graph, platform, calibrate=False, deterministic=True) as runner:
            chosen.append({(a.device, a.implementation) for a in runner.plan.schedule.assignments})
    assert all(each == chosen[0] for each in chosen)


# --- makespans of plans -----------------------------------------------------------------------------


def test_the_first_run_of_a_plan_is_recorded_separately() -> None:
    prepared, feed = prepared_on("cpu", 2), Feed()
    for _ in range(2):  # two one-off runs, with a recorder each
        recorder(prepared, feed, "told apart").add(ended(prepared, [2.0, 7.0]))
    bound = recorder(prepared, feed, "told apart")
    assert bound.add_call(0.25)
    kinds = [key.signature for key, _ in feed.makespans]
    assert kinds == ["first", "later", "call"]
    assert feed.makespans[-1][1] == 0.25
    assert all(seconds > 0.0 for _, seconds in feed.makespans)


def test_of_calls_the_first_few_are_measured() -> None:
    prepared, feed = prepared_on("cpu", 2), Feed()
    bound = recorder(prepared, feed, "called")
    assert [bound.add_call(0.25) for _ in range(7)] == [True] * 5 + [False] * 2
    assert len(feed.makespans) == 5


def test_device_failures_count_against_a_plan_unlike_cancellations() -> None:
    prepared, feed = prepared_on("cpu", 2), Feed()
    mine = recorder(prepared, feed, "failing")
    mine.add(ended(prepared, [2.0] * 2), recoveries=("a recovery",))  # type: ignore[arg-type]
    mine.add(ended(prepared, [2.0] * 2, error=ValueError("lost")))
    assert [(key.signature, seconds) for key, seconds in feed.makespans] == [("failed", math.inf)] * 2
    mine.add(ended(prepared, [2.0] * 2, error=ValueError("cancelled"), cancelled=True))
    mine.add(ended(prepared, [2.0] * 2, failures=SimpleNamespace(none=False)))  # the user's own function
    assert len(feed.makespans) == 2


def test_generations_that_overlap_have_no_makespan_of_their_own() -> None:
    prepared, feed = prepared_on("cpu", 2), Feed()
    mine = recorder(prepared, feed, "streaming")
    GenerationDurations(mine, 2).of_next(alone=False).add(ended(prepared, [2.0] * 2))
    assert (len(feed.queued), feed.makespans) == (1, [])
    GenerationDurations(mine, 1).of_next(alone=False).add(ended(prepared, [2.0] * 2))
    assert (len(feed.queued), len(feed.makespans)) == (2, 1)


def test_single_generations_are_measured_if_overlap_slows_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now_s = 0.0
    monkeypatch.setattr(time, "monotonic", lambda: now_s)
    prepared, feed = prepared_on("cpu", 2), Feed()
    mine = recorder(prepared, feed, "on two lanes")
    mine.is_concurrent = True
    chosen, engine = GenerationDurations(mine, 3), ended(prepared, [2.0] * 2)
    for _ in range(600):
        assert not chosen.wants_alone
        chosen.of_next(alone=False).add(engine)
    assert feed.queued == []
    assert not chosen.wants_alone  # too soon
    now_s = 2.0
    assert chosen.wants_alone
    chosen.of_next(alone=True).add(engine)
    assert not chosen.wants_alone
    assert (len(feed.queued), len(feed.makespans)) == (1, 1)
    chosen.of_next(alone=False).add(ended(prepared, [2.0] * 2, error=ValueError("lost")))
    assert feed.makespans[-1][1] == math.inf


@pytest.mark.sycl
@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_generation_that_is_measured_runs_alone(asynchronous: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_durations, "_ALONE_ONE_IN", 5)
    monkeypatch.setattr(task_durations, "_INTERVAL_S", 0.0)
    graph, (platform, devices) = TaskGraph("on two lanes"), live_on(None)
    for lane in "01":
        graph.kernel(SPIN, name=f"spin{lane}", y=graph.array(f"y{lane}", data=np.ones(64, np.int64)), turns=1_000_000)
    plan = plan_by(graph, platform, lambda name: ("cpu", int(name[-1]), "opencl-c"))
    with Runner(plan, graph, devices, measure=True, trace=100) as runner:
        assert runner.durations is not None and runner.durations.is_concurrent
        stream = runner.stream([None] * 40, in_flight=2)

        async def read() -> int:
            return len([each async for each in stream])

        assert (asyncio.run(read()) if asynchronous else len(list(stream))) == 40
        spans: dict[int, list[Span]] = {}
        for span in stream.trace().spans:
            spans.setdefault(span.generation, []).append(span)
    times = {number: (min(s.submit_s for s in of), max(s.finish_s for s in of)) for number, of in spans.items()}
    alone = [
        number
        for number, (begin_s, end_s) in times.items()
        if all(end <= begin_s or end_s <= begin for other, (begin, end) in times.items() if other != number)
    ]
    assert {10, 21, 32} <= set(alone)


def test_without_a_key_no_makespan_is_measured() -> None:
    prepared, feed = prepared_on("cpu", 2), Feed()
    mine = recorder(prepared, feed)
    mine.add(ended(prepared, [2.0] * 2))
    assert not mine.add_call(0.25)
    assert not feed.makespans
