# SPDX-License-Identifier: Apache-2.0
"""Node tests and small models with random mutations: each is refused with place and hint, or computed correctly."""

from __future__ import annotations

import random
from functools import cache
from math import prod
from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx", reason="the package onnx is not installed")

from onnx import TensorProto, helper  # noqa: E402
from support import node_cases  # noqa: E402
from support.mutation_check import check_mutation  # noqa: E402
from support.mutations import mutated  # noqa: E402
from support.small_models import imported, model_of  # noqa: E402

from syclsched.errors import ModelError  # noqa: E402
from syclsched.frontends.onnx.lowering import lower  # noqa: E402

node = helper.make_node
COUNT = 500


@cache
def originals() -> list[node_cases.NodeCase]:
    """Return the small node tests on numbers in scope, sorted by name: releases of onnx differ in the order."""
    found = [case for case in node_cases.cases() if node_cases.out_of_scope(case) is None and small(case)]
    return sorted(found, key=lambda case: case.name)


def small(case: node_cases.NodeCase) -> bool:
    """Return whether a test's model computes on numbers and has small inputs, as large ones take long."""
    shapes = (value.type.tensor_type.shape.dim for value in case.model.graph.input)
    elements = sum(prod(dimension.dim_value for dimension in shape) for shape in shapes)
    kinds = {value.type.tensor_type.elem_type for value in (*case.model.graph.input, *case.model.graph.output)}
    return bool(case.model.ByteSize() < 6000 and elements < 3000 and not kinds & {0, TensorProto.STRING})


@pytest.mark.parametrize("part", range(10))
def test_mutated_models_are_refused_or_computed_right(part: int) -> None:
    for seed in range(part * COUNT // 10, (part + 1) * COUNT // 10):
        chance = random.Random(seed)
        case = chance.choice(originals())
        model, changes = mutated(case.model, chance, chance.choice([1, 1, 2]))
        data = node_cases.named(case, next(case.data())[0])
        became = check_mutation(model, data, chance)
        assert not became.startswith("wrong"), (seed, case.name, changes, became)


def refusal(model: Any) -> str:
    with pytest.raises(ModelError) as caught:
        lower(imported(model))
    assert caught.value.hint
    return str(caught.value)


# --- errors that mutations have found ------------------------------------------------------------------


def test_names_that_are_no_text_are_refused() -> None:
    data = model_of([node("Relu", ["abcdef"], ["y"])], {"abcdef": (2,)}, ["y"]).SerializeToString()
    assert "not valid UTF-8" in refusal(data.replace(b"abcdef", b"abc\xffef"))


def test_output_may_be_repeated() -> None:
    model = model_of([node("Relu", ["x"], ["y"])], {"x": (2,)}, ["y", "y"])
    assert imported(model).outputs == ("y",)


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        (node("Mod", ["x", "x"], ["y"], name="n7", fmod=100), "'fmod' is 100, expected 0 or 1"),
        (node("Mod", ["x", "x"], ["y"], name="n7"), "must be 1 for float32"),
        (node("ReduceSum", ["x"], ["y"], name="n7", keepdims=-1), "'keepdims' is -1, expected 0 or 1"),
        (node("Celu", ["x"], ["y"], name="n7", alpha=float("nan")), "'alpha' is nan, expected a number"),
        (node("PRelu", ["x", "w34"], ["y"], name="n7"), "slope (3, 4, 1, 1) cannot be broadcast"),
        (node("Celu", ["x"], ["y"], name="n7", alpha=0.0), "its alpha is 0.0"),
        (node("RMSNormalization", ["x", "w"], ["y"], name="n7", axis=1 << 40), "there is no axis"),
        (node("Resize", ["x", "", "sizes"], ["y"], name="n7"), "'scales' has elements of int64"),
        (node("ConvTranspose", ["x", "k"], ["y"], name="n7", output_padding=[-1]), "output_padding (-1,)"),
        (node("GatherND", ["x", "sizes"], ["y"], name="n7", batch_dims=-1), "-1 batch axes"),
        (node("CumSum", ["one", "zero"], ["y"], name="n7"), "a scalar, which has no axis"),
        (node("HammingWindow", ["size"], ["y"], name="n7", periodic=7), "'periodic' is 7"),
        (node("Attention", ["q", "q", "q"], ["y"], name="n7", scale=-1.0), "its scale is -1.0"),
        (node("NonMaxSuppression", ["x", "x"], ["y"], name="n7"), "boxes of shape (2, 3, 4) with scores"),
    ],
    ids=lambda each: getattr(each, "op_type", ""),
)
def test_senseless_attributes_and_types_are_refused(broken: Any, said: str) -> None:
    constants = {
        "w": np.ones(4, np.float32),
        "w34": np.ones((3, 4, 1, 1), np.float32),
        "k": np.ones((3, 2, 2), np.float32),
        "sizes": np.array([1, 1, 2]),
        "zero": np.array(0),
        "size": np.array(5),
    }
    opset = min(onnx.defs.onnx_opset_version(), 23)
    if opset < 23 and broken.op_type in ("Attention", "RMSNormalization"):
        pytest.skip("the package onnx does not know opset 23, to which the operator came")
    model = model_of([broken], {"x": (2, 3, 4), "one": (), "q": (1, 1, 2, 2)}, ["y"], constants, opset=opset)
    text = refusal(model)
    assert said in text and "'n7'" in text


@pytest.mark.parametrize("direction", ["none", ""])
def test_shifts_have_a_direction(direction: str) -> None:
    shift = node("BitShift", ["x", "x"], ["y"], name="shift7", direction=direction)
    assert "expected LEFT or RIGHT" in refusal(model_of([shift], {"x": (2,)}, ["y"], dtypes={"x": 13, "y": 13}))


def test_more_scan_inputs_than_inputs_are_refused() -> None:
    body = helper.make_graph(
        [node("Identity", ["a"], ["b"])],
        "body",
        [helper.make_tensor_value_info("a", 1, ())],
        [helper.make_tensor_value_info("b", 1, ())],
    )
    scan = node("Scan", ["x"], ["y"], name="scan7", body=body, num_scan_inputs=(1 << 62) + 1)
    assert "num_scan_inputs is" in refusal(model_of([scan], {"x": (3,)}, ["y"]))


@pytest.mark.parametrize("operator", ["ReduceLogSum", "ReduceLogSumExp", "ReduceL2"])
@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_logarithms_and_roots_of_integers_equal_onnx_runtime(operator: str, dtype: str) -> None:
    from support.beside_runtime import same_as_runtime

    x = np.arange(1, 7).reshape(2, 3).astype(dtype)
    same_as_runtime([node(operator, ["x", "a"], ["y"])], {"x": x}, ["y"], 18, {"a": np.array([1])})


def test_the_reference_implementation_s_errors_name_the_node(monkeypatch: pytest.MonkeyPatch) -> None:
    from onnx.reference import ReferenceEvaluator
    from support.host_evaluation import evaluate

    def broken(*_: object, **__: object) -> None:
        raise ValueError("it is broken")

    model = model_of([node("Det", ["x"], ["y"], name="det7")], {"x": (3, 2, 2)}, ["y"])
    given = {"x": np.ones((3, 2, 2), np.float32)}
    monkeypatch.setattr(ReferenceEvaluator, "run", broken)
    with pytest.raises(ModelError, match=r"'det7'.*cannot compute it: .*it is broken"):
        evaluate(imported(model), given)
