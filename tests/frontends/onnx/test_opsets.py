# SPDX-License-Identifier: Apache-2.0
"""Operators of older opsets, and forms absent from node tests, compared with ONNX Runtime."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx", reason="the package onnx is not installed")
pytest.importorskip("onnxruntime", reason="the package onnxruntime is not installed")

from hypothesis import assume, given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402
from onnx import helper  # noqa: E402
from support.beside_runtime import array, same_as_runtime  # noqa: E402
from support.examples import examples  # noqa: E402
from support.host_evaluation import evaluate  # noqa: E402
from support.small_models import imported, model_of  # noqa: E402

from syclsched.errors import HostOperatorWarning  # noqa: E402

node = helper.make_node

X = array(2, 3, 4, 5)
AXES = np.array([1, 2], np.int64)

#: Operator with attributes, opsets, and constants for its further inputs.
FORMS: list[tuple[str, dict[str, Any], tuple[int, ...], dict[str, Any]]] = [
    ("Softmax", {}, (7, 11, 12, 13, 21), {}),
    ("Softmax", {"axis": 2}, (7, 11, 13), {}),
    ("LogSoftmax", {"axis": 1}, (7, 12, 13), {}),
    ("LogSoftmax", {"axis": -1}, (11, 13), {}),
    ("Hardmax", {"axis": 1}, (7, 11, 13), {}),
    ("Hardmax", {"axis": 3}, (7, 12, 13), {}),
    ("Flatten", {"axis": 2}, (7, 9, 13), {}),
    ("Clip", {"min": -0.5, "max": 0.5}, (7, 10), {}),
    ("Clip", {"max": 0.5}, (7,), {}),
    ("Clip", {}, (11, 13), {"lo": np.float32(-0.2), "hi": np.float32(0.3)}),
    ("Clip", {}, (12,), {"lo": np.float32(0.5), "hi": np.float32(-0.5)}),
    ("Pad", {"pads": [0, 1, 2, 0, 0, 0, 1, 3], "value": 1.5}, (7, 10), {}),
    ("Pad", {"pads": [0, 0, -1, 0, 0, 1, 0, -2]}, (7,), {}),
    ("Pad", {"pads": [0, 0, 1, 2, 0, 0, 3, 1], "mode": "reflect"}, (7, 10), {}),
    ("Pad", {"mode": "edge"}, (11, 13, 18, 19, 21), {"p": np.array([0, 1, 2, 0, 0, 0, 1, 3])}),
    ("Pad", {"mode": "wrap"}, (19, 21), {"p": np.array([0, 1, 2, 0, 0, 0, 1, 3])}),
    ("Pad", {}, (18,), {"p": np.array([1, 2, 3, 1]), "v": np.float32(2), "axes": np.array([1, -1])}),
    ("Slice", {"starts": [1, -3], "ends": [100, -1], "axes": [1, 3]}, (7, 9), {}),
    ("Slice", {"starts": [0, 1], "ends": [1, 2]}, (7,), {}),
    (
        "Slice",
        {},
        (10, 11, 13),
        {"s": np.array([-1, 3]), "e": np.array([-100, 0]), "a": np.array([2, 3]), "t": np.array([-2, -1])},
    ),
    (
        "Slice",
        {},
        (10, 13),
        {"s": np.array([-50, 90]), "e": np.array([-100, -90]), "a": np.array([2, 3]), "t": np.array([-1, -2])},
    ),
    ("Squeeze", {}, (7, 11, 13), {}),
    ("Unsqueeze", {"axes": [0, 3]}, (7, 11), {}),
    ("Unsqueeze", {}, (13,), {"axes": np.array([-1, 1])}),
    ("ReduceSum", {"axes": [1, 3], "keepdims": 0}, (7, 11), {}),
    ("ReduceSum", {"keepdims": 0}, (13,), {"axes": AXES}),
    ("ReduceSum", {"noop_with_empty_axes": 1}, (13,), {}),
    ("ReduceMean", {"axes": [-1]}, (11, 13, 17), {}),
    ("ReduceMean", {}, (18, 21), {"axes": np.array([-1])}),
    ("ReduceMax", {"axes": [0, 2], "keepdims": 0}, (7, 12, 13), {}),
    ("ReduceL2", {}, (7, 13, 18), {}),
    ("ReduceLogSumExp", {"axes": [1]}, (7, 13), {}),
    ("ArgMax", {"axis": 2, "keepdims": 0}, (7, 11, 12, 13), {}),
    ("ArgMin", {"axis": -1, "select_last_index": 1}, (12, 13), {}),
    ("TopK", {"k": 2, "axis": 3}, (7, 9), {}),
    ("TopK", {"axis": 1}, (10, 11), {"k": np.array([2])}),
    ("TopK", {"axis": 3, "largest": 0}, (11,), {"k": np.array([3])}),
    ("Upsample", {"scales": [1.0, 1.0, 2.0, 3.0]}, (7, 8), {}),
    ("Upsample", {"mode": "linear"}, (9,), {"scales": np.array([1, 1, 2, 2], np.float32)}),
    ("Resize", {}, (10,), {"scales": np.array([1, 1, 2, 0.6], np.float32)}),
    ("Resize", {"mode": "linear"}, (10,), {"scales": np.array([1, 1, 2, 2], np.float32)}),
    (
        "Resize",
        {"coordinate_transformation_mode": "tf_half_pixel_for_nn", "nearest_mode": "floor"},
        (11, 12),
        {"r": np.empty(0, np.float32), "scales": np.array([1, 1, 1.75, 0.6], np.float32)},
    ),
    (
        "Resize",
        {"coordinate_transformation_mode": "tf_half_pixel_for_nn", "mode": "linear"},
        (11,),
        {"r": np.empty(0, np.float32), "scales": np.array([1, 1, 2, 3], np.float32)},
    ),
    ("Dropout", {}, (7, 10, 12, 13), {}),
    ("LRN", {"size": 3, "alpha": 0.01}, (7, 13), {}),
    ("InstanceNormalization", {}, (7,), {"s": array(3), "b": array(3)}),
    (
        "BatchNormalization",
        {"spatial": 0},
        (7,),
        {**{name: array(3, 4, 5) for name in ("s", "b", "m")}, "v": np.abs(array(3, 4, 5)) + 0.1},
    ),
    (
        "BatchNormalization",
        {"epsilon": 1e-3},
        (7, 8, 9, 14, 15),
        {"s": array(3), "b": array(3), "m": array(3), "v": np.abs(array(3))},
    ),
    ("PRelu", {}, (7, 9, 16), {"slope": array(3, 1, 1)}),
    ("Elu", {"alpha": 0.7}, (7, 21), {}),
    ("Selu", {}, (7,), {}),
    ("HardSigmoid", {"alpha": 0.3}, (7,), {}),
    ("HardSwish", {}, (14,), {}),
    ("ThresholdedRelu", {"alpha": 0.4}, (10,), {}),
    ("Shrink", {"lambd": 0.4, "bias": 0.1}, (9,), {}),
    ("Mod", {"fmod": 1}, (10, 13), {"d": array(4, 5)}),
    ("Expand", {}, (8, 13), {"shape": np.array([3, 1, 3, 1, 5])}),
    ("Tile", {}, (7, 13), {"r": np.array([1, 2, 1, 3])}),
    ("Transpose", {}, (7, 13, 21), {}),
    ("DepthToSpace", {"blocksize": 1}, (7, 11), {}),
    ("CumSum", {"exclusive": 1, "reverse": 1}, (11, 14), {"axis": np.array(2)}),
    ("Trilu", {"upper": 0}, (14,), {"k": np.array(1)}),
    ("GatherND", {}, (11, 12, 13), {"i": np.array([[0, 1], [1, -1]])}),
    ("GatherElements", {"axis": 3}, (11, 13), {"i": np.array([[[[0, -1, 2]]]])}),
    ("Gather", {"axis": 2}, (7, 11, 13), {"i": np.array([[3, 0], [-1, 1]])}),
    ("ReverseSequence", {}, (10,), {"n": np.array([2, 1, 0])}),
    ("ReverseSequence", {"time_axis": 1, "batch_axis": 0}, (10, 17), {"n": np.array([3, 2])}),
    ("ReverseSequence", {"time_axis": 1, "batch_axis": 0}, (10,), {"n": np.array([3, 3])}),
    ("Shape", {"start": 1, "end": -1}, (15, 19, 21), {}),
    ("MeanVarianceNormalization", {}, (9, 13), {}),
    ("LpNormalization", {"p": 1, "axis": 1}, (7,), {}),
    ("GlobalMaxPool", {}, (7,), {}),
    ("GlobalLpPool", {"p": 2}, (7,), {}),
    ("LpPool", {"kernel_shape": [2, 3], "p": 2, "strides": [1, 2], "pads": [0, 1, 1, 1]}, (7, 11, 18), {}),
    ("Gelu", {"approximate": "tanh"}, (20,), {}),
    ("Celu", {"alpha": 2.0}, (12,), {}),
    ("LayerNormalization", {"axis": 2}, (17,), {"s": array(4, 5), "b": array(4, 5)}),
    ("LayerNormalization", {"axis": 1}, (17,), {"s": array(5)}),
    ("GroupNormalization", {"num_groups": 1}, (18,), {"s": array(1), "b": array(1)}),
    ("GroupNormalization", {"num_groups": 3}, (21,), {"s": array(3), "b": array(3)}),
    (
        "QuantizeLinear",
        {"axis": 1},
        (13, 19),
        {"s": np.array([0.1, 0.2, 0.3], np.float32), "z": np.array([1, 2, 3], np.int8)},
    ),
    ("QuantizeLinear", {}, (10, 13), {"s": np.float32(0.05)}),
    ("IsInf", {"detect_negative": 0}, (10, 20), {}),
    ("EyeLike", {"k": 1}, (9,), {}),
]


@pytest.mark.parametrize(
    ("form", "opset"),
    [pytest.param(form, opset, id=f"{form[0]}-{i}-{opset}") for i, form in enumerate(FORMS) for opset in form[2]],
)
def test_forms_of_operators(form: Any, opset: int) -> None:
    operator, attributes, _, constants = form
    x = X[:, :1] if operator == "Squeeze" else X[0, 0] if operator == "EyeLike" else X
    outputs = ["y", "z"] if operator == "TopK" else ["y"]
    made = node(operator, ["x", *constants], outputs, **attributes)
    same_as_runtime([made], {"x": x}, outputs, opset, constants)


@pytest.mark.parametrize(("time", "lengths"), [(0, [2, 0, 1]), (1, [3, 1])])
def test_reverse_sequence_with_lengths_from_an_input(time: int, lengths: list[int]) -> None:
    made = node("ReverseSequence", ["x", "n"], ["y"], time_axis=time, batch_axis=1 - time)
    same_as_runtime([made], {"x": X, "n": np.array(lengths)}, ["y"], 10)


@pytest.mark.parametrize("opset", [7, 9, 11, 13, 18])
def test_splits(opset: int) -> None:
    if opset < 13:
        made = [node("Split", ["x"], ["a", "b"], axis=3, split=[1, 4])]
        same_as_runtime(made, {"x": X}, ["a", "b"], opset)
    else:
        made = [node("Split", ["x", "s"], ["a", "b"], axis=-1)]
        same_as_runtime(made, {"x": X}, ["a", "b"], opset, {"s": np.array([1, 4])})
    more = {"num_outputs": 2} if opset >= 18 else {}
    same_as_runtime([node("Split", ["x"], ["a", "b"], axis=2, **more)], {"x": X}, ["a", "b"], opset)


@pytest.mark.parametrize("opset", [7, 9, 11, 13])
def test_products(opset: int) -> None:
    a, b, c = array(3, 4), array(5, 4), array(5)
    gemm = [node("Gemm", ["a", "b", "c"], ["y"], alpha=0.5, beta=2.0, transB=1)]
    same_as_runtime(gemm, {"a": a, "b": b, "c": c}, ["y"], opset)
    for left, right in [
        ((4,), (4,)),
        ((4,), (2, 4, 3)),
        ((2, 3, 4), (4,)),
        ((2, 1, 3, 4), (5, 4, 2)),
        ((1, 4), (4, 1)),
    ]:
        same_as_runtime([node("MatMul", ["a", "b"], ["y"])], {"a": array(*left), "b": array(*right)}, ["y"], opset)


@pytest.mark.parametrize(
    ("equation", "shapes"),
    [
        ("bij,bjk->bik", [(2, 3, 4), (2, 4, 5)]),
        ("bhid,bhjd->bhij", [(2, 3, 4, 5), (2, 3, 6, 5)]),
        ("bhij,bjhd->bihd", [(2, 3, 4, 6), (2, 6, 3, 5)]),
        ("ij->ji", [(3, 4)]),
        ("ij->", [(3, 4)]),
        ("ij,j", [(3, 4), (4,)]),
        ("i,j->ij", [(3,), (4,)]),
        ("...ij,...jk->...ik", [(2, 3, 4), (2, 4, 5)]),
        ("abc,cd,de->abe", [(2, 3, 4), (4, 5), (5, 6)]),
        ("bi,bi->b", [(2, 3), (2, 3)]),
    ],
)
def test_einsum(equation: str, shapes: list[tuple[int, ...]]) -> None:
    inputs = {f"x{i}": array(*shape) for i, shape in enumerate(shapes)}
    same_as_runtime([node("Einsum", list(inputs), ["y"], equation=equation)], inputs, ["y"], 13)


def test_whole_numbers() -> None:
    a = np.array([7, -7, 7, -7], np.int64)
    b = np.array([2, 2, -2, -2], np.int64)
    for operator in ("Div", "Mod", "Add", "Sub", "Mul", "Max", "Min", "Less", "Equal"):
        same_as_runtime([node(operator, ["a", "b"], ["y"])], {"a": a, "b": b}, ["y"], 13)
    same_as_runtime([node("Cast", ["x"], ["y"], to=6)], {"x": np.array([-1.7, 1.7, 2.5], np.float32)}, ["y"], 13)
    same_as_runtime([node("Pow", ["a", "b"], ["y"])], {"a": a, "b": np.abs(b)}, ["y"], 13)


def test_one_hot_and_where_and_scatter() -> None:
    indices = np.array([[0, 2], [-1, 9]], np.int64)
    constants = {"d": np.array(4), "v": np.array([0.5, 2.5], np.float32)}
    for opset, axis in ((9, -1), (11, 0), (11, 1)):
        same_as_runtime([node("OneHot", ["x", "d", "v"], ["y"], axis=axis)], {"x": indices}, ["y"], opset, constants)
    inputs = {"c": X > 0, "a": X, "b": array(5)}
    same_as_runtime([node("Where", ["c", "a", "b"], ["y"])], inputs, ["y"], 9)
    x, i, u = array(3, 3), np.array([[1, 0, 2]], np.int64), array(1, 3)
    for opset, operator in ((9, "Scatter"), (11, "ScatterElements"), (18, "ScatterElements")):
        same_as_runtime([node(operator, ["x", "i", "u"], ["y"], axis=0)], {"x": x, "i": i, "u": u}, ["y"], opset)


# --- windows ------------------------------------------------------------------------------------------

_small = st.integers(1, 3)


@settings(max_examples=examples(40))
@given(st.data())
def test_convolutions_of_any_form(data: Any) -> None:
    rank = data.draw(st.sampled_from([1, 2]))
    kernel, strides, dilations = (data.draw(st.lists(_small, min_size=rank, max_size=rank)) for _ in range(3))
    extents = data.draw(st.lists(st.integers(5, 9), min_size=rank, max_size=rank))
    groups = data.draw(st.sampled_from([1, 2]))
    auto = data.draw(st.sampled_from(["NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"]))
    attributes: dict[str, Any] = {"strides": strides, "group": groups, "auto_pad": auto}
    if auto == "NOTSET":
        attributes["pads"] = data.draw(st.lists(st.integers(0, 2), min_size=2 * rank, max_size=2 * rank))
        attributes["dilations"] = dilations
    inputs = {"x": array(1, 4, *extents), "w": array(6, 4 // groups, *kernel)}
    if data.draw(st.booleans()):
        inputs["b"] = array(6)
    assume(all(n >= d * (k - 1) + 1 for n, k, d in zip(extents, kernel, dilations, strict=True)))
    same_as_runtime(
        [node("Conv", list(inputs), ["y"], **attributes)], inputs, ["y"], data.draw(st.sampled_from([7, 11]))
    )


@settings(max_examples=examples(40))
@given(st.data())
def test_transposed_convolutions_of_any_form(data: Any) -> None:
    rank = data.draw(st.sampled_from([1, 2]))
    kernel, strides, dilations = (data.draw(st.lists(_small, min_size=rank, max_size=rank)) for _ in range(3))
    extents = data.draw(st.lists(st.integers(2, 5), min_size=rank, max_size=rank))
    attributes: dict[str, Any] = {
        "strides": strides,
        "dilations": dilations,
        "group": data.draw(st.sampled_from([1, 2])),
    }
    full = [s * (n - 1) + d * (k - 1) + 1 for n, k, s, d in zip(extents, kernel, strides, dilations, strict=True)]
    form = data.draw(st.sampled_from(["pads", "padding", "shape", "upper"]))
    if form == "padding":
        attributes["output_padding"] = [data.draw(st.integers(0, max(s - 1, 0))) for s in strides]
    elif form == "pads":
        attributes["pads"] = [data.draw(st.integers(0, min(1, (n - 1) // 2))) for n in full * 2]
    else:
        attributes["output_shape"] = [n - data.draw(st.integers(0, min(3, n - 1))) for n in full]
        attributes["auto_pad"] = "SAME_UPPER" if form == "upper" else "NOTSET"
    inputs = {"x": array(1, 4, *extents), "w": array(4, 3, *kernel)}
    same_as_runtime([node("ConvTranspose", list(inputs), ["y"], **attributes)], inputs, ["y"], 11)


@settings(max_examples=examples(60))
@given(st.data())
def test_poolings_of_any_form(data: Any) -> None:
    kernel, strides = (data.draw(st.lists(_small, min_size=2, max_size=2)) for _ in range(2))
    operator = data.draw(st.sampled_from(["MaxPool", "AveragePool"]))
    attributes: dict[str, Any] = {"kernel_shape": kernel, "strides": strides, "ceil_mode": data.draw(st.integers(0, 1))}
    auto = data.draw(st.sampled_from(["NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"]))
    if auto == "NOTSET":
        attributes["pads"] = [data.draw(st.integers(0, max(k - 1, 0))) for k in kernel * 2]
    else:
        assume(all(k >= s for k, s in zip(kernel, strides, strict=True)))  # the runtime refuses others
        attributes |= {"auto_pad": auto, "ceil_mode": 0}
    if operator == "AveragePool":
        attributes["count_include_pad"] = data.draw(st.integers(0, 1))
    x = array(1, 2, *data.draw(st.lists(st.integers(4, 8), min_size=2, max_size=2)))
    same_as_runtime(
        [node(operator, ["x"], ["y"], **attributes)], {"x": x}, ["y"], data.draw(st.sampled_from([10, 12, 19]))
    )


def _averages_by_definition(x: Any, a: dict[str, Any], pads: list[int], rounded: bool) -> Any:
    """Return the pooling by the specification of AveragePool, window by window, with the given pads."""
    kernel, strides, dilations = a["kernel_shape"], a["strides"], a["dilations"]
    rank, extents = len(kernel), x.shape[2:]
    counts = []
    for i, n in enumerate(extents):
        span = n + pads[i] + pads[i + rank] - dilations[i] * (kernel[i] - 1) - 1
        count = (-(-span // strides[i]) if rounded else span // strides[i]) + 1
        # Windows that begin after the array, in its pads or beyond, are left out.
        counts.append(count - (rounded and (count - 1) * strides[i] >= n + pads[i]))
    y = np.zeros((*x.shape[:2], *counts))
    for window in np.ndindex(*counts):
        total, averaged = np.zeros(x.shape[:2]), 0
        for place in np.ndindex(*kernel):
            at = [o * s - p + k * d for o, s, p, k, d in zip(window, strides, pads, place, dilations, strict=False)]
            inside = all(0 <= position < n for position, n in zip(at, extents, strict=True))
            padded = all(-pads[i] <= at[i] < n + pads[i + rank] for i, n in enumerate(extents))
            averaged += inside or (padded and a["count_include_pad"])
            total += x[(..., *at)] if inside else 0
        y[(..., *window)] = total / averaged
    return y


@settings(max_examples=examples(60))
@given(st.data())
def test_dilated_average_poolings_follow_the_specification(data: Any) -> None:
    """No library has these results: onnx's reference moves windows with ceil_mode, and for auto_pad it and ONNX
    Runtime 1.32 leave dilations out."""
    rank = data.draw(st.integers(1, 3))
    x = array(1, 2, *data.draw(st.lists(st.integers(5, 8), min_size=rank, max_size=rank)))
    kernel, strides, dilations = (data.draw(st.lists(_small, min_size=rank, max_size=rank)) for _ in range(3))
    attributes: dict[str, Any] = {"kernel_shape": kernel, "strides": strides, "dilations": dilations}
    attributes["count_include_pad"] = data.draw(st.integers(0, 1))
    spans = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    auto = data.draw(st.sampled_from(["NOTSET", "NOTSET", "SAME_UPPER", "SAME_LOWER"]))
    if auto == "NOTSET":
        # A window has at least one element of the array.
        pads = [
            data.draw(st.integers(0, d - 1 if k > 1 else 0)) for k, d in zip(kernel * 2, dilations * 2, strict=True)
        ]
        attributes |= {"pads": pads, "ceil_mode": data.draw(st.integers(0, 1))}
    else:
        axes = zip(x.shape[2:], strides, spans, strict=True)
        totals = [max((-(-n // s) - 1) * s + span - n, 0) for n, s, span in axes]
        small, large = [n // 2 for n in totals], [n - n // 2 for n in totals]
        pads = small + large if auto == "SAME_UPPER" else large + small
        attributes["auto_pad"] = auto
    rounded = bool(attributes.get("ceil_mode"))
    axes = zip(x.shape[2:], spans, pads[:rank], pads[rank:], strict=True)
    assume(all(n + before + after >= span for n, span, before, after in axes))
    with np.errstate(invalid="ignore"):
        wanted = _averages_by_definition(x, attributes, pads, rounded)
    assume(not np.isnan(wanted).any())
    model = model_of([node("AveragePool", ["x"], ["y"], **attributes)], {"x": x.shape}, ["y"], opset=19)
    np.testing.assert_allclose(evaluate(imported(model), {"x": x})["y"], wanted, rtol=1e-4, atol=1e-6)


@settings(max_examples=examples(60))
@given(st.data())
def test_resizes_of_any_form(data: Any) -> None:
    mode = data.draw(st.sampled_from(["nearest", "linear", "cubic"]))
    coordinates = data.draw(st.sampled_from(["half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"]))
    attributes: dict[str, Any] = {"mode": mode, "coordinate_transformation_mode": coordinates}
    if mode == "nearest":
        modes = ["floor", "ceil", "round_prefer_floor", "round_prefer_ceil"]
        attributes["nearest_mode"] = data.draw(st.sampled_from(modes))
    x = array(1, 2, 4, 5)
    sizes = np.array([1, 2, data.draw(st.integers(2, 9)), data.draw(st.integers(2, 9))])
    made = node("Resize", ["x", "", "", "sizes"], ["y"], **attributes)
    same_as_runtime([made], {"x": x}, ["y"], data.draw(st.sampled_from([13, 18, 19])), {"sizes": sizes})


# --- names --------------------------------------------------------------------------------------------


def test_outputs_keep_their_names_for_every_kind_of_value() -> None:
    constants = {"c": array(2)}
    nodes = [
        node("Identity", ["x"], ["same"]),
        node("Relu", ["x"], ["a"]),
        node("Identity", ["a"], ["b"]),
        node("Identity", ["a"], ["d"]),
        node("Reshape", ["a", "s"], ["e"]),
        node("Identity", ["c"], ["k"]),
    ]
    outputs = ["same", "a", "b", "d", "e", "k", "x"]
    model = model_of(nodes, {"x": (2,)}, outputs, {**constants, "s": np.array([1, 2])})
    x = array(2)
    got = evaluate(imported(model), {"x": x})
    positive = np.maximum(x, 0)
    expected = {"same": x, "x": x, "k": constants["c"], "e": positive[None], **dict.fromkeys("abd", positive)}
    assert got.keys() == expected.keys()
    for name, want in expected.items():
        assert np.array_equal(got[name], want), name


def test_functions_are_inlined() -> None:
    twice = helper.make_function(
        "mine", "Twice", ["v"], ["w"], [node("Add", ["v", "v"], ["w"])], [helper.make_opsetid("", 17)]
    )
    model = model_of([node("Twice", ["x"], ["y"], domain="mine")], {"x": (2,)}, ["y"])
    model.functions.append(twice)
    model.opset_import.append(helper.make_opsetid("mine", 1))
    x = array(2)
    assert np.array_equal(evaluate(imported(model), {"x": x})["y"], x + x)


def test_host_operators_are_reported() -> None:
    from syclsched.frontends.onnx.lowering import lower
    from syclsched.frontends.onnx.reference import host_operators

    model = model_of([node("Det", ["x"], ["y"], name="d1")], {"x": (3, 3)}, ["y"], opset=11)
    network = imported(model)
    assert host_operators(network) == ("Det 'd1'",)
    with pytest.warns(HostOperatorWarning, match="Det 'd1'"):
        assert lower(network).on_host == ("Det 'd1'",)


def test_models_without_host_operators_do_not_warn() -> None:
    from syclsched.frontends.onnx.lowering import lower

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert lower(imported(model_of([node("Relu", ["x"], ["y"])], {"x": (2,)}, ["y"]))).on_host == ()
