# SPDX-License-Identifier: Apache-2.0
"""Kernels among library tasks: selected where they save more than the switches cost, and kept if measured so."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise, product
from random import Random

import numpy as np
import pytest
from support.onednn_calls import needs_onednn
from support.product_graph import product_graph

import syclsched
from syclsched.costs import CostModel
from syclsched.costs.history import MemoryHistory
from syclsched.kernels.nn import conv, matmul
from syclsched.kernels.nn.normalisation.softmax_over import softmax_over
from syclsched.kernels.nn.quantised.integer_matmul import integer_matmul
from syclsched.kernels.tensor.elementwise import elementwise
from syclsched.kernels.tensor.transpose import transpose
from syclsched.model.graph import TaskGraph
from syclsched.model.profile import Quantity
from syclsched.onnx.report import OperatorTime
from syclsched.onnx.tuning import kernel_selection, plan_comparison
from syclsched.onnx.tuning.implementations import on_devices
from syclsched.onnx.tuning.kernel_selection import (
    CALL_S,
    is_known,
    measure_undisturbed,
    predicted_kernels,
    record_corrections,
    record_times,
    samples,
    saved_share,
    select_kernels,
    task_times,
)
from syclsched.profiling.busy import CpuTimes


class History(MemoryHistory):
    def record(self, key, seconds, **circumstances) -> None:
        self[key] = Quantity(float(np.median(seconds)), "measured")


def test_a_kernel_is_taken_if_it_gains_more_than_two_changes() -> None:
    library = {"a": 5.0, "b": 5.0, "c": 5.0}
    assert select_kernels("abc", library, {"b": 2.9}, 1.0) == {"b"}
    assert select_kernels("abc", library, {"b": 3.0}, 1.0) == frozenset()


def test_number_of_switches_at_ends_and_kernel_only_tasks() -> None:
    library = {"a": 5.0, "b": 5.0, "c": 5.0}
    assert select_kernels("abc", library, {"c": 3.9}, 1.0) == {"c"}
    assert select_kernels("abcd", library, {"c": 5.5, "d": 9.0}, 1.0) == {"d"}
    assert select_kernels("abcde", library | {"e": 1.0}, {"c": 4.5, "d": 9.0}, 1.0) == {"c", "d"}


def test_a_slower_kernel_between_two_fast_kernels_saves_switches() -> None:
    assert select_kernels("abc", dict.fromkeys("abc", 5.0), {"a": 1.0, "b": 6.0, "c": 1.0}, 1.0) == set("abc")


def test_the_selection_is_optimal() -> None:
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


def test_the_saved_share_includes_all_switches() -> None:
    library = {"a": 4.0, "b": 4.0, "c": 2.0}
    kernel = {"a": 9.0, "b": 1.0, "d": 5.0}
    assert saved_share("abc", library, kernel, {"b"}, 0.5) == pytest.approx(2.0 / 10.0)
    assert saved_share("abcd", library, kernel, {"b"}, 0.5) == pytest.approx(2.0 / 15.5)  # d adds two switches
    assert saved_share("abc", library, kernel, (), 0.5) == 0.0
    assert saved_share("abc", library, kernel, {"a"}, 0.5) < 0.0
    assert saved_share("x", {}, {}, (), 0.5) == 0.0


def test_tasks_without_kernel_and_library_are_skipped() -> None:
    assert select_kernels(["a", "host", "b"], {"a": 5.0}, {"a": 1.0, "b": 1.0}, 1.0) == {"a", "b"}


@needs_onednn
def test_library_runs_most_tasks_on_cpus() -> None:
    platform = syclsched.describe(["cpu"])
    graph = on_devices(product_graph(), platform, {"second"})
    by = {task.name: {each.name for each in task.operation.implementations} for task in graph.tasks}
    assert by["first"] == {kernel_selection.LIBRARY} and by["second"] and kernel_selection.LIBRARY not in by["second"]


@needs_onednn
def test_shapes_refused_by_kernels_use_the_library() -> None:
    """Kernels were selected for other shapes of the same task; 8-bit kernels support no empty rows."""
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
def test_a_tiny_task_between_kernels_is_a_kernel(rows: int, library_is_taken: bool) -> None:
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
def test_the_library_is_used_on_the_first_of_two_cpu_devices() -> None:
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
    record_times(graph, names, device, history, told)
    assert is_known(graph, names, device, history)
    library = task_times(product_graph(), device, CostModel(platform), history, by_library=True)
    assert library == {"first": 3e-3, "second": 3e-3}  # one signature


def test_recorded_times_of_kernels_include_the_launch_gap(quiet) -> None:
    platform = syclsched.describe(["cpu"])
    (device,) = platform.compute_devices
    graph = product_graph().with_implementations(lambda task, each: each.name == "opencl-c")
    costs, history = CostModel(platform), History()
    told = [OperatorTime("", "first", device.name, "opencl-c", 3e-3)]
    record_times(graph, ("first",), device, history, told)
    (by,) = graph.find_task("first").operation.implementations
    assert costs.launch_gap_s(by, device) > 0.0
    found = task_times(graph, device, costs, history, by_library=False)
    assert found["first"] == pytest.approx(3e-3 + costs.launch_gap_s(by, device))


def test_times_of_kernels_that_never_ran_are_estimated() -> None:
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
def test_untimed_kernel_is_estimated_by_the_library_if_faster(quiet) -> None:
    platform = syclsched.describe(["cpu"])
    (device,) = platform.compute_devices
    graph = product_graph().with_implementations(lambda _, each: each.name in ("onednn", "opencl-c"))
    by = {each.name: each for each in graph.find_task("first").operation.implementations}
    unlike = task_times(graph, device, CostModel(platform), History(), by_library=False)["first"]
    stated, gap_s = (
        by["onednn"].efficiency / by["opencl-c"].efficiency,
        CostModel(platform).launch_gap_s(by["opencl-c"], device),
    )
    for library_s, wanted in ((CALL_S + WORK_S, WORK_S * stated + gap_s), (1.0, unlike)):
        told = [OperatorTime("", "first", device.name, "onednn", library_s)]
        history = History()
        record_times(graph, ("first",), device, history, told)
        found = task_times(graph, device, CostModel(platform), history, by_library=False)["first"]
        assert found == pytest.approx(wanted)


#: Time of a library call's work, so short that no roofline is below it.
WORK_S = 1.5e-6


def products_of(sizes, by=("onednn", "opencl-c")) -> TaskGraph:
    whole = TaskGraph()
    for size in sizes:
        a, b = (whole.array(f"{name}{size}", (size, size), "float32") for name in "ab")
        weights = syclsched.constant(np.eye(size, dtype=np.float32))
        whole.kernel(matmul(), name=f"of {size}", y=b, a=a, b=weights)
    return whole.with_implementations(lambda _, each: each.name in by)


def convolutions_of(sides, channels) -> TaskGraph:
    whole = TaskGraph()
    weights = syclsched.constant(np.ones((channels, channels, 3, 3), np.float32))
    for side in sides:
        x, y = (whole.array(f"{name}{side}", (1, side, side, channels), "float32") for name in "xy")
        operation = conv(2, pads=(1,) * 4, channels_last=True)
        whole.kernel(operation, name=f"of {side}", y=y, x=x, w=weights)
    return whole.with_implementations(lambda _, each: each.name in ("onednn", "opencl-c-winograd"))


@needs_onednn
def test_the_longest_task_of_a_kind_is_sampled_once(quiet) -> None:
    platform = syclsched.describe(["cpu"])
    (device,) = platform.compute_devices
    costs, history, sizes = CostModel(platform), History(), (32, 48, 64, 96)
    graph, names = products_of(sizes), [f"of {size}" for size in sizes]
    assert not samples(graph, device, costs, history)  # the library's times are unknown, too
    told = [OperatorTime("", name, device.name, "onednn", 1e-3 * (i + 1)) for i, name in enumerate(names)]
    record_times(graph, names, device, history, told)
    assert samples(graph, device, costs, history) == {"of 96"}
    told = [OperatorTime("", "of 96", device.name, "opencl-c", 1e-6)]
    record_times(graph, ["of 96"], device, history, told)
    assert not samples(graph, device, costs, history)
    assert samples(products_of(sizes[:3]), device, costs, history) == {"of 64"}  # another model


@needs_onednn
def test_tasks_run_by_an_unexpected_kernel_are_not_sampled_again(quiet) -> None:
    platform = syclsched.describe(["cpu"])
    (device,) = platform.compute_devices
    costs, history = CostModel(platform), History()
    graph, names = products_of((32, 48), ("onednn", "opencl-c", "python")), ["of 32", "of 48"]
    for name, seconds, expected in (("onednn", 1e-3, {"of 48"}), ("python", 1.0, set())):
        told = [OperatorTime("", each, device.name, name, seconds) for each in names]
        record_times(graph, names, device, history, told)
        assert samples(graph, device, costs, history) == expected


@needs_onednn
@pytest.mark.parametrize(("sizes_that_ran", "is_corrected"), [((48,), True), ((), False)])
def test_times_of_untimed_kernels_are_estimated_from_other_sizes(quiet, sizes_that_ran, is_corrected) -> None:
    platform = syclsched.describe(["cpu"])
    (device,) = platform.compute_devices
    graph = products_of((*sizes_that_ran, 64))
    by = {each.name: each for each in graph.find_task("of 64").operation.implementations}
    stated, costs, history = by["onednn"].efficiency / by["opencl-c"].efficiency, CostModel(platform), History()
    for size in (*sizes_that_ran, 64):
        times = {"onednn": CALL_S + (WORK_S if size == 64 else 10 * WORK_S)}
        times |= {} if size == 64 else {"opencl-c": WORK_S / 10}
        told = [OperatorTime("", f"of {size}", device.name, name, seconds) for name, seconds in times.items()]
        record_times(graph, [f"of {size}"], device, history, told)
    found = task_times(graph, device, costs, history, by_library=False)["of 64"]
    compared = 0.01 if is_corrected else stated
    assert found == pytest.approx(WORK_S * compared + costs.launch_gap_s(by["opencl-c"], device))


@needs_onednn
def test_kernel_times_come_from_another_model_until_measured(quiet) -> None:
    platform = syclsched.describe(["cpu"])
    (device,) = platform.compute_devices
    costs, history, other, graph = CostModel(platform), History(), products_of((32, 40)), products_of((48, 64))
    by = {each.name: each for each in graph.find_task("of 64").operation.implementations}
    stated, gap_s = by["onednn"].efficiency / by["opencl-c"].efficiency, costs.launch_gap_s(by["opencl-c"], device)

    def ran(whole: TaskGraph, name: str, **seconds: float) -> None:
        told = [OperatorTime("", name, device.name, way.replace("_", "-"), each) for way, each in seconds.items()]
        record_times(whole, [name], device, history, told)

    def guessed() -> float:
        return task_times(graph, device, costs, history, by_library=False)["of 64"]

    ran(other, "of 32", onednn=CALL_S + 10 * WORK_S, opencl_c=WORK_S / 10)
    ran(graph, "of 64", onednn=CALL_S + WORK_S)
    assert guessed() == pytest.approx(WORK_S * stated + gap_s)  # as stated
    record_corrections(other, device, costs, history)
    assert guessed() == pytest.approx(WORK_S * 0.01 + gap_s)
    assert samples(graph, device, costs, history) == {"of 64"}  # it is compared all the same
    ran(graph, "of 48", onednn=CALL_S + 10 * WORK_S, opencl_c=WORK_S / 5)
    assert guessed() == pytest.approx(WORK_S * 0.02 + gap_s)


@needs_onednn
@pytest.mark.parametrize(
    ("compared_s", "count", "chosen"),
    [(None, 40, None), (0.7e-3, 40, 40), (0.76e-3, 40, 40), (0.9e-3, 40, None), (0.5e-3, 2, None), (1.3e-3, 40, 0)],
    ids=["never compared", "clear", "a tenth", "unclear", "short", "clear for the library"],
)
def test_clear_predictions_choose_kernels(quiet, compared_s: float | None, count: int, chosen: int | None) -> None:
    """``compared_s`` is the time of a kernel, in another model, of what the library does in a millisecond."""
    platform = syclsched.describe(["cpu"])
    (device,) = platform.compute_devices
    costs, history = CostModel(platform), History()
    if compared_s is not None:
        other = products_of((512,))
        for by, seconds in (("onednn", CALL_S + 1e-3), ("opencl-c", compared_s)):
            told = [OperatorTime("", "of 512", device.name, by, seconds)]
            record_times(other, ["of 512"], device, history, told)
        record_corrections(other, device, costs, history)
    whole = TaskGraph()
    weights = syclsched.constant(np.eye(256, dtype=np.float32))
    for number in range(count):
        a, b = (whole.array(f"{name}{number}", (256, 256), "float32") for name in "ab")
        whole.kernel(matmul(), name=str(number), y=b, a=a, b=weights)
    graph = whole.with_implementations(lambda _, each: each.name in ("onednn", "opencl-c"))
    found = predicted_kernels(graph, device, costs, history)
    assert (None if found is None else len(found)) == chosen
    names = [task.name for task in graph.tasks]
    told = [OperatorTime("", name, device.name, "onednn", CALL_S + 1e-3) for name in names]
    record_times(graph, names, device, history, told)
    assert predicted_kernels(graph, device, costs, history) is None  # runs have told


@pytest.mark.parametrize(("times", "count"), [(1, 10), (3, 9)], ids=["brief", "longer"])
def test_brief_models_are_run_by_kernels_alone_unless_mixing_saves_much(monkeypatch, times: int, count: int) -> None:
    (device,) = syclsched.describe(["cpu"]).compute_devices
    graph = products_of(range(16, 176, 16))
    names = graph.order()
    library_s = dict.fromkeys(names, times * 0.4e-3)
    kernel_s = dict.fromkeys(names, times * 0.2e-3) | {names[-1]: times * 0.9e-3}
    monkeypatch.setattr(kernel_selection, "_predicted_times", lambda *_: (library_s, kernel_s, kernel_s))
    found = predicted_kernels(graph, device, CostModel(syclsched.describe(["cpu"])), History())
    assert found is not None and len(found) == count


@needs_onednn
def test_a_task_that_another_model_has_too_does_not_stand_for_its_kind(quiet) -> None:
    platform = syclsched.describe(["cpu"])
    (device,) = platform.compute_devices
    costs, history, sizes = CostModel(platform), History(), (512, 384, 448, 320)
    other = products_of(sizes)
    for size in sizes:  # three kernels take half of the library's time, and the one of 320 takes twice of it
        for by, seconds in (("onednn", CALL_S + 1e-3), ("opencl-c", 2e-3 if size == 320 else 0.5e-3)):
            told = [OperatorTime("", f"of {size}", device.name, by, seconds)]
            record_times(other, [f"of {size}"], device, history, told)
    record_corrections(other, device, costs, history)
    graph = products_of((320, *range(640, 1024, 64)))
    assert predicted_kernels(graph, device, costs, history) == {task.name for task in graph.tasks}


@needs_onednn
def test_minimal_filtering_of_few_pixels_is_a_kind_of_its_own(quiet) -> None:
    """In another model it took half of the library's time for large pictures, and twice of it for small ones."""
    platform = syclsched.describe(["cpu"])
    (device,) = platform.compute_devices
    costs, history, sides = CostModel(platform), History(), (28, 56, 7, 14)
    other = convolutions_of(sides, 64)
    for side in sides:
        for by, seconds in (("onednn", CALL_S + 1e-3), ("opencl-c-winograd", 0.5e-3 if side >= 28 else 2e-3)):
            told = [OperatorTime("", f"of {side}", device.name, by, seconds)]
            record_times(other, [f"of {side}"], device, history, told)
    record_corrections(other, device, costs, history)
    large, small = convolutions_of((48, 52, 60), 96), convolutions_of((8, 10, 12), 512)
    assert predicted_kernels(large, device, costs, history) == {"of 48", "of 52", "of 60"}
    assert not predicted_kernels(small, device, costs, history)


