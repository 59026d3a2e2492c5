# SPDX-License-Identifier: Apache-2.0
"""Kernels between a library's tasks: where they gain more than it costs to change over, and only if that is true."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise, product
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from support.onednn_calls import needs_onednn

import syclsched
from syclsched.costs import CostModel
from syclsched.costs.history import MemoryHistory
from syclsched.errors import MemoryLimitError
from syclsched.kernels.nn import matmul
from syclsched.kernels.nn.quantised.integer_matmul import integer_matmul
from syclsched.kernels.tensor.elementwise import elementwise
from syclsched.kernels.tensor.transpose import transpose
from syclsched.model.graph import TaskGraph
from syclsched.model.platform import Platform
from syclsched.model.profile import Quantity
from syclsched.onnx.report import OperatorTime
from syclsched.onnx.specialised import Specialised
from syclsched.onnx.tuning import autotune, kernel_selection, plan_comparison
from syclsched.onnx.tuning.implementations import on_devices
from syclsched.onnx.tuning.kernel_selection import (
    is_known,
    record_corrections,
    record_times,
    samples,
    saved_share,
    select_kernels,
    task_times,
)
from syclsched.planning_session import ChosenPlan
from syclsched.profiling import HistoryStore
from syclsched.profiling.busy import CpuTimes

MODEL = Path(__file__).parents[3] / "examples" / "data" / "digits.onnx"


class History(MemoryHistory):
    def record(self, key, seconds, **circumstances) -> None:
        self[key] = Quantity(float(np.median(seconds)), "measured")


def product_graph() -> TaskGraph:
    graph = TaskGraph()
    a, b, c = (graph.array(name, (32, 32), "float32") for name in "abc")
    weights = syclsched.constant(np.eye(32, dtype=np.float32))
    graph.kernel(matmul(), name="first", y=b, a=a, b=weights)
    graph.kernel(matmul(), name="second", y=c, a=b, b=weights)
    return graph


@pytest.fixture
def quiet(monkeypatch) -> None:
    monkeypatch.setattr(kernel_selection, "read_times", lambda: None)
    monkeypatch.setattr(plan_comparison, "read_times", lambda: None)


def test_a_kernel_is_taken_if_it_gains_more_than_two_changes() -> None:
    library = {"a": 5.0, "b": 5.0, "c": 5.0}
    assert select_kernels("abc", library, {"b": 2.9}, 1.0) == {"b"}
    assert select_kernels("abc", library, {"b": 3.0}, 1.0) == frozenset()


def test_at_the_ends_and_beside_what_only_kernels_do_there_are_fewer_changes() -> None:
    library = {"a": 5.0, "b": 5.0, "c": 5.0}
    assert select_kernels("abc", library, {"c": 3.9}, 1.0) == {"c"}
    assert select_kernels("abcd", library, {"c": 5.5, "d": 9.0}, 1.0) == {"d"}
    assert select_kernels("abcde", library | {"e": 1.0}, {"c": 4.5, "d": 9.0}, 1.0) == {"c", "d"}


def test_a_slower_kernel_between_two_fast_ones_saves_changes() -> None:
    assert select_kernels("abc", dict.fromkeys("abc", 5.0), {"a": 1.0, "b": 6.0, "c": 1.0}, 1.0) == set("abc")


def test_no_other_choice_takes_less() -> None:
    random = Random(1)
    for _ in range(100):
        tasks = [str(i) for i in range(6)]
        library = {t: random.random() for t in tasks if random.random() < 0.8}
        kernel = {t: random.random() for t in tasks if t not in library or random.random() < 0.6}

        def cost(chosen: set[str], library=library, kernel=kernel, tasks=tasks) -> float:
            changes = sum((a in chosen) != (b in chosen) for a, b in pairwise(tasks))
            return sum((kernel if t in chosen else library).get(t, 1e9) for t in tasks) + 0.3 * changes

        possible = ({t for t, yes in zip(tasks, bits, strict=True) if yes} for bits in product((0, 1), repeat=6))
        found = cost(set(select_kernels(tasks, library, kernel, 0.3)))
        assert found == pytest.approx(min(cost(each) for each in possible))


def test_what_kernels_save_is_told_with_all_changes() -> None:
    library = {"a": 4.0, "b": 4.0, "c": 2.0}
    kernel = {"a": 9.0, "b": 1.0, "d": 5.0}
    assert saved_share("abc", library, kernel, {"b"}, 0.5) == pytest.approx(2.0 / 10.0)
    assert saved_share("abcd", library, kernel, {"b"}, 0.5) == pytest.approx(2.0 / 15.5)  # to d both change
    assert saved_share("abc", library, kernel, (), 0.5) == 0.0
    assert saved_share("abc", library, kernel, {"a"}, 0.5) < 0.0
    assert saved_share("x", {}, {}, (), 0.5) == 0.0


def test_what_neither_does_is_passed_over() -> None:
    assert select_kernels(["a", "host", "b"], {"a": 5.0}, {"a": 1.0, "b": 1.0}, 1.0) == {"a", "b"}


@needs_onednn
def test_on_cpus_all_but_some_tasks_are_left_to_the_library() -> None:
    platform = syclsched.describe(["cpu"])
    graph = on_devices(product_graph(), platform, {"second"})
    by = {task.name: {each.name for each in task.operation.implementations} for task in graph.tasks}
    assert by["first"] == {kernel_selection.LIBRARY} and by["second"] and kernel_selection.LIBRARY not in by["second"]


@needs_onednn
def test_a_task_whose_kernels_refuse_its_shapes_is_left_to_the_library() -> None:
    """Kernels were chosen for other shapes of the same task; those of 8 bits have none for no rows."""
    graph = TaskGraph()
    y, x = graph.array("y", (0, 4), "int32"), graph.array("x", (0, 8), "uint8")
    weights = syclsched.constant(np.ones((8, 4), np.int8))
    graph.kernel(integer_matmul(), name="product", y=y, x=x, w=weights, z=graph.array("z", (1,), "int32"))
    platform = syclsched.describe(["cpu"])
    (task,) = on_devices(graph, platform, {"product"}).tasks
    assert {each.name for each in task.operation.implementations} == {kernel_selection.LIBRARY}
    syclsched.plan(on_devices(graph, platform, {"product"}), platform)


@needs_onednn
@pytest.mark.parametrize(("rows", "library_is_taken"), [(32, False), (32_000, True)])
def test_a_tiny_task_between_kernels_is_one(rows: int, library_is_taken: bool) -> None:
    graph = TaskGraph()
    arrays = [graph.array(name, (rows, 20), "float32") for name in "xab"]
    turned = [graph.array(name, (20, rows), "float32") for name in "cyz"]
    double, mirror = elementwise(("add", 0, 0), 1), transpose((1, 0))
    graph.kernel(double, name="before", y=arrays[1], x0=arrays[0])
    graph.kernel(mirror, name="between", y=turned[0], x=arrays[1])
    graph.kernel(double, name="after", y=turned[1], x0=turned[0])
    graph.kernel(mirror, name="at the end", y=arrays[2], x=turned[1])
    offered = on_devices(graph, syclsched.describe(["cpu"]))
    by = {task.name: {each.name for each in task.operation.implementations} for task in offered.tasks}
    assert (by["between"] == {kernel_selection.LIBRARY}) == library_is_taken
    assert by["at the end"] == {kernel_selection.LIBRARY}
    assert kernel_selection.LIBRARY not in by["before"] | by["after"]


@needs_onednn
def test_a_second_cpu_device_that_the_library_refuses_does_not_keep_it_from_the_first() -> None:
    platform = syclsched.describe(["cpu"])
    (device,) = platform.compute_devices
    other = replace(device, name="cpu1", key="another maker's", refusals=(("oneDNN", "no engine"),))
    graph = on_devices(product_graph(), replace(platform, devices=(device, other, *platform.devices[1:])))
    assert {each.name for task in graph.tasks for each in task.operation.implementations} == {kernel_selection.LIBRARY}


@needs_onednn
def test_the_least_time_in_a_run_is_remembered_for_equal_tasks(quiet) -> None:
    platform = syclsched.describe(["cpu"])
    (device,) = platform.compute_devices
    graph, history, names = on_devices(product_graph(), platform), History(), ("first", "second")
    told = [OperatorTime("", "first", device.name, kernel_selection.LIBRARY, seconds) for seconds in (4e-3, 3e-3, 5e-3)]
    assert not is_known(graph, names, device, history)
    assert record_times(graph, names, device, history, lambda: told) and is_known(graph, names, device, history)
    library = task_times(product_graph(), device, CostModel(platform), history, by_library=True)
    assert library == {"first": 3e-3, "second": 3e-3}  # one signature


def test_what_kernels_take_in_a_run_has_the_launch_added(quiet) -> None:
    platform = syclsched.describe(["cpu"])
    (device,) = platform.compute_devices
    graph = product_graph().with_implementations(lambda task, each: each.name == "opencl-c")
    costs, history = CostModel(platform), History()
    told = [OperatorTime("", "first", device.name, "opencl-c", 3e-3)]
    assert record_times(graph, ("first",), device, history, lambda: told)
    (by,) = graph.find_task("first").operation.implementations
    assert costs.launch_gap_s(by, device) > 0.0
    found = task_times(graph, device, costs, history, by_library=False)
    assert found["first"] == pytest.approx(3e-3 + costs.launch_gap_s(by, device))


def test_of_kernels_that_never_ran_it_is_guessed() -> None:
    platform = syclsched.describe(["cpu"])
    (device,) = platform.compute_devices
    costs, history = CostModel(platform), History()
    assert not task_times(product_graph(), device, costs, history, by_library=True)
    guessed = task_times(product_graph(), device, costs, history, by_library=False)
    best = [
        costs.task_seconds(task, each, device).seconds
        for task in product_graph().tasks
        for each in task.operation.implementations
        if each.name != kernel_selection.LIBRARY and each.kind != "host" and costs.supports(task, each, device) is None
    ]
    assert set(guessed) == {"first", "second"} and min(guessed.values()) == min(best)


@needs_onednn
def test_a_kernel_that_never_ran_is_guessed_by_the_time_of_the_library_if_that_is_less(quiet) -> None:
    platform = syclsched.describe(["cpu"])
    (device,) = platform.compute_devices
    graph = product_graph().with_implementations(lambda _, each: each.name in ("onednn", "opencl-c"))
    by = {each.name: each for each in graph.find_task("first").operation.implementations}
    unlike = task_times(graph, device, CostModel(platform), History(), by_library=False)["first"]
    for library_s, wanted in ((1e-9, 1e-9 * by["onednn"].efficiency / by["opencl-c"].efficiency), (1.0, unlike)):
        told = [OperatorTime("", "first", device.name, "onednn", library_s)]
        history = History()
        assert record_times(graph, ("first",), device, history, lambda told=told: told)
        found = task_times(graph, device, CostModel(platform), history, by_library=False)["first"]
        assert found == pytest.approx(wanted)


def products_of(sizes, by=("onednn", "opencl-c")) -> TaskGraph:
    whole = TaskGraph()
    for size in sizes:
        a, b = (whole.array(f"{name}{size}", (size, size), "float32") for name in "ab")
        weights = syclsched.constant(np.eye(size, dtype=np.float32))
        whole.kernel(matmul(), name=f"of {size}", y=b, a=a, b=weights)
    return whole.with_implementations(lambda _, each: each.name in by)


@needs_onednn
def test_the_longest_task_of_a_kind_tells_what_its_kernels_take_until_it_has_run(quiet) -> None:
    platform = syclsched.describe(["cpu"])
    (device,) = platform.compute_devices
    costs, history, sizes = CostModel(platform), History(), (16, 32, 48, 64)
    graph, names = products_of(sizes), [f"of {size}" for size in sizes]
    assert not samples(graph, device, costs, history)  # the library's times are unknown, too
    told = [OperatorTime("", name, device.name, "onednn", 1e-6 * (i + 1)) for i, name in enumerate(names)]
    assert record_times(graph, names, device, history, lambda: told)
    assert samples(graph, device, costs, history) == {"of 64"}
    told = [OperatorTime("", "of 64", device.name, "opencl-c", 1e-6)]
    assert record_times(graph, ["of 64"], device, history, lambda: told)
    assert not samples(graph, device, costs, history)
    assert samples(products_of(sizes[:3]), device, costs, history) == {"of 48"}  # another model


@needs_onednn
def test_tasks_that_have_run_by_another_kernel_than_expected_are_not_tried_again(quiet) -> None:
    platform = syclsched.describe(["cpu"])
    (device,) = platform.compute_devices
    costs, history = CostModel(platform), History()
    graph, names = products_of((16, 32), ("onednn", "opencl-c", "python")), ["of 16", "of 32"]
    for name, seconds, expected in (("onednn", 1e-6, {"of 32"}), ("python", 1.0, set())):
        told = [OperatorTime("", each, device.name, name, seconds) for each in names]
        assert record_times(graph, names, device, history, lambda told=told: told)
        assert samples(graph, device, costs, history) == expected


@needs_onednn
@pytest.mark.parametrize(("sizes_that_ran", "is_corrected"), [((16,), True), ((), False)])
def test_a_kernel_that_never_ran_is_guessed_as_those_of_other_sizes_do(quiet, sizes_that_ran, is_corrected) -> None:
    platform = syclsched.describe(["cpu"])
    (device,) = platform.compute_devices
    graph = products_of((*sizes_that_ran, 64))
    by = {each.name: each for each in graph.find_task("of 64").operation.implementations}
    stated, costs, history = by["onednn"].efficiency / by["opencl-c"].efficiency, CostModel(platform), History()
    for size in (*sizes_that_ran, 64):
        times = {"onednn": 1e-8 if size == 64 else 1e-7} | ({} if size == 64 else {"opencl-c": 1e-9})
        told = [OperatorTime("", f"of {size}", device.name, name, seconds) for name, seconds in times.items()]
        assert record_times(graph, [f"of {size}"], device, history, lambda told=told: told)
    found = task_times(graph, device, costs, history, by_library=False)["of 64"]
    compared = (1e-9 + costs.launch_gap_s(by["opencl-c"], device)) / (1e-7 * stated) if is_corrected else 1.0
    assert compared != 1.0 or not is_corrected
    assert found == pytest.approx(1e-8 * stated * compared)


@needs_onednn
def test_kernels_of_another_model_tell_what_these_take_until_one_has_run(quiet) -> None:
    platform = syclsched.describe(["cpu"])
    (device,) = platform.compute_devices
    costs, history, other, graph = CostModel(platform), History(), products_of((16, 32)), products_of((48, 64))
    by = {each.name: each for each in graph.find_task("of 64").operation.implementations}
    stated, gap_s = by["onednn"].efficiency / by["opencl-c"].efficiency, costs.launch_gap_s(by["opencl-c"], device)

    def ran(whole: TaskGraph, name: str, **seconds: float) -> None:
        told = [OperatorTime("", name, device.name, way.replace("_", "-"), each) for way, each in seconds.items()]
        assert record_times(whole, [name], device, history, lambda: told)

    def guessed() -> float:
        return task_times(graph, device, costs, history, by_library=False)["of 64"]

    ran(other, "of 16", onednn=1e-7, opencl_c=1e-9)
    ran(graph, "of 64", onednn=1e-8)
    assert guessed() == pytest.approx(1e-8 * stated)  # as stated
    record_corrections(other, device, costs, history)
    assert guessed() == pytest.approx(1e-8 * (1e-9 + gap_s) / 1e-7)
    assert samples(graph, device, costs, history) == {"of 64"}  # it is tried all the same
    ran(graph, "of 48", onednn=1e-7, opencl_c=2e-9)
    assert guessed() == pytest.approx(1e-8 * (2e-9 + gap_s) / 1e-7)


@pytest.mark.parametrize("wins", ["library", "kernels", None])
def test_all_that_was_bound_is_closed_but_what_wins(monkeypatch, wins: str | None) -> None:
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
    # Times of this machine decide nothing: kernels are predicted to save half, and `faster` is the comparison's result.
    monkeypatch.setattr(autotune, "saved_share", lambda *_: 0.5)
    monkeypatch.setattr(autotune, "is_known_faster", lambda *_: None)
    decide = lambda device, history, mixed, measure: bool(measure()) and faster  # noqa: E731
    monkeypatch.setattr(autotune, "measure_is_faster", decide)
    with syclsched.compile(MODEL, devices="cpu") as tuned:
        np.testing.assert_allclose(tuned(image)["probabilities"], wanted, atol=1e-5)
        left = [each for each in tuned.report.operators if each.implementation == kernel_selection.LIBRARY]
    assert by_library and bool(left) != faster


def test_on_a_busy_machine_no_time_is_remembered(monkeypatch) -> None:
    readings = iter([CpuTimes(busy_s=0, total_s=0, own_s=0), CpuTimes(busy_s=1.5, total_s=2, own_s=0.5)])
    for module in (plan_comparison, kernel_selection):
        monkeypatch.setattr(module, "read_times", lambda: next(readings))
    (device,) = syclsched.describe(["cpu"]).compute_devices
    history = History()
    assert not record_times(product_graph(), ("first", "second"), device, history, list)
    assert not history


_histories: list[HistoryStore] = []


@pytest.fixture(autouse=True)
def _closes_histories() -> Iterator[None]:
    yield
    while _histories:
        _histories.pop().close()


class StandIn:
    """A runner that computes nothing, and whose traces tell what its tasks take."""

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


class Stage:
    """Plans of a graph that take made-up times, without devices: what `autotune` does with them."""

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
        """Return a stand-in for what is bound of a graph."""
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

    def again(self, bound, trace):
        """Return a stand-in for a runner whose traces tell what its tasks take."""
        if self.refuses_again:
            raise MemoryLimitError("too little for two", where="here")
        (device,) = self.platform.compute_devices
        times = [OperatorTime("", t, device.name, i, self.seconds[i]) for t, i in bound.doing.items()]

        return StandIn(times)

    def race(self, least_gain: float = 0.0, *, is_limited: bool = False):
        """Return who wins."""
        offered = on_devices(self.graph, self.platform)
        variants = SimpleNamespace(
            session=self,
            plan_and_bind=self.bound,
            bind=lambda graph, plan: self.bound(graph),
            rebind=self.again,
            report_progress=self.told.append,
            trace=False,
            is_limited=is_limited,
        )
        return autotune.faster_variant(self.bound(offered), self.graph, {}, variants, least_gain)


@needs_onednn
@pytest.mark.parametrize("faster", [True, False])
def test_kernels_alone_are_tried_for_short_models_whatever_is_predicted(monkeypatch, quiet, faster) -> None:
    stage = Stage(monkeypatch, kernel_s=1e-2)
    stage.seconds[kernel_selection.LIBRARY] = 2e-6
    monkeypatch.setattr(autotune, "time_alternating", lambda runs: [[2.0] * 9, [1.0 if faster else 3.0] * 9])
    winner = stage.race()
    assert (set(winner.doing.values()) == {"opencl-c"}) == faster
    assert {id(each) for each in stage.closed} == {id(each) for each in stage.made if each is not winner}


@needs_onednn
@pytest.mark.parametrize(
    ("expected_s", "kernels_s", "wins"), [(1e-4, 1.0, True), (1e-4, 1.8, False), (1e-2, 1.0, False)]
)
def test_on_a_busy_machine_short_models_take_kernels_that_are_clearly_faster(
    monkeypatch, expected_s: float, kernels_s: float, wins: bool
) -> None:
    stage = Stage(monkeypatch)
    for module in (plan_comparison, kernel_selection):
        monkeypatch.setattr(module, "is_disturbed", lambda _: True)
    monkeypatch.setattr(autotune, "time_alternating", lambda runs: [[2.0] * 9, [kernels_s] * 9])
    bound = stage.bound

    def planned(graph: TaskGraph, *, calibrate: bool = True) -> SimpleNamespace:
        made = bound(graph, calibrate=calibrate)
        made.plan.expected_s = expected_s
        return made

    monkeypatch.setattr(stage, "bound", planned)
    winner = stage.race()
    assert (set(winner.doing.values()) == {"opencl-c"}) == wins
    assert not len(stage.history)


@needs_onednn
@pytest.mark.parametrize(("by_library_s", "tried"), [(1e-3, True), (1.0, False)])
def test_of_long_models_kernels_that_may_save_little_are_not_made(monkeypatch, quiet, by_library_s, tried) -> None:
    stage = Stage(monkeypatch)
    stage.seconds[kernel_selection.LIBRARY] = by_library_s
    monkeypatch.setattr(autotune, "select_kernels", lambda order, *_: frozenset(order))
    monkeypatch.setattr(autotune, "saved_share", lambda *_: 0.05)
    monkeypatch.setattr(autotune, "time_alternating", lambda runs: [[1.0] * 9, [2.0] * 9])
    stage.race(least_gain=0.06)
    assert any("opencl-c" in each.doing.values() for each in stage.made) == tried


@needs_onednn
@pytest.mark.parametrize(("saved", "wins"), [(0.5, True), (0.1, False)])
def test_within_a_memory_limit_one_plan_is_bound_at_a_time(monkeypatch, quiet, saved: float, wins: bool) -> None:
    stage = Stage(monkeypatch)
    monkeypatch.setattr(autotune, "select_kernels", lambda order, *_: frozenset(order))
    monkeypatch.setattr(autotune, "saved_share", lambda *_: saved)
    monkeypatch.setattr(autotune, "time_alternating", lambda runs: pytest.fail("two plans were compared"))
    bound = stage.bound

    def alone(graph: TaskGraph, *, calibrate: bool = True) -> SimpleNamespace:
        assert all(each in stage.closed for each in stage.made)
        return bound(graph, calibrate=calibrate)

    monkeypatch.setattr(stage, "bound", alone)
    winner = stage.race(is_limited=True)
    assert winner not in stage.closed
    assert (set(winner.doing.values()) == {"opencl-c"}) == wins


@dataclass(frozen=True)
class MadePlan:
    platform: Platform


LIMIT = 1 << 20


@dataclass(frozen=True)
class Planner:
    """Makes plans that need all memory of a platform; ``fails`` with less memory than the limit."""

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
    """Stands for `syclsched.execution.bind`: one runner is open at a time."""

    def __init__(self, *, replayed: bool = True, fails: bool = False) -> None:
        self.replayed, self.fails = replayed, fails
        self.made: list[SimpleNamespace] = []
        self.keys: list[str | None] = []

    def __call__(self, plan: MadePlan, graph: TaskGraph, live: object, *, makespan_key, **_: object) -> SimpleNamespace:
        assert all(runner.closed for runner in self.made) and plan.platform.spaces[-1].capacity_bytes == LIMIT
        self.keys.append(makespan_key and makespan_key("whole"))
        if self.fails and len(self.keys) == 2:
            raise MemoryLimitError("too little to bind it", where="here")
        runner = SimpleNamespace(replayed=self.replayed and len(self.made) == 1, closed=False)
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
def test_a_plan_for_all_memory_is_made_for_less_if_it_is_not_replayed(
    monkeypatch, is_limited: bool, fails: BaseException | None, replayed: bool, bound: int
) -> None:
    bind = Bindings(replayed=replayed)
    found = builder(monkeypatch, bind, fails, is_limited=is_limited)()
    assert len(bind.made) == bound and found.runner is bind.made[-1] and not found.runner.closed


@pytest.mark.parametrize("tries", [False, True])
def test_a_plan_for_less_memory_is_tried_as_others_are(monkeypatch, tries: bool) -> None:
    bind = Bindings(replayed=False)
    builder(monkeypatch, bind, is_limited=True, tries=tries)()
    assert bind.keys == (["tried of all", "tried of less", "tried of all"] if tries else [None] * 3)


def test_a_plan_for_less_memory_that_cannot_be_bound_leaves_the_first(monkeypatch) -> None:
    bind = Bindings(fails=True)
    found = builder(monkeypatch, bind, is_limited=True)()
    assert len(bind.keys) == 3 and found.runner is bind.made[-1] and not found.runner.closed


def test_an_interrupt_while_a_plan_for_less_memory_is_made_leaves_nothing_open(monkeypatch) -> None:
    bind = Bindings()
    with pytest.raises(KeyboardInterrupt):
        builder(monkeypatch, bind, KeyboardInterrupt(), is_limited=True)()
    assert [runner.closed for runner in bind.made] == [True]


@needs_onednn
def test_what_is_refused_in_a_race_is_out(monkeypatch, quiet) -> None:
    stage = Stage(monkeypatch, kernel_s=1e-4, refused=MemoryLimitError("too little for two", where="here"))
    winner = stage.race()
    assert winner is stage.made[0] and not stage.closed
    assert plan_comparison.stored_ratio(stage.platform.compute_devices[0], stage.history, "any") is None
    unable = Stage(monkeypatch, kernel_s=1e-4)
    unable.refuses_again = True
    assert unable.race() is unable.made[0] and not unable.closed and not len(unable.history)


@needs_onednn
def test_a_race_that_was_interrupted_leaves_nothing_open_and_can_be_run_again(monkeypatch, quiet) -> None:
    stage = Stage(monkeypatch, kernel_s=1e-4)

    def interrupted(runs):
        raise KeyboardInterrupt

    monkeypatch.setattr(autotune, "time_alternating", interrupted)
    with pytest.raises(KeyboardInterrupt):
        stage.race()
    assert stage.closed == stage.made and len(stage.made) >= 2
    monkeypatch.setattr(autotune, "time_alternating", lambda runs: [[2.0] * 9, [1.0] * 9])
    winner = stage.race()
    assert winner.doing != stage.made[0].doing and winner not in stage.closed


@needs_onednn
def test_what_was_undecided_is_raced_again_and_what_was_certain_is_not(monkeypatch, quiet) -> None:
    stage, raced = Stage(monkeypatch, kernel_s=1e-4), []

    def in_turns(runs):
        raced.append(1)
        return times

    monkeypatch.setattr(autotune, "time_alternating", in_turns)
    times = [[1.0] * 9, [0.979] * 9]  # by no more than noise
    assert stage.race().doing != stage.made[0].doing
    stage.race()
    assert len(raced) == 2
    times, certain = [[1.0] * 9, [0.7] * 9], Stage(monkeypatch, kernel_s=1e-4)
    certain.race()
    assert len(raced) == 3
    assert certain.race().doing != certain.made[0].doing and len(raced) == 3


@needs_onednn
@pytest.mark.parametrize("wanted", [True, False])
def test_a_plan_that_is_made_anyway_tells_what_other_kernels_take(monkeypatch, quiet, wanted: bool) -> None:
    stage = Stage(monkeypatch)
    chosen = iter([{"first"}, {"first", "second"} if wanted else {"first"}, *[{"first"}] * 9])
    monkeypatch.setattr(autotune, "select_kernels", lambda *_: frozenset(next(chosen)))
    monkeypatch.setattr(autotune, "samples", lambda *_: frozenset({"second"} if len(stage.made) == 1 else ()))
    monkeypatch.setattr(autotune, "time_alternating", lambda runs: [[2.0] * 9, [1.0] * 9])
    winner = stage.race()
    by_kernels = [{task for task, by in made.doing.items() if by == "opencl-c"} for made in stage.made]
    assert by_kernels[1] == {"first", "second"}
    assert winner.doing == stage.made[1 if wanted else 2].doing and len(stage.made) == (2 if wanted else 3)
    assert {id(each) for each in stage.closed} == {id(each) for each in stage.made if each is not winner}


@needs_onednn
def test_kernels_that_cannot_win_are_not_raced(monkeypatch, quiet) -> None:
    stage = Stage(monkeypatch, kernel_s=3e-3)
    monkeypatch.setattr(autotune, "time_alternating", lambda runs: pytest.fail("raced"))
    winner = stage.race()
    assert winner.doing == stage.made[0].doing
    # Planned anew, once the times of its tasks were known, and not once more.
    assert winner is stage.made[-1] and winner is not stage.made[0]
    before = len(stage.made)
    assert stage.race() is stage.made[before] and len(stage.made) == before + 1


@needs_onednn
@pytest.mark.parametrize(
    ("by_library_s", "share", "raced"), [(15e-3, 0.2, False), (15e-3, 0.1, True), (5e-3, 0.2, True), (0.2, 0.05, False)]
)
def test_a_clear_saving_by_the_tasks_times_is_not_raced(monkeypatch, quiet, by_library_s, share, raced) -> None:
    stage, races = Stage(monkeypatch, kernel_s=1e-3), []
    stage.seconds[kernel_selection.LIBRARY] = by_library_s  # of each of two tasks
    monkeypatch.setattr(autotune, "select_kernels", lambda order, *_: frozenset(order))
    monkeypatch.setattr(autotune, "saved_share", lambda *_: share)
    monkeypatch.setattr(autotune, "time_alternating", lambda runs: races.append(1) or [[1.0] * 9, [2.0] * 9])
    winner = stage.race()
    assert bool(races) == raced
    assert (set(winner.doing.values()) == {"opencl-c"}) == (not raced)
