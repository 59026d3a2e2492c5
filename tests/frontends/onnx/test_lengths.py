# SPDX-License-Identifier: Apache-2.0
"""Results whose length depends on values: one plan for all values, and the results of ONNX Runtime."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

import syclsched

onnx = pytest.importorskip("onnx", reason="the package onnx is not installed")
ort = pytest.importorskip("onnxruntime", reason="the package onnxruntime is not installed")

from onnx import helper  # noqa: E402
from support.host_evaluation import evaluate  # noqa: E402
from support.repeatable import generator  # noqa: E402
from support.rounding import assert_rounded_alike  # noqa: E402
from support.small_models import imported, model_of  # noqa: E402

from syclsched.errors import ArgumentError, HostOperatorWarning  # noqa: E402

pytestmark = pytest.mark.sycl

node = helper.make_node
DTYPES = {"float32": 1, "int64": 7, "bool": 9, "uint8": 2}
RANDOM = generator(0)
X = RANDOM.standard_normal((3, 5)).astype(np.float32)
NOTHING, ALL = np.full_like(X, -1), np.full_like(X, 2)
ROWS = RANDOM.standard_normal((15, 4)).astype(np.float32)
CONSTANTS = {"rows": ROWS, "one": np.array([1]), "zero": np.array(0, np.float32), "w": ROWS[:4, :3].copy()}
CONSTANTS |= {"minus": np.array([-1]), "start": np.array([0]), "two": np.array([2]), "fewest": np.array([3])}
CONSTANTS |= {"end": np.array([1000]), "scales": np.array([2.0], np.float32)}


def check(nodes: list[Any], outputs: Mapping[str, str], *inputs: Mapping[str, Any], on_host: bool = False) -> None:
    """Compare a model with ONNX Runtime for several inputs of equal shapes; it is planned once."""
    first = inputs[0]
    types = {name: DTYPES[value.dtype.name] for name, value in first.items()}
    types |= {name: DTYPES[kind] for name, kind in outputs.items()}
    shapes = {name: value.shape for name, value in first.items()}
    model = model_of(nodes, shapes, list(outputs), CONSTANTS, opset=18, dtypes=types)
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    with warnings.catch_warnings(), syclsched.compile(model, devices="cpu", autotune=False) as compiled:
        warnings.simplefilter("error")
        if on_host:
            warnings.simplefilter("ignore", HostOperatorWarning)
        for each in inputs:
            got = compiled(dict(each))
            assert list(got) == list(outputs)
            for name, wanted in zip(outputs, session.run(None, dict(each)), strict=True):
                assert_rounded_alike(got[name], wanted)
        assert len(compiled.kept_shapes) == 1


POSITIVE = [node("Greater", ["x", "zero"], ["mask"]), node("NonZero", ["mask"], ["places"])]


def test_indices_of_non_zero_numbers() -> None:
    check(POSITIVE, {"places": "int64"}, *({"x": x} for x in (X, NOTHING, ALL)))


def test_values_derived_from_counted_indices_have_their_length() -> None:
    nodes = [
        *POSITIVE,
        node("Transpose", ["places"], ["pairs"]),
        node("GatherND", ["x", "pairs"], ["found"]),
        node("Exp", ["found"], ["powers"]),
        node("Gather", ["places", "one"], ["columns"], axis=0),
        node("Squeeze", ["columns", "none"], ["column"]),
        node("Gather", ["rows", "column"], ["lines"], axis=0),
        node("MatMul", ["lines", "w"], ["products"]),
        node("Cast", ["column"], ["numbers"], to=1),
        node("Shape", ["products"], ["shape"]),
        node("Size", ["products"], ["size"]),
    ]
    nodes.insert(0, node("Constant", [], ["none"], value_ints=[0]))
    outputs = {"powers": "float32", "products": "float32", "numbers": "float32", "shape": "int64", "size": "int64"}
    check(nodes, outputs, *({"x": x} for x in (X, NOTHING, ALL)))


def test_reductions_count_only_existing_elements() -> None:
    nodes = [
        *POSITIVE,
        node("Compress", ["x", "chosen"], ["lines"], axis=0),
        node("ReduceSum", ["lines"], ["total"], keepdims=0),
        node("ReduceMax", ["lines", "first"], ["most"], keepdims=0),
        node("ArgMin", ["lines"], ["least"], axis=0, keepdims=0),
        node("Softmax", ["lines"], ["shares"], axis=0),
    ]
    nodes.insert(0, node("Constant", [], ["first"], value_ints=[0]))
    outputs = {"lines": "float32", "total": "float32", "most": "float32", "least": "int64", "shares": "float32"}
    chosen = [np.array(each) for each in ([True, False, True], [False, True, False], [True] * 3)]
    check(nodes, outputs, *({"x": X, "chosen": each} for each in chosen))


def test_quantisation_uses_the_range_of_existing_elements() -> None:
    nodes = [
        *POSITIVE,
        node("Compress", ["x", "chosen"], ["lines"], axis=0),
        node("DynamicQuantizeLinear", ["lines"], ["y", "step", "middle"]),
    ]
    chosen = [np.array(each) for each in ([True, False, True], [False, True, False], [True] * 3, [False] * 3)]
    outputs = {"y": "uint8", "step": "float32", "middle": "uint8"}
    check(nodes, outputs, *({"x": X, "chosen": each} for each in chosen))


def test_topk_with_k_from_an_input() -> None:
    nodes = [node("TopK", ["x", "k"], ["best", "at"]), node("Neg", ["best"], ["negative"])]
    check(nodes, {"negative": "float32", "at": "int64"}, *({"x": X, "k": np.array([k])} for k in (1, 3, 5)))


@pytest.mark.parametrize("ordered", [0, 1])
def test_numbers_that_differ(ordered: int) -> None:
    nodes = [node("Unique", ["x"], ["y", "first", "inverse", "counts"], sorted=ordered)]
    outputs = {"y": "int64", "first": "int64", "inverse": "int64", "counts": "int64"}
    check(nodes, outputs, *({"x": np.array(x)} for x in ([3, 1, 3, 2], [5, 5, 5, 5], [4, 3, 2, 1])))


def test_operators_without_rule_run_on_the_host_on_cut_arrays() -> None:
    nodes = [*POSITIVE, node("CumSum", ["places", "axis"], ["sums"], reverse=1)]
    nodes.insert(0, node("Constant", [], ["axis"], value_int=1))
    check(nodes, {"sums": "int64"}, *({"x": x} for x in (X, ALL)), on_host=True)


def test_a_loop_that_ends_by_its_values_has_as_many_results() -> None:
    values = {"i": (7, ()), "c": (9, ()), "v": (1, (3,))}
    body = helper.make_graph(
        [
            node("Add", ["v", "v"], ["v1"]),
            node("ReduceMax", ["v1"], ["most"], keepdims=0),
            node("Less", ["most", "limit"], ["d"]),
            node("Identity", ["v1"], ["line"]),
        ],
        "body",
        [helper.make_tensor_value_info(name, *each) for name, each in values.items()],
        [helper.make_tensor_value_info(n, k, s) for n, k, s in (("d", 9, ()), ("v1", 1, (3,)), ("line", 1, (3,)))],
        [helper.make_tensor("limit", 1, (), [100.0])],
    )
    nodes = [
        node("Constant", [], ["trips"], value_int=20),
        node("Loop", ["trips", "", "x"], ["last", "all"], body=body),
        node("Neg", ["all"], ["y"]),
    ]
    starts = ([1, 2, 3], [60, 1, 1], [-1, -1, -1])
    check(nodes, {"last": "float32", "y": "float32"}, *({"x": np.array(x, np.float32)} for x in starts))


@pytest.mark.parametrize("centered", [0, 1])
@pytest.mark.parametrize("least", [True, False])
def test_boxes_that_do_not_overlap(centered: int, least: bool) -> None:
    given = ["boxes", "scores", "most", "limit", *(["least"] if least else [])]
    nodes = [
        node("Constant", [], ["most"], value_ints=[4]),
        node("Constant", [], ["limit"], value_floats=[0.3]),
        node("Constant", [], ["least"], value_floats=[0.2]),
        node("NonMaxSuppression", given, ["chosen"], center_point_box=centered),
    ]
    inputs = []
    for size in (0.1, 0.5, 2.0):
        corners = RANDOM.random((2, 12, 2), np.float32)
        boxes = np.concatenate([corners, corners + size * RANDOM.random((2, 12, 2), np.float32)], axis=2)
        scores = np.round(RANDOM.random((2, 3, 12), np.float32), 1)  # some are equal
        inputs.append({"boxes": boxes[..., [2, 1, 0, 3]].copy(), "scores": scores})
    inputs.append({**inputs[0], "scores": np.zeros((2, 3, 12), np.float32)})
    check(nodes, {"chosen": "int64"}, *inputs)


def test_few_of_many_boxes() -> None:
    nodes = [
        node("Constant", [], ["most"], value_ints=[30]),
        node("Constant", [], ["limit"], value_floats=[0.4]),
        node("NonMaxSuppression", ["boxes", "scores", "most", "limit"], ["chosen"]),
    ]
    for count in (1, 2, 301):
        corners = RANDOM.random((1, count, 2), np.float32)
        boxes = np.concatenate([corners, corners + 0.3 * RANDOM.random((1, count, 2), np.float32)], axis=2)
        scores = np.round(RANDOM.random((1, 2, count), np.float32), 2)  # some are equal
        check(nodes, {"chosen": "int64"}, {"boxes": boxes, "scores": scores})


def test_a_detector_is_planned_once_for_all_images() -> None:
    """Boxes and scores by a convolution, non-maximum suppression, and the best of the remaining boxes."""
    kernels = (RANDOM.standard_normal((6, 3, 3, 3)) / 3).astype(np.float32)
    ints = {"last": [2], "lines": [1, 6, 64], "parts": [4, 2], "most": [5], "three": [3], "flat": [-1]}
    nodes = [
        *(node("Constant", [], [name], value_ints=value) for name, value in ints.items()),
        node("Constant", [], ["limit"], value_floats=[0.4]),
        node("Constant", [], ["least"], value_floats=[0.6]),
        node("Constant", [], ["kernels"], value=onnx.numpy_helper.from_array(kernels)),
        node("Conv", ["image", "kernels"], ["features"], pads=[1, 1, 1, 1]),
        node("Sigmoid", ["features"], ["positive"]),
        node("Reshape", ["positive", "lines"], ["columns"]),
        node("Split", ["columns", "parts"], ["corners", "scores"], axis=1),
        node("Transpose", ["corners"], ["boxes"], perm=[0, 2, 1]),
        node("NonMaxSuppression", ["boxes", "scores", "most", "limit", "least"], ["chosen"], center_point_box=1),
        node("Gather", ["chosen", "last"], ["at"], axis=1),
        node("Reshape", ["at", "flat"], ["places"]),
        node("Gather", ["boxes", "places"], ["found"], axis=1),
        node("GatherND", ["scores", "chosen"], ["kept"]),
        node("Shape", ["kept"], ["count"]),
        node("Min", ["count", "three"], ["k"]),
        node("TopK", ["kept", "k"], ["best", "order"]),
        node("Gather", ["found", "order"], ["y"], axis=1),
    ]
    images = [scale * RANDOM.standard_normal((1, 3, 8, 8)).astype(np.float32) for scale in (0.2, 1.0, 3.0)]
    images.append(np.zeros((1, 3, 8, 8), np.float32))
    outputs = {"chosen": "int64", "best": "float32", "y": "float32"}
    check(nodes, outputs, *({"image": image} for image in images))


FLAT = node("Reshape", ["mask", "minus"], ["flat"])


def of_positive(*more: Any) -> list[Any]:
    return [POSITIVE[0], FLAT, node("Compress", ["x", "flat"], ["v"]), *more]


FLATS = tuple({"x": x.reshape(-1)} for x in (X, ALL))


def test_the_first_of_counted_elements_stay_on_the_device() -> None:
    first = node("Slice", ["v", "start", "fewest"], ["y"])
    one = np.full(15, -1, np.float32)
    one[3] = 1
    check(of_positive(first), {"y": "float32"}, *FLATS, {"x": one})


@pytest.mark.parametrize(
    "last",
    [
        node("Resize", ["v", "", "scales"], ["y"], mode="nearest"),
        node("Slice", ["v", "start", "end", "start", "two"], ["y"]),
    ],
    ids=["resize", "slice by steps"],
)
def test_operators_on_a_counted_axis_run_on_cut_arrays(last: Any) -> None:
    check(of_positive(last), {"y": "float32"}, *FLATS, on_host=True)


def test_hardmax_keeps_the_length() -> None:
    check(of_positive(node("Hardmax", ["v"], ["y"], axis=0)), {"y": "float32"}, *FLATS)


def test_a_condition_longer_than_its_axis() -> None:
    chosen = node("Compress", ["rows", "flat"], ["y"], axis=1)
    network = imported(model_of([POSITIVE[0], FLAT, chosen], {"x": (3, 5)}, ["y"], CONSTANTS, opset=18))
    first_columns = np.where(np.arange(15).reshape(3, 5) < 2, 1, -1).astype(np.float32)
    assert np.array_equal(evaluate(network, {"x": first_columns})["y"], ROWS[:, :2])
    assert evaluate(network, {"x": ALL})["y"].shape == (15, 4)


@pytest.mark.parametrize("k", [-1, 7])
def test_topk_with_an_impossible_k_is_refused(k: int) -> None:
    made = model_of(
        [node("TopK", ["x", "k"], ["y", "at"])],
        {"x": (6,), "k": (1,)},
        ["y"],
        opset=18,
        dtypes={"x": 1, "k": 7, "y": 1},
    )
    with pytest.raises(ArgumentError, match=f"{k} elements of 6 are asked for"):
        evaluate(imported(made), {"x": X.reshape(-1)[:6], "k": np.array([k])})


COUNTED = [node("Cast", ["s"], ["i"], to=7), node("Reshape", ["i", "one"], ["count"])]


@pytest.mark.parametrize("axis", ["start", "one", "minus"])
def test_a_slice_end_can_come_from_a_floating_point_input(axis: str) -> None:
    nodes = [
        *COUNTED,
        node("Slice", ["x", "start", "count", axis], ["part"]),
        node("ReduceSum", ["part", axis], ["sum"]),
        node("Exp", ["part"], ["y"]),
    ]
    given = [{"s": np.array(n, np.float32), "x": X} for n in (2, 0, -1, 3, 1.7, -9, 9)]
    check(nodes, {"y": "float32", "sum": "float32"}, *given)


def test_slices_with_other_starts_end_at_a_floating_point_input() -> None:
    nodes = [*COUNTED, node("Slice", ["x", "one", "count", "start"], ["y"])]
    check(nodes, {"y": "float32"}, *({"s": np.array(n, np.float32), "x": X} for n in (2, 3, 1, -1, 9)))


def test_slices_from_the_end() -> None:
    nodes = [*COUNTED, node("Slice", ["x", "count", "start", "start", "minus"], ["y"])]
    model = model_of(nodes, {"s": (), "x": X.shape}, ["y"], CONSTANTS, opset=18)
    with syclsched.compile(model, devices="cpu", autotune=False) as compiled:
        for begin in (2, 1, 2, -1, 2):
            assert np.array_equal(compiled(np.float32(begin), X)["y"], X[begin:0:-1])
        assert len(compiled.kept_shapes) == 1


@pytest.mark.parametrize("count", [0, 2])
def test_concat_of_values_of_unknown_length_and_empty_values(count: int) -> None:
    nodes = [
        *POSITIVE,
        node("Concat", ["places", "more"], ["y"], axis=1),
        node("Concat", ["more", "places", "more", "places"], ["z"], axis=1),
    ]
    more = np.ones((2, count), np.int64)
    check(nodes, {"y": "int64", "z": "int64"}, *({"x": x, "more": more} for x in (X, NOTHING, ALL)))


def test_empty_values_of_unknown_length() -> None:
    nodes = [*POSITIVE, node("Concat", ["places", "places"], ["y"], axis=1)]
    check(nodes, {"y": "int64"}, {"x": X[:0]})


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_axis_of_unknown_length_at_most_one(axis: int) -> None:
    """With other axes of extent 1, the shapes alone do not identify the axis."""
    nodes = [
        node("Constant", [], ["where"], value_ints=[axis]),
        node("Constant", [], ["both"], value_ints=[-1, axis]),
        node("Greater", ["x", "zero"], ["mask"]),
        node("Compress", ["line", "mask"], ["kept"], axis=0),
        node("Unsqueeze", ["kept", "where"], ["y"]),
        node("Squeeze", ["y", "where"], ["same"]),
        node("Unsqueeze", ["kept", "both"], ["z"]),
    ]
    inputs = ({"x": np.array([value], np.float32), "line": ROWS[:1]} for value in (1, -1))
    check(nodes, {"y": "float32", "same": "float32", "z": "float32"}, *inputs)
