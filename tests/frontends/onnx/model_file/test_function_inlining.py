# SPDX-License-Identifier: Apache-2.0
"""Inlining of model functions: attribute defaults, opsets other than the model's, and domains it does not import."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx", reason="the package onnx is not installed")
pytest.importorskip("onnxruntime", reason="the package onnxruntime is not installed")

from onnx import helper  # noqa: E402
from support.beside_runtime import array, session  # noqa: E402
from support.host_evaluation import evaluate  # noqa: E402
from support.small_models import imported, model_of  # noqa: E402

from syclsched.errors import ModelError  # noqa: E402
from syclsched.frontends.onnx.model_file.model_reader import read_model  # noqa: E402

node = helper.make_node


def leaky(opset: int, name: str = "Leaky", of: str = "LeakyRelu", default: float = 0.5) -> Any:
    """Return a function with an attribute ``alpha`` that has a default value."""
    domain = "" if of == "LeakyRelu" else "mine"
    body = node(of, ["v"], ["w"], domain=domain)
    body.attribute.append(onnx.AttributeProto(name="alpha", ref_attr_name="alpha", type=onnx.AttributeProto.FLOAT))
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("mine", 1)]
    return helper.make_function(
        "mine", name, ["v"], ["w"], [body], opsets, attribute_protos=[helper.make_attribute("alpha", default)]
    )


def calling(nodes: list[Any], *functions: Any) -> Any:
    model = model_of(nodes, {"x": (3, 2)}, ["y"], opset=17)
    model.functions.extend(functions)
    model.opset_import.append(helper.make_opsetid("mine", 1))
    return model


def same_as_runtime(model: Any) -> None:
    x = array(3, 2) - 1
    (want,) = session(model).run(["y"], {"x": x})
    before = model.SerializeToString()
    np.testing.assert_allclose(evaluate(imported(model), {"x": x})["y"], want, rtol=1e-6)
    assert model.SerializeToString() == before


def test_attributes_have_their_default_values() -> None:
    given, missing = node("Leaky", ["x"], ["z"], domain="mine", alpha=2.0), node("Leaky", ["z"], ["y"], domain="mine")
    same_as_runtime(calling([given, missing], leaky(17)))


def test_nested_functions_have_attribute_defaults() -> None:
    branches = {
        f"{name}_branch": helper.make_graph(
            [node(function, ["x"], ["r"], domain="mine")], name, [], [helper.make_tensor_value_info("r", 1, None)]
        )
        for name, function in (("then", "Outer"), ("else", "Leaky"))
    }
    nodes = [
        node("ReduceSum", ["x"], ["sum"], keepdims=0),
        node("Greater", ["sum", "sum"], ["c"]),
        node("If", ["c"], ["y"], **branches),
    ]
    same_as_runtime(calling(nodes, leaky(17, "Outer", "Leaky", 0.25), leaky(17)))


def test_functions_for_another_opset_are_converted() -> None:
    nodes = [node("Leaky", ["x"], ["z"], domain="mine", alpha=2.0), node("Leaky", ["z"], ["y"], domain="mine")]
    same_as_runtime(calling(nodes, leaky(15)))
    softmax = helper.make_function(
        "mine", "Old", ["v"], ["w"], [node("ReduceSum", ["v"], ["w"], axes=[1])], [helper.make_opsetid("", 11)]
    )
    x = array(3, 2)
    got = evaluate(imported(calling([node("Old", ["x"], ["y"], domain="mine")], softmax)), {"x": x})["y"]
    np.testing.assert_allclose(got, x.sum(1, keepdims=True), rtol=1e-6)


def test_a_function_that_cannot_be_converted_is_named() -> None:
    newer = helper.make_function(
        "mine", "New", ["v"], ["w"], [node("BitwiseNot", ["v"], ["w"])], [helper.make_opsetid("", 18)]
    )
    with pytest.raises(ModelError, match="'New' is for opset 18, and the model for 17"):
        read_model(calling([node("New", ["x"], ["y"], domain="mine")], newer))


def test_opset_imports_in_functions_only() -> None:
    model = calling([node("Leaky", ["x"], ["y"], domain="mine", alpha=0.1)], leaky(17))
    del model.opset_import[0]
    assert [each.domain for each in model.opset_import] == ["mine"]
    same_as_runtime(model)
