# SPDX-License-Identifier: Apache-2.0
"""Autotuning: comparison of plans with library calls and plans with kernels; the fastest is kept."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from support.commands import call
from support.onednn_calls import needs_onednn
from support.product_graph import product_graph

import syclsched
from syclsched import execution
from syclsched.errors import MemoryLimitError
from syclsched.model.graph import TaskGraph
from syclsched.model.platform import Platform
from syclsched.onnx.report import OperatorTime
from syclsched.onnx.specialised import Specialised
from syclsched.onnx.tuning import autotune, kernel_selection, plan_comparison
from syclsched.onnx.tuning.implementations import on_devices
from syclsched.planning_session import ChosenPlan
from syclsched.profiling import HistoryStore

MODEL = Path(__file__).parents[3] / "examples" / "data" / "digits.onnx"


@pytest.mark.parametrize("wins", ["library", "kernels", None])
def test_bound_variants_not_chosen_are_closed(monkeypatch, wins: str | None) -> None:
    closed = []

    def bound(name: str) -> SimpleNamespace:
        return SimpleNamespace(name=name, close=lambda: closed.append(name))

    def raced(by_library, graph, values, variants, make, least_gain):
        by_kernels = make(graph)
        if wins is None:
            raise KeyboardInterrupt
        return by_library if wins == "library" else by_kernels

    monkeypatch.setattr(autotune, "_compare_plans", raced)
    variants = SimpleNamespace(plan_and_bind=lambda graph, *, calibrate: bound("kernels"), is_limited=False)
    with nullcontext() if wins else pytest.raises(KeyboardInterrupt):
        assert autotune.faster_variant(bound("library"), product_graph(), {}, variants).name == wins
    assert set(closed) == {"library", "kernels"} - {wins}


@needs_onednn
@pytest.mark.sycl
@pytest.mark.parametrize("faster", [True, False])
def test_a_model_runs_with_kernels_if_these_are_faster(monkeypatch, quiet, faster: bool) -> None:
    pytest.importorskip("onnx", reason="the model is an ONNX model")
    image = np.random.default_rng(0).random((1, 1, 8, 8), dtype=np.float32)
    with syclsched.compile(MODEL, devices="cpu", autotune=False) as plain:
        wanted = plain(image)["probabilities"]
        by_library = [each for each in plain.report.operators if each.implementation == kernel_selection.LIBRARY]
    monkeypatch.setattr(autotune, "select_kernels", lambda order, *_: frozenset(order))
    # Times of this machine have no effect: kernels are predicted to save half, and `faster` is the comparison's result.
    monkeypatch.setattr(autotune, "saved_share", lambda *_: 0.5)
    monkeypatch.setattr(autotune, "is_known_faster", lambda *_: None)
    decide = lambda device, history, mixed, measure, *_: bool(measure()) and faster  # noqa: E731
    monkeypatch.setattr(autotune, "measure_is_faster", decide)
    with syclsched.compile(MODEL, devices="cpu") as tuned:
        np.testing.assert_allclose(tuned(image)["probabilities"], wanted, atol=1e-5)
        left = [each for each in tuned.report.operators if each.implementation == kernel_selection.LIBRARY]
    assert by_library and bool(left) != faster


@needs_onednn
@pytest.mark.sycl
@pytest.mark.parametrize("is_limited", [True, False])
def test_a_model_with_a_memory_limit_has_one_bound_plan_at_a_time(monkeypatch, quiet, is_limited: bool) -> None:
    pytest.importorskip("onnx", reason="the model is an ONNX model")
    bind, made, most = execution.bind, [], []

    def counted(*given: Any, **settings: Any) -> Any:
        most.append(sum("closed" not in repr(each) for each in made))
        made.append(bind(*given, **settings))
        return made[-1]

    monkeypatch.setattr(execution, "bind", counted)
    monkeypatch.setattr(autotune, "select_kernels", lambda order, *_: frozenset(order))
    monkeypatch.setattr(autotune, "saved_share", lambda *_: 0.5)
    monkeypatch.setattr(autotune, "is_known", lambda *_: False)
    limit = {"memory_limit": "64MiB"} if is_limited else {}
    with syclsched.compile(MODEL, devices="cpu", **limit) as tuned:
        tuned(np.zeros((1, 1, 8, 8), np.float32))
        assert len(made) > 2
        assert (max(most) == 0) == is_limited


@needs_onednn
@pytest.mark.sycl
def test_a_plan_on_the_command_line_within_a_memory_limit_binds_few_plans(monkeypatch, quiet, capsys) -> None:
    pytest.importorskip("onnx", reason="the model is an ONNX model")
    bind, runners = execution.bind, []

    def counted(*given: Any, **settings: Any) -> Any:
        runners.append(bind(*given, **settings))
        return runners[-1]

    monkeypatch.setattr(execution, "bind", counted)
    monkeypatch.setattr(autotune, "select_kernels", lambda order, *_: frozenset())
    monkeypatch.setattr(autotune, "samples", lambda *_: frozenset())
    monkeypatch.setattr(autotune, "is_known", lambda *_: False)
    given = ("--shape", "batch=1", "--devices", "cpu", "--memory-limit", "64MiB")
    assert call(capsys, "plan", MODEL, *given).code == 0
    # One is run to time tasks, and one is of the plan made by these times: binding tells whether it lacks memory.
    assert [bool(each.traces()) for each in runners] == [True, False]


_histories: list[HistoryStore] = []


@pytest.fixture(autouse=True)
def _closes_histories() -> Iterator[None]:
    yield
    while _histories:
        _histories.pop().close()


class StandIn:
    """A mock runner that computes nothing, and whose traces have given task times."""

    plan = None
    zero_copy_inputs = SimpleNamespace(own_donated=lambda _: {})

    def __init__(self, times=()):
        self.times = times

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return None

    def __call__(self, *_):
        return None

    def traces(self):
        return [self.times] * 9


class TuningHarness:
    """Plans of a graph with made-up times, without devices, for `autotune`."""

    def __init__(self, monkeypatch, kernel_s: float = 1e-3, refused: BaseException | None = None) -> None:
        self.platform = syclsched.describe(["cpu"])
        self.graph = product_graph().with_implementations(
            lambda task, each: each.name in (kernel_selection.LIBRARY, "opencl-c")
        )
        self.history = HistoryStore(":memory:")
        _histories.append(self.history)
        self.told: list[str] = []
        self.made: list[SimpleNamespace] = []
        self.closed: list[SimpleNamespace] = []
        self.refused, self.refuses_again = refused, False
        self.seconds = {kernel_selection.LIBRARY: 2e-3, "opencl-c": kernel_s}
        monkeypatch.setattr(autotune, "measured_times", lambda traces, plan, origins: traces[0])

    def bound(self, graph: TaskGraph, *, calibrate: bool = True):
        """Return a mock runner of a graph."""
        if self.refused is not None and self.made:
            raise self.refused
        doing = {}
        for task in graph.tasks:
            names = [each.name for each in task.operation.implementations if each.kind != "host"]
            doing[task.name] = kernel_selection.LIBRARY if kernel_selection.LIBRARY in names else "opencl-c"
        launched = [(None, SimpleNamespace(kind="launch", task=name)) for name in doing]

        made = SimpleNamespace(
            specialised=SimpleNamespace(graph=graph, inputs={}, fetched=(), given=lambda values: values),
            plan=SimpleNamespace(
                instructions=lambda: launched,
                schedule=SimpleNamespace(
                    assignments=[SimpleNamespace(task=t, implementation=i) for t, i in doing.items()]
                ),
            ),
            runner=StandIn(),
            doing=doing,
        )
        made.close = lambda: self.closed.append(made)
        self.made.append(made)
        return made

    def rebind(self, bound, trace):
        """Return a mock of a runner whose traces have task times."""
        if self.refuses_again:
            raise MemoryLimitError("too little for two", where="here")
        (device,) = self.platform.compute_devices
        times = [OperatorTime("", t, device.name, i, self.seconds[i]) for t, i in bound.doing.items()]

        return StandIn(times)

    def faster_variant(self, least_gain: float = 0.0, *, is_limited: bool = False):
        """Return the faster plan."""
        offered = on_devices(self.graph, self.platform)
        variants = SimpleNamespace(
            session=self,
            plan_and_bind=self.bound,
            bind=lambda graph, plan: self.bound(graph),
            rebind=self.rebind,
            report_progress=self.told.append,
            trace=False,
            is_limited=is_limited,
        )
        return autotune.faster_variant(self.bound(offered), self.graph, {}, variants, least_gain)


@needs_onednn
@pytest.mark.parametrize(("library_s", "pauses_s"), [(2e-6, plan_comparison.SHORT_PAUSES_S), (4e-3, None)])
def test_short_models_are_compared_after_pauses(monkeypatch, quiet, library_s: float, pauses_s) -> None:
    harness, used = TuningHarness(monkeypatch, kernel_s=1e-6), []
    harness.seconds[kernel_selection.LIBRARY] = library_s

    def times(runs, pauses_s=None, **_):
        used.append(pauses_s)
        return [[2.0] * 9, [1.0] * 9]

    monkeypatch.setattr(autotune, "time_alternating", times)
    harness.faster_variant()
    assert used == [pauses_s]


@needs_onednn
@pytest.mark.parametrize(("kernels_s", "kept"), [(1.0, True), (2.03, True), (2.1, False), (3.0, False)])
def test_kernels_alone_are_kept_for_short_models_unless_slower(monkeypatch, quiet, kernels_s: float, kept) -> None:
    harness = TuningHarness(monkeypatch, kernel_s=1e-2)
    harness.seconds[kernel_selection.LIBRARY] = 2e-6
    monkeypatch.setattr(autotune, "time_alternating", lambda runs, *_, **__: [[2.0] * 9, [kernels_s] * 9])
    winner = harness.faster_variant()
    assert (set(winner.doing.values()) == {"opencl-c"}) == kept
    assert {id(each) for each in harness.closed} == {id(each) for each in harness.made if each is not winner}


@needs_onednn
@pytest.mark.parametrize(
    ("expected_s", "kernels_s", "wins"),
    [(1e-4, 1.0, True), (1e-4, 2.4, True), (1e-4, 2.8, False), (1e-2, 1.0, False)],
)
def test_on_a_busy_machine_short_models_run_by_kernels_unless_clearly_slower(
    monkeypatch, expected_s: float, kernels_s: float, wins: bool
) -> None:
    harness = TuningHarness(monkeypatch)
    for module in (plan_comparison, kernel_selection):
        monkeypatch.setattr(module, "is_disturbed", lambda _: True)
    monkeypatch.setattr(autotune, "time_alternating", lambda runs, *_, **__: [[2.0] * 9, [kernels_s] * 9])
    bound = harness.bound

    def planned(graph: TaskGraph, *, calibrate: bool = True) -> SimpleNamespace:
        made = bound(graph, calibrate=calibrate)
        made.plan.expected_s = expected_s
        return made

    monkeypatch.setattr(harness, "bound", planned)
    winner = harness.faster_variant()
    assert (set(winner.doing.values()) == {"opencl-c"}) == wins
    assert not len(harness.history)


@needs_onednn
@pytest.mark.parametrize(("by_library_s", "tried"), [(1e-3, True), (1.0, False)])
def test_kernels_with_little_possible_gain_are_not_made(monkeypatch, quiet, by_library_s, tried) -> None:
    harness = TuningHarness(monkeypatch)
    harness.seconds[kernel_selection.LIBRARY] = by_library_s
    monkeypatch.setattr(autotune, "select_kernels", lambda order, *_: frozenset(order))
    monkeypatch.setattr(autotune, "saved_share", lambda *_: 0.02)
    monkeypatch.setattr(autotune, "time_alternating", lambda runs, *_, **__: [[1.0] * 9, [2.0] * 9])
    harness.faster_variant(least_gain=0.06)
    assert any("opencl-c" in each.doing.values() for each in harness.made) == tried


@needs_onednn
@pytest.mark.parametrize(("saved", "wins"), [(0.5, True), (0.02, False)])
def test_within_a_memory_limit_one_plan_is_bound_at_a_time(monkeypatch, quiet, saved: float, wins: bool) -> None:
    harness = TuningHarness(monkeypatch)
    monkeypatch.setattr(autotune, "select_kernels", lambda order, *_: frozenset(order))
    monkeypatch.setattr(autotune, "saved_share", lambda *_: saved)
    monkeypatch.setattr(autotune, "time_alternating", lambda runs, *_, **__: pytest.fail("two plans were compared"))
    bound = harness.bound

    def alone(graph: TaskGraph, *, calibrate: bool = True) -> SimpleNamespace:
        assert all(each in harness.closed for each in harness.made)
        return bound(graph, calibrate=calibrate)

    monkeypatch.setattr(harness, "bound", alone)
    winner = harness.faster_variant(is_limited=True)
    assert winner not in harness.closed
    assert (set(winner.doing.values()) == {"opencl-c"}) == wins


@dataclass(frozen=True)
class MadePlan:
    platform: Platform


LIMIT = 1 << 20


@dataclass(frozen=True)
class Planner:
    """A planner whose plans need all memory of a platform; ``fails`` with less memory than the limit."""

    platform: Platform
    fails: BaseException | None = None
    choices_only: bool = False

    def choose(self, graph: TaskGraph, *, tries: bool = True, live: object = None) -> ChosenPlan:
        (device,) = self.platform.compute_devices
        capacity = self.platform.space(device.space).capacity_bytes
        if self.fails is not None and capacity < LIMIT:
            raise self.fails
        name = f"{'tried' if tries else 'best'} of {'all' if capacity == LIMIT else 'less'}"
        return ChosenPlan(MadePlan(self.platform), lambda _: name)  # type: ignore[arg-type, return-value]


class Bindings:
    """A mock of `syclsched.execution.bind` that allows one open runner at a time."""

    def __init__(self, *, replayed: bool = True, fails: bool = False, lacks_memory: bool = True) -> None:
        self.replayed, self.fails, self.lacks_memory = replayed, fails, lacks_memory
        self.made: list[SimpleNamespace] = []
        self.keys: list[str | None] = []

    def __call__(self, plan: MadePlan, graph: TaskGraph, live: object, *, makespan_key, **_: object) -> SimpleNamespace:
        assert all(runner.closed for runner in self.made) and plan.platform.spaces[-1].capacity_bytes == LIMIT
        self.keys.append(makespan_key and makespan_key("whole"))
        if self.fails and len(self.keys) == 2:
            raise MemoryLimitError("too little to bind it", where="here")
        replayed = self.replayed and len(self.made) == 1
        runner = SimpleNamespace(replayed=replayed, lacks_memory=self.lacks_memory and not replayed, closed=False)
        runner.close = lambda: setattr(runner, "closed", True)
        self.made.append(runner)
        return runner


def builder(monkeypatch, bind: Bindings, fails: BaseException | None = None, **options: bool) -> Any:
    """Return a function that plans and binds a graph with a memory limit."""
    limited = syclsched.with_memory_limit(syclsched.describe(["cpu"]), LIMIT)
    limited = replace(limited, spaces=tuple(replace(each, capacity_bytes=LIMIT) for each in limited.spaces))
    monkeypatch.setattr("syclsched.execution.bind", bind)
    graph = product_graph()
    made: Any = partial(autotune.VariantBuilder, Planner(limited, fails), None, Specialised(graph, {}, {}, {}))
    return partial(made(lambda _: None, **options).plan_and_bind, graph, calibrate=False)


@pytest.mark.parametrize(
    ("is_limited", "fails", "replayed", "bound"),
    [
        (True, None, True, 2),
        (True, None, False, 3),
        (True, MemoryLimitError("too little", where="here"), True, 1),
        (False, None, True, 1),
    ],
)
def test_plan_not_replayed_is_made_for_less_memory(
    monkeypatch, is_limited: bool, fails: BaseException | None, replayed: bool, bound: int
) -> None:
    bind = Bindings(replayed=replayed)
    found = builder(monkeypatch, bind, fails, is_limited=is_limited)()
    assert len(bind.made) == bound and found.runner is bind.made[-1] and not found.runner.closed


def test_a_plan_that_is_dispatched_for_another_reason_is_not_made_again(monkeypatch) -> None:
    bind = Bindings(replayed=False, lacks_memory=False)
    found = builder(monkeypatch, bind, is_limited=True)()
    assert [found.runner] == bind.made and not found.runner.closed


@pytest.mark.parametrize("tries", [False, True])
def test_a_plan_for_less_memory_takes_part_in_trials(monkeypatch, tries: bool) -> None:
    bind = Bindings(replayed=False)
    builder(monkeypatch, bind, is_limited=True, tries=tries)()
    assert bind.keys == (["tried of all", "tried of less", "tried of all"] if tries else [None] * 3)


def test_first_plan_stays_if_the_smaller_cannot_be_bound(monkeypatch) -> None:
    bind = Bindings(fails=True)
    found = builder(monkeypatch, bind, is_limited=True)()
    assert len(bind.keys) == 3 and found.runner is bind.made[-1] and not found.runner.closed


def test_interrupt_while_planning_leaves_nothing_open(monkeypatch) -> None:
    bind = Bindings()
    with pytest.raises(KeyboardInterrupt):
        builder(monkeypatch, bind, KeyboardInterrupt(), is_limited=True)()
    assert [runner.closed for runner in bind.made] == [True]


@needs_onednn
def test_a_variant_that_is_refused_loses(monkeypatch, quiet) -> None:
    harness = TuningHarness(monkeypatch, kernel_s=1e-4, refused=MemoryLimitError("too little for two", where="here"))
    winner = harness.faster_variant()
    assert winner is harness.made[0] and not harness.closed
    assert plan_comparison.stored_ratio(harness.platform.compute_devices[0], harness.history, "any") is None
    unable = TuningHarness(monkeypatch, kernel_s=1e-4)
    unable.refuses_again = True
    assert unable.faster_variant() is unable.made[0] and not unable.closed and not len(unable.history)


@needs_onednn
def test_an_interrupted_comparison_closes_all_and_can_be_repeated(monkeypatch, quiet) -> None:
    harness = TuningHarness(monkeypatch, kernel_s=1e-4)

    def interrupted(runs, *_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(autotune, "time_alternating", interrupted)
    with pytest.raises(KeyboardInterrupt):
        harness.faster_variant()
    assert harness.closed == harness.made and len(harness.made) >= 2
    monkeypatch.setattr(autotune, "time_alternating", lambda runs, *_, **__: [[2.0] * 9, [1.0] * 9])
    winner = harness.faster_variant()
    assert winner.doing != harness.made[0].doing and winner not in harness.closed


@needs_onednn
def test_only_uncertain_comparisons_are_repeated(monkeypatch, quiet) -> None:
    harness, raced = TuningHarness(monkeypatch, kernel_s=1e-4), []

    def in_turns(runs, *_, **__):
        raced.append(1)
        return times

    monkeypatch.setattr(autotune, "time_alternating", in_turns)
    times = [[1.0] * 9, [0.979] * 9]  # by no more than noise
    assert harness.faster_variant().doing != harness.made[0].doing
    harness.faster_variant()
    assert len(raced) == 2
    times, certain = [[1.0] * 9, [0.7] * 9], TuningHarness(monkeypatch, kernel_s=1e-4)
    certain.faster_variant()
    assert len(raced) == 3
    assert certain.faster_variant().doing != certain.made[0].doing and len(raced) == 3


@needs_onednn
@pytest.mark.parametrize("wanted", [True, False])
def test_a_variant_also_measures_kernels_without_known_times(monkeypatch, quiet, wanted: bool) -> None:
    harness = TuningHarness(monkeypatch)
    chosen = iter([{"first"}, {"first", "second"} if wanted else {"first"}, *[{"first"}] * 9])
    monkeypatch.setattr(autotune, "select_kernels", lambda *_: frozenset(next(chosen)))
    monkeypatch.setattr(autotune, "samples", lambda *_: frozenset({"second"} if len(harness.made) == 1 else ()))
    monkeypatch.setattr(autotune, "time_alternating", lambda runs, *_, **__: [[2.0] * 9, [1.0] * 9])
    winner = harness.faster_variant()
    by_kernels = [{task for task, by in made.doing.items() if by == "opencl-c"} for made in harness.made]
    assert by_kernels[1] == {"first", "second"}
    assert winner.doing == harness.made[1 if wanted else 2].doing and len(harness.made) == (2 if wanted else 3)
    assert {id(each) for each in harness.closed} == {id(each) for each in harness.made if each is not winner}


@needs_onednn
def test_kernels_that_cannot_be_faster_are_not_compared(monkeypatch, quiet) -> None:
    harness = TuningHarness(monkeypatch, kernel_s=3e-3)
    monkeypatch.setattr(autotune, "time_alternating", lambda runs, *_, **__: pytest.fail("raced"))
    winner = harness.faster_variant()
    assert winner.doing == harness.made[0].doing
    # Planned once more when the times of its tasks were known, and not again.
    assert winner is harness.made[-1] and winner is not harness.made[0]
    before = len(harness.made)
    assert harness.faster_variant() is harness.made[before] and len(harness.made) == before + 1


@needs_onednn
@pytest.mark.parametrize(
    ("by_library_s", "share", "raced"),
    [(15e-3, 0.2, False), (15e-3, 0.02, True), (4e-3, 0.2, True), (0.2, 0.02, False)],
)
def test_a_clear_saving_by_the_tasks_times_is_not_raced(monkeypatch, quiet, by_library_s, share, raced) -> None:
    harness, races = TuningHarness(monkeypatch, kernel_s=1e-3), []
    harness.seconds[kernel_selection.LIBRARY] = by_library_s  # of each of two tasks
    monkeypatch.setattr(autotune, "select_kernels", lambda order, *_: frozenset(order))
    monkeypatch.setattr(autotune, "saved_share", lambda *_: share)
    monkeypatch.setattr(autotune, "time_alternating", lambda runs, *_, **__: races.append(1) or [[1.0] * 9, [2.0] * 9])
    winner = harness.faster_variant()
    assert bool(races) == raced
    assert (set(winner.doing.values()) == {"opencl-c"}) == (not raced)
