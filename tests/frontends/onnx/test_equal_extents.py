# SPDX-License-Identifier: Apache-2.0
"""Lengths known only at run time that must be the extents of other values: results, plans and errors."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import syclsched

onnx = pytest.importorskip("onnx", reason="the package onnx is not installed")
ort = pytest.importorskip("onnxruntime", reason="the package onnxruntime is not installed")

from onnx import helper  # noqa: E402
from support.rounding import assert_rounded_alike  # noqa: E402
from support.small_models import model_of  # noqa: E402

from syclsched.errors import ModelError  # noqa: E402

pytestmark = pytest.mark.sycl

node = helper.make_node
CONSTANTS = {
    "three": np.array([7, 8, 9], np.float32),
    "seven": np.arange(7, dtype=np.float32),
    "table": np.arange(12, dtype=np.float32).reshape(4, 3),
    "line": np.array([[5, 6, 7]]),
    "w": np.arange(6, dtype=np.float32).reshape(3, 2),
    "limit": np.array(1.5, np.float32),
    "order": np.array([2, 0, 1]),
    "places": np.array([[2], [0], [1]]),
    "column": np.array([3, 1]),
    "lines": np.array([2, 3]),
    "parts": np.array([1, 2]),
    "first": np.array([0]),
    "one": np.array(1),
    "zero": np.array(0),
    "pictures": np.array([1, -1, 1, 1]),
    "halves": np.array([2, -1]),
    "row": np.array([1, -1]),
    "pair": np.array([[0, 0], [0, 0]]),
    "kernel": np.arange(6, dtype=np.float32).reshape(2, 3, 1, 1),
    "spread": np.arange(6, dtype=np.float32).reshape(3, 2, 1, 1),
    "scale": np.array([1, 2, 3], np.float32),
}
#: Three, two and one elements that differ, of five.
THREE, OTHERS, TWO, ONE = (
    np.array(x, np.float32) for x in ([1, 2, 2, 3, 1], [4, 6, 5, 5, 4], [1, 2] * 2 + [1], [2] * 5)
)
UNIQUE = node("Unique", ["x"], ["u"])
PICTURES = node("Reshape", ["u", "pictures"], ["p"])


def compiled(nodes: list[Any], shapes: dict[str, Any], outputs: dict[str, int] | None = None) -> tuple[Any, Any]:
    """Return a model compiled, and in ONNX Runtime."""
    found = outputs or {"y": 1}
    inner = [each for outer in nodes for attribute in outer.attribute for each in attribute.g.node]
    given = {name: CONSTANTS[name] for each in (*nodes, *inner) for name in each.input if name in CONSTANTS}
    model = model_of(nodes, shapes, [*found], given, opset=18, dtypes=found)
    options = ort.SessionOptions()
    options.log_severity_level = 4
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return syclsched.compile(model, devices="cpu", autotune=False), session


def check(nodes: list[Any], right: list[Any], wrong: list[Any], outputs: dict[str, int] | None = None) -> None:
    """Compare values that are right in one plan, also after values that are wrong, which both refuse."""
    shapes = {name: value.shape for name, value in right[0].items()}
    made, session = compiled(nodes, shapes, outputs)
    with warnings.catch_warnings(), made:
        warnings.simplefilter("error")
        for each in right:
            for got, wanted in zip(made(each).values(), session.run(None, each), strict=True):
                assert_rounded_alike(got, wanted)
        for each in wrong:
            with pytest.raises(Exception, match="ONNXRuntimeError"):
                session.run(None, each)
            with pytest.raises(ModelError, match=r"\d"):
                made(each)
        for each in right:
            for got, wanted in zip(made(each).values(), session.run(None, each), strict=True):
                assert_rounded_alike(got, wanted)
        assert len(made.kept_shapes) == 1
        assert not made._plans.by_value.inputs


@pytest.mark.parametrize(
    "nodes",
    [
        [node("Add", ["u", "three"], ["y"])],
        [node("Mul", ["table", "u"], ["y"])],
        [node("Max", ["u", "three", "u"], ["y"])],
        [node("Greater", ["u", "limit"], ["g"]), node("Where", ["g", "u", "three"], ["y"])],
        [node("PRelu", ["u", "three"], ["y"])],
        [node("Expand", ["u", "lines"], ["y"])],
    ],
    ids=lambda nodes: nodes[-1].op_type,
)
def test_a_length_is_broadcast_with_a_fixed_extent(nodes: list[Any]) -> None:
    check([UNIQUE, *nodes], [{"x": x} for x in (THREE, OTHERS, ONE)], [{"x": TWO}])


def test_a_bound_below_the_fixed_extent_leaves_a_single_element() -> None:
    check([UNIQUE, node("Sub", ["u", "seven"], ["y"])], [{"x": ONE}], [{"x": THREE}])


@pytest.mark.parametrize(
    "nodes",
    [
        [node("MatMul", ["u", "w"], ["y"])],
        [node("Reshape", ["u", "column"], ["y"])],
        [node("ScatterElements", ["x", "order", "u"], ["y"])],
        [node("ScatterND", ["x", "places", "u"], ["y"])],
        [node("Split", ["u", "parts"], ["y", "z"], axis=0)],
        [PICTURES, node("BatchNormalization", ["p", *["scale"] * 4], ["y"])],
        [PICTURES, node("InstanceNormalization", ["p", "scale", "scale"], ["y"])],
        [PICTURES, node("Conv", ["p", "kernel"], ["y"])],
        [PICTURES, node("ConvTranspose", ["p", "spread"], ["y"])],
        [node("LayerNormalization", ["u", "scale", "scale"], ["y"])],
        [
            node("Unsqueeze", ["u", "first"], ["lined"]),
            node("Cast", ["lined"], ["numbers"], to=7),
            node("Concat", ["numbers", "line"], ["joined"], axis=0),
            node("Cast", ["joined"], ["y"], to=1),
        ],
    ],
    ids=lambda nodes: nodes[-2 if len(nodes) > 1 else -1].op_type,
)
def test_a_length_must_be_the_fixed_extent(nodes: list[Any]) -> None:
    outputs = {"y": 1, "z": 1} if nodes[0].op_type == "Split" else {"y": 1}
    check([UNIQUE, *nodes], [{"x": x} for x in (THREE, OTHERS)], [{"x": x} for x in (TWO, ONE)], outputs)


def test_an_inferred_extent_leaves_no_elements() -> None:
    check([UNIQUE, node("Reshape", ["u", "halves"], ["y"])], [{"x": TWO}, {"x": TWO + 1}], [{"x": THREE}, {"x": ONE}])


def test_indices_are_no_more_than_the_elements_of_other_axes() -> None:
    nodes = [node("Reshape", ["u", "row"], ["r"]), node("GatherElements", ["r", "pair"], ["y"], axis=0)]
    check([UNIQUE, *nodes], [{"x": x} for x in (THREE, OTHERS, TWO)], [{"x": ONE}])


def test_the_axis_of_a_single_element_is_left_out() -> None:
    check([UNIQUE, node("Squeeze", ["u", "first"], ["y"])], [{"x": ONE}, {"x": ONE + 1}], [{"x": TWO}])


def test_two_lengths_are_equal_or_one() -> None:
    nodes = [UNIQUE, node("Unique", ["x2"], ["v"]), node("Add", ["u", "v"], ["y"])]
    short = np.array([9, 8, 7], np.float32)
    right = [
        {"x": THREE, "x2": short},
        {"x": ONE, "x2": short},
        {"x": THREE, "x2": short * 0},
        {"x": ONE, "x2": short * 0},
    ]
    check(nodes, right, [{"x": TWO, "x2": short}])


def test_two_lengths_are_joined_if_they_are_equal() -> None:
    lines = [node("Unsqueeze", [name, "first"], [name * 2]) for name in ("u", "v")]
    nodes = [UNIQUE, node("Unique", ["x2"], ["v"]), *lines, node("Concat", ["uu", "vv"], ["y"], axis=0)]
    short = np.array([9, 8, 7], np.float32)
    check(nodes, [{"x": THREE, "x2": short}, {"x": ONE, "x2": short * 0}], [{"x": ONE, "x2": short}])


def test_streams_and_started_runs_refuse_other_lengths() -> None:
    made, _ = compiled([UNIQUE, node("Add", ["u", "three"], ["y"])], {"x": (5,)})
    with made:
        run = made.start(THREE)
        assert run.result("y").tolist() == [8, 10, 12]
        with pytest.raises(ModelError, match=r"\(2,\), \(3,\)"):
            made.start(TWO).result("y")
        with pytest.raises(ModelError, match=r"\(2,\), \(3,\)"):
            list(made.stream([THREE, TWO]))
        assert made(THREE)["y"].tolist() == [8, 10, 12]


def test_a_branch_that_is_not_taken_may_have_other_lengths() -> None:
    def branch(nodes: list[Any]) -> Any:
        return helper.make_graph(nodes, "branch", [], [helper.make_tensor_value_info("made", 1, None)])

    choice = node(
        "If",
        ["c"],
        ["y"],
        then_branch=branch([node("Add", ["u", "three"], ["made"])]),
        else_branch=branch([node("Identity", ["three"], ["made"])]),
    )
    is_positive = [node("ReduceMin", ["x"], ["least"], keepdims=0), node("Greater", ["least", "limit"], ["c"])]
    made, session = compiled([UNIQUE, *is_positive, choice, node("Neg", ["three"], ["z"])], {"x": (5,)})
    with made, warnings.catch_warnings():
        warnings.simplefilter("ignore", syclsched.errors.RemadeModelWarning)
        for x in (OTHERS, THREE, TWO, ONE + 1):
            assert_rounded_alike(made(x)["y"], session.run(None, {"x": x})[0])


def test_all_axes_of_extent_1_are_left_out() -> None:
    made, session = compiled([UNIQUE, node("Squeeze", ["u"], ["y"])], {"x": (5,)})
    with made, warnings.catch_warnings():
        warnings.simplefilter("ignore", syclsched.errors.RemadeModelWarning)
        for x in (THREE, ONE, TWO, ONE + 1):
            got, (wanted,) = made(x)["y"], session.run(None, {"x": x})
            assert got.shape == wanted.shape
            assert_rounded_alike(got, wanted)


def choice(then_nodes: list[Any], else_nodes: list[Any]) -> Any:
    def branch(nodes: list[Any]) -> Any:
        return helper.make_graph(nodes, "branch", [], [helper.make_tensor_value_info("made", 1, None)])

    return node("If", ["c"], ["chosen"], then_branch=branch(then_nodes), else_branch=branch(else_nodes))


@pytest.mark.parametrize(
    "branches",
    [
        ([node("Identity", ["u"], ["made"])], [node("Neg", ["u"], ["made"])]),
        ([node("Identity", ["u"], ["made"])], [node("Identity", ["three"], ["made"])]),
        ([node("Identity", ["seven"], ["made"])], [node("Identity", ["u"], ["made"])]),
        ([node("Unique", ["three"], ["made"])], [node("Concat", ["u", "u"], ["made"], axis=0)]),
    ],
)
def test_a_branch_has_the_length_of_the_one_that_is_taken(branches: tuple[list[Any], list[Any]]) -> None:
    """They were planned for each value of the condition's inputs."""
    is_positive = [node("ReduceMin", ["x"], ["least"], keepdims=0), node("Greater", ["least", "limit"], ["c"])]
    nodes = [UNIQUE, *is_positive, choice(*branches), node("Neg", ["chosen"], ["y"])]
    check(nodes, [{"x": x} for x in (THREE, ONE, OTHERS, TWO)], [])


def test_branches_in_buckets() -> None:
    nodes = [
        node("ReduceSum", ["x"], ["total"], keepdims=0),
        node("Greater", ["total", "limit"], ["c"]),
        choice([node("Exp", ["x"], ["made"])], [node("Concat", ["x", "x"], ["made"], axis=0)]),
        node("Neg", ["chosen"], ["y"]),
    ]
    model = model_of(nodes, {"x": ("n", 2)}, ["y"], {"limit": CONSTANTS["limit"]}, opset=18)
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    with syclsched.compile(model, devices="cpu", autotune=False, buckets={"n": 8}) as made:
        for n in (3, 5, 8):
            for sign in (1, -1):
                x = np.full((n, 2), sign, np.float32)
                assert_rounded_alike(made(x)["y"], session.run(None, {"x": x})[0])
        assert len(made.kept_shapes) == 1