@needs_onednn
def test_what_nothing_is_known_of_stays_with_the_library_unless_it_is_little(quiet) -> None:
    platform = syclsched.describe(["cpu"])
    (device,) = platform.compute_devices
    costs, history, other = CostModel(platform), History(), products_of((512,))
    for by, seconds in (("onednn", CALL_S + 1e-3), ("opencl-c", 0.5e-3)):
        told = [OperatorTime("", "of 512", device.name, by, seconds)]
        record_times(other, ["of 512"], device, history, told)
    record_corrections(other, device, costs, history)
    for rows, taken in ((1, True), (8192, False)):  # of a softmax, beside products
        whole = products_of((256, 320, 384, 448, 512, 640, 768))
        y, x = whole.array("y", (rows, 1000), "float32"), whole.array("x", (rows, 1000), "float32")
        whole.kernel(softmax_over(1), name="softmax", y=y, x=x)
        graph = whole.with_implementations(lambda _, each: each.name in ("onednn", "opencl-c"))
        found = predicted_kernels(graph, device, costs, history)
        assert found is not None and len(found - {"softmax"}) == 7 and ("softmax" in found) == taken


@needs_onednn
@pytest.mark.parametrize(("sizes", "found"), [((2048, 3072), {"softmax"}), ((16,), None), ((), None)])
def test_where_the_library_could_do_hardly_any_predictions_decide(
    quiet: None, sizes: tuple[int, ...], found: set[str] | None
) -> None:
    """Products that no library computes are long or short beside a softmax, or are all there is."""
    platform = syclsched.describe(["cpu"])
    (device,) = platform.compute_devices
    whole = products_of(sizes or (512,))
    if sizes:
        y, x = whole.array("y", (1, 1000), "float32"), whole.array("x", (1, 1000), "float32")
        whole.kernel(softmax_over(1), name="softmax", y=y, x=x)
    graph = whole.with_implementations(
        lambda task, each: each.name == "opencl-c" or (task.name == "softmax" and each.name == "onednn")
    )
    history = History()
    assert predicted_kernels(graph, device, CostModel(platform), history) == found
    if found and "softmax" in found:  # whatever runs have told
        told = [OperatorTime("", "softmax", device.name, "onednn", CALL_S + 1e-5)]
        record_times(graph, ["softmax"], device, history, told)
        assert predicted_kernels(graph, device, CostModel(platform), history) == found


@pytest.mark.parametrize(("others_s", "found"), [(1e-4, None), (5e-3, {"of 256"})])
def test_models_are_short_with_all_their_tasks(monkeypatch, quiet, others_s: float, found: set[str] | None) -> None:
    """The library does a task of 1.5 ms; no comparison by runs of a model whose other tasks take longer."""
    platform = syclsched.describe(["cpu"])
    (device,) = platform.compute_devices
    graph, kernel_s = products_of((256, 320)), {"of 256": 0.5e-3, "of 320": others_s}
    monkeypatch.setattr(kernel_selection, "_predicted_times", lambda *_: ({"of 256": 1.5e-3}, kernel_s, kernel_s))
    assert predicted_kernels(graph, device, CostModel(platform), History()) == found


def test_no_times_count_on_a_busy_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    readings = iter([CpuTimes(busy_s=0, total_s=0, own_s=0), CpuTimes(busy_s=1.5, total_s=2, own_s=0.5)])
    for module in (plan_comparison, kernel_selection):
        monkeypatch.setattr(module, "read_times", lambda: next(readings))
    assert measure_undisturbed(list) is None
