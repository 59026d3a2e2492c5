# SPDX-License-Identifier: Apache-2.0
"""The comparison of kernels with the library, and first calls that choose by it."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.onednn_calls import needs_onednn

import syclsched
from syclsched.api import discover
from syclsched.errors import CapabilityError, MemoryLimitError
from syclsched.onnx import kernel_comparison
from syclsched.onnx.tuning import autotune, compared_networks, kernel_selection, plan_comparison
from syclsched.profiling import HistoryStore

onnx = pytest.importorskip("onnx", reason="the network is an ONNX model")

from onnx.reference import ReferenceEvaluator  # noqa: E402

pytestmark = [pytest.mark.sycl, needs_onednn]


@pytest.fixture
def quiet(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Let nothing be known, and no other process use the machine."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.setattr(kernel_selection, "read_times", lambda: None)
    monkeypatch.setattr(plan_comparison, "read_times", lambda: None)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel_comparison, "further_networks", list)
    monkeypatch.setattr(compared_networks, "PICTURE_SIZE", 64)


def test_the_networks_are_valid() -> None:
    kinds = set[str]()
    for model in (*compared_networks.networks(), *compared_networks.further_networks()):
        onnx.checker.check_model(model, full_check=True)
        kinds |= {node.op_type for node in model.graph.node}
    assert {"Conv", "MaxPool", "AveragePool", "Concat", "Gemm", "Softmax", "MatMul", "LayerNormalization"} <= kinds
    assert {"QuantizeLinear", "DequantizeLinear"} <= kinds


def test_first_calls_choose_kernels_without_trying_them(
    quiet: None, small: None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    platform = discover("cpu")
    assert kernel_comparison.can_compare(platform)
    assert kernel_comparison.compare_kernels(platform)
    with HistoryStore() as history:
        assert len(history)
    # Whatever this machine's times are, kernels are predicted to save more than is clear.
    monkeypatch.setattr(kernel_selection, "CLEAR_SHARE", -1e9)
    monkeypatch.setattr(kernel_selection, "SHORT_S", 0.0)
    monkeypatch.setattr(autotune, "_traced", lambda *_: pytest.fail("the model was run to time its tasks"))
    monkeypatch.setattr(autotune, "time_alternating", lambda *_, **__: pytest.fail("plans were run to compare them"))
    monkeypatch.setattr(kernel_selection, "select_kernels", lambda order, *_: frozenset(order))
    monkeypatch.setattr(compared_networks, "PICTURE_SIZE", 96)  # another model
    model, x = compared_networks.of_pictures(), np.random.default_rng(0).random((1, 3, 96, 96), np.float32)
    with caplog.at_level(logging.INFO, "syclsched"), syclsched.compile(model, devices="cpu") as compiled:
        (found,) = compiled(x).values()
        assert "run as kernels by prediction" in caplog.text
        assert all(each.implementation != kernel_selection.LIBRARY for each in compiled.report.operators)
    (wanted,) = ReferenceEvaluator(model).run(None, {"x": x})
    np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-6)


def test_first_calls_take_the_library_where_kernels_save_nothing(
    quiet: None, small: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert kernel_comparison.compare_kernels(discover("cpu"))
    # Whatever this machine's times are, kernels are predicted to save too little.
    monkeypatch.setattr(kernel_selection, "CLEAR_SHARE", 1e9)
    monkeypatch.setattr(kernel_selection, "MIDDLE_S", 0.0)
    monkeypatch.setattr(kernel_selection, "SHORT_S", 0.0)
    monkeypatch.setattr(autotune, "_traced", lambda *_: pytest.fail("the model was run to time its tasks"))
    monkeypatch.setattr(compared_networks, "PICTURE_SIZE", 96)  # another model
    with syclsched.compile(compared_networks.of_pictures(), devices="cpu") as compiled:
        compiled(np.zeros((1, 3, 96, 96), np.float32))
        assert any(each.implementation == kernel_selection.LIBRARY for each in compiled.report.operators)


@pytest.mark.parametrize(
    ("disturbed", "compared"), [(kernel_selection.COMPARED_TRIES - 1, True), (kernel_selection.COMPARED_TRIES, False)]
)
def test_disturbed_runs_are_made_again(
    quiet: None, small: None, monkeypatch: pytest.MonkeyPatch, disturbed: int, compared: bool
) -> None:
    measure, runs = autotune.measure_undisturbed, list[Any]()

    def measured(traced: Any) -> Any:
        runs.append(measure(traced))
        return None if 2 <= len(runs) < 2 + disturbed else runs[-1]

    monkeypatch.setattr(autotune, "measure_undisturbed", measured)
    assert kernel_comparison.compare_kernels(discover("cpu")) == compared
    networks = 2 if compared else 1
    assert len(runs) == (2 * kernel_selection.COMPARED_ROUNDS * networks + disturbed if compared else 1 + disturbed)


def test_networks_without_the_library_are_left_out(quiet: None, small: None, monkeypatch: pytest.MonkeyPatch) -> None:
    compared, refused = list[Any](), {"integer"}

    def compare(bound: Any, graph: syclsched.TaskGraph, *_: Any) -> bool:
        operations = {task.operation.name.split(" ")[0] for task in graph.tasks if task.operation is not None}
        if operations & refused:
            raise CapabilityError("the library runs none of the operations", where="here")
        compared.append(operations)
        return True

    monkeypatch.setattr(kernel_comparison, "compare_all_kernels", compare)
    assert kernel_comparison.compare_kernels(discover("cpu")) and len(compared) == 2
    refused |= {"softmax_over"}
    with pytest.raises(CapabilityError, match="runs none"):
        kernel_comparison.compare_kernels(discover("cpu"))


def test_kernels_of_further_networks_are_built_but_not_timed(quiet: None, monkeypatch: pytest.MonkeyPatch) -> None:
    plan, by = autotune.VariantBuilder.plan_and_bind, set[str]()

    def planned(variants: Any, graph: syclsched.TaskGraph, **options: Any) -> Any:
        bound = plan(variants, graph, **options)
        by.update(each.implementation for each in bound.plan.schedule.assignments)
        return bound

    monkeypatch.setattr(autotune.VariantBuilder, "plan_and_bind", planned)
    monkeypatch.setattr(autotune, "record_times", lambda *_: pytest.fail("the network was timed"))
    monkeypatch.setattr(kernel_comparison, "networks", list)
    monkeypatch.setattr(kernel_comparison, "further_networks", lambda: [compared_networks.of_pictures(48, 0.5)])
    assert kernel_comparison.compare_kernels(discover("cpu"))
    assert by and kernel_selection.LIBRARY not in by


def test_a_plan_with_predicted_kernels_that_fails_is_left_out(
    quiet: None, small: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan, refused = autotune.VariantBuilder.plan_and_bind, []

    def too_large(variants: Any, graph: syclsched.TaskGraph, **options: Any) -> Any:
        if not refused:
            refused.append(graph)
            raise MemoryLimitError("too little memory", where="here")
        return plan(variants, graph, **options)

    monkeypatch.setattr(autotune, "predicted_kernels", lambda graph, *_: frozenset(task.name for task in graph.tasks))
    monkeypatch.setattr(autotune.VariantBuilder, "plan_and_bind", too_large)
    with syclsched.compile(compared_networks.of_pictures(), devices="cpu") as compiled:
        (found,) = compiled(np.zeros((1, 3, 64, 64), np.float32)).values()
    assert refused and found.shape == (1, 1000)


def test_on_a_busy_machine_nothing_is_stored(quiet: None, small: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel_selection, "is_disturbed", lambda before: True)
    assert not kernel_comparison.compare_kernels(discover("cpu"))
    monkeypatch.setattr(kernel_selection, "SHORT_S", 0.0)
    monkeypatch.setattr(kernel_selection, "MIDDLE_S", 0.0)
    monkeypatch.setattr(kernel_selection, "CLEAR_SHARE", 1e9)  # kernels that are not compared save nothing
    tried: list[Any] = []
    monkeypatch.setattr(autotune, "_traced", lambda *given: tried.append(given) or [])
    with syclsched.compile(compared_networks.of_pictures(), devices="cpu") as compiled:
        compiled(np.zeros((1, 3, 64, 64), np.float32))
    assert tried


def test_platforms_of_several_lanes_are_not_compared() -> None:
    (device,) = (platform := discover("cpu")).compute_devices
    devices = tuple(replace(each, lanes=2) if each == device else each for each in platform.devices)
    assert not kernel_comparison.can_compare(replace(platform, devices=devices))
