# SPDX-License-Identifier: Apache-2.0
"""Outputs of started runs, compared with those of calls: cut, composed and decoded."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

import syclsched

onnx = pytest.importorskip("onnx", reason="the package onnx is not installed")

from onnx import helper  # noqa: E402
from support.small_models import model_of  # noqa: E402

from syclsched.errors import UnknownArrayError  # noqa: E402

pytestmark = pytest.mark.sycl

node = helper.make_node
X = np.array([[0, 1, 2, 0], [3, 0, 0, 4]], np.float32)


def same(found: Any, wanted: Any) -> None:
    if isinstance(wanted, list):
        assert len(found) == len(wanted)
        for one, other in zip(found, wanted, strict=True):
            same(one, other)
    else:
        assert found.dtype == wanted.dtype
        np.testing.assert_array_equal(found, wanted)


def test_results_of_unknown_length_are_cut() -> None:
    model = model_of(
        [node("NonZero", ["x"], ["places"]), node("Transpose", ["places"], ["y"]), node("Neg", ["x"], ["z"])],
        {"x": X.shape},
        ["y", "z"],
        {},
        dtypes={"y": 7},
    )
    with syclsched.compile(model, devices="cpu", autotune=False) as compiled:
        wanted = compiled(X)
        with compiled.start(X) as run:
            for name in ("z", "y", "y"):
                same(run.result(name, timeout=60), wanted[name])
            with pytest.raises(UnknownArrayError):
                run.result("w")
        assert len(compiled.kept_shapes) == 1


def test_sequences_are_lists() -> None:
    nodes = [
        node("SplitToSequence", ["x"], ["parts"], axis=0),
        node("Neg", ["x"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "sequence",
        [helper.make_tensor_value_info("x", 1, X.shape)],
        [helper.make_tensor_sequence_value_info("parts", 1, None), helper.make_tensor_value_info("y", 1, X.shape)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    with syclsched.compile(model, devices="cpu", autotune=False) as compiled:
        wanted = compiled(X)
        run = compiled.start(X)
        same(run.result("parts"), wanted["parts"])
        same(run.result("y"), wanted["y"])


def test_a_run_that_a_coroutine_awaits() -> None:
    model = model_of([node("NonZero", ["x"], ["y"])], {"x": X.shape}, ["y"], {}, dtypes={"y": 7})

    async def result(compiled: Any) -> Any:
        run = await compiled.start(X)
        return run.result("y")

    with syclsched.compile(model, devices="cpu", autotune=False) as compiled:
        same(asyncio.run(result(compiled)), np.stack(np.nonzero(X)))


def test_another_call_may_enlarge_bounds_while_a_run_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = [node("Range", ["zero", "n", "one"], ["places"]), node("Neg", ["places"], ["y"])]
    constants = {"zero": np.array(0), "one": np.array(1)}
    model = model_of(nodes, {"n": ()}, ["y"], constants, opset=19, dtypes={"n": 7, "y": 7})
    with syclsched.compile(model, devices="cpu", autotune=False) as compiled:
        for n in (3, 4):
            compiled(np.array(n))
        plans, call = compiled._plans, compiled._plans._call_planned

        def interleaved(do: Any, values: Any, key: Any) -> Any:
            def later(bound: Any, given: Any) -> Any:  # the plan is in use, so it is not dropped
                compiled(np.array(1000))
                return do(bound, given)

            monkeypatch.undo()
            return call(later, values, key)

        monkeypatch.setattr(plans, "_call_planned", interleaved)
        run = compiled.start(np.array(100))
        np.testing.assert_array_equal(run.result("y", timeout=60), -np.arange(100))
        assert not plans.by_value.inputs  # no plan for each value
