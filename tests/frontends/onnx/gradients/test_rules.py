# SPDX-License-Identifier: Apache-2.0
"""Gradients of every kind of node against central differences in double precision."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper
from support.host_evaluation import evaluate
from support.training_steps import check_gradients

from syclsched.frontends.onnx.importing.gradients.differentiation import differentiate
from syclsched.frontends.onnx.importing.network_builder import NetworkBuilder
from syclsched.frontends.onnx.model_file.model_limits import ModelLimits
from syclsched.frontends.onnx.network import CanonicalNode, Value


def node(kind: str, inputs: str, outputs: str = "y", **attributes: Any) -> Any:
    return helper.make_node(kind, inputs.split(), outputs.split(), name=kind.lower(), **attributes)


def numbers(*shape: int, seed: int = 0, low: float | None = None) -> Any:
    random = np.random.default_rng(seed)
    return random.standard_normal(shape) if low is None else low + random.random(shape)


def integers(*values: Any) -> Any:
    return np.array(values, "int64")


UNARY = [
    *("Abs", "Neg", "Exp", "Erf", "Sigmoid", "Tanh", "Softplus", "Softsign", "Sin", "Cos", "Atan", "Sinh", "Cosh"),
    *("Asinh", "Relu", "LeakyRelu", "Elu", "Selu", "ThresholdedRelu", "HardSigmoid", "HardSwish", "Mish"),
    *("Shrink", "Softmax", "LogSoftmax", "Identity"),
]


@pytest.mark.parametrize("kind", UNARY)
def test_functions_of_one_value(kind: str) -> None:
    check_gradients([node(kind, "x")], {"x": numbers(3, 4)}, opset=18)


@pytest.mark.parametrize("kind", ["Log", "Sqrt", "Reciprocal", "Acosh", "Tan", "Asin", "Acos", "Atanh"])
def test_functions_of_limited_values(kind: str) -> None:
    low = {"Acosh": 1.5, "Log": 0.5, "Sqrt": 0.5, "Reciprocal": 0.5}.get(kind, 0.0)
    check_gradients([node(kind, "x")], {"x": 0.8 * numbers(3, 4, low=0.1) if not low else numbers(3, 4, low=low)})


@pytest.mark.parametrize("approximate", ["none", "tanh"])
def test_gelu(approximate: str) -> None:
    check_gradients([node("Gelu", "x", approximate=approximate)], {"x": numbers(3, 4)}, opset=20)


@pytest.mark.parametrize("kind", ["Add", "Sub", "Mul", "Div", "Pow", "Max", "Min", "PRelu", "Mod"])
@pytest.mark.parametrize("shape", [(3, 4), (4,), (3, 1), (1, 1)])
def test_functions_of_two_broadcast_values(kind: str, shape: tuple[int, ...]) -> None:
    first = numbers(3, 4, low=0.5)
    attributes = {"fmod": 1} if kind == "Mod" else {}
    check_gradients([node(kind, "a b", **attributes)], {"a": first, "b": numbers(*shape, seed=1, low=0.6)})


def test_a_value_used_several_times() -> None:
    nodes = [node("Mul", "x x", "a"), node("Sum", "a x a", "s"), node("Mul", "s x")]
    check_gradients(nodes, {"x": numbers(3, 4)})


def test_selection_and_clipping() -> None:
    constants = {"choice": np.array([[True], [False], [True]]), "low": np.array(-0.5), "high": np.array(0.7)}
    nodes = [node("Clip", "x low high", "c"), node("Where", "choice c z")]
    check_gradients(nodes, {"x": numbers(3, 4), "z": numbers(4, seed=1)}, constants=constants)


@pytest.mark.parametrize("exponent", [2.0, 3.0, 0.5, -1.0, 1.0])
def test_constant_powers(exponent: float) -> None:
    check_gradients([node("Pow", "x e")], {"x": numbers(3, 4, low=0.3)}, constants={"e": np.array(exponent)})


@pytest.mark.parametrize(
    ("a", "b"),
    [((3, 4), (4, 5)), ((2, 3, 4), (4, 5)), ((2, 3, 4), (2, 4, 5)), ((2, 1, 3, 4), (3, 4, 2)), ((4,), (4, 3))],
)
def test_matrix_products(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    check_gradients([node("MatMul", "a b")], {"a": numbers(*a), "b": numbers(*b, seed=1)})


@pytest.mark.parametrize("trans_a", [0, 1])
@pytest.mark.parametrize("trans_b", [0, 1])
@pytest.mark.parametrize("bias", [(3, 5), (5,), (1,), ()])
def test_gemm(trans_a: int, trans_b: int, bias: tuple[int, ...]) -> None:
    parameters = {
        "a": numbers(*((4, 3) if trans_a else (3, 4))),
        "b": numbers(*((5, 4) if trans_b else (4, 5)), seed=1),
        "c": numbers(*bias, seed=2),
    }
    check_gradients([node("Gemm", "a b c", transA=trans_a, transB=trans_b, alpha=0.7, beta=1.3)], parameters)


def test_einsum() -> None:
    check_gradients(
        [node("Einsum", "a b", equation="bij,bkj->bik")], {"a": numbers(2, 3, 4), "b": numbers(2, 5, 4, seed=1)}
    )


CONVOLUTIONS: list[dict[str, Any]] = [
    {},
    {"strides": [2, 3], "pads": [1, 0, 2, 1]},
    {"dilations": [2, 1], "group": 2},
    {"strides": [3, 2], "pads": [1, 1, 0, 1], "group": 4},
]


@pytest.mark.parametrize("attributes", CONVOLUTIONS)
def test_convolutions(attributes: dict[str, Any]) -> None:
    group = attributes.get("group", 1)
    parameters = {"x": numbers(2, 4, 7, 8), "w": numbers(8, 4 // group, 3, 2, seed=1), "b": numbers(8, seed=2)}
    check_gradients([node("Conv", "x w b", **attributes)], parameters)


@pytest.mark.parametrize("rank", [1, 3])
def test_convolutions_of_lines_and_volumes(rank: int) -> None:
    parameters = {"x": numbers(2, 3, *[5] * rank), "w": numbers(4, 3, *[2] * rank, seed=1)}
    check_gradients([node("Conv", "x w", strides=[2] * rank)], parameters)


@pytest.mark.parametrize("attributes", [*CONVOLUTIONS, {"strides": [3, 2], "output_padding": [2, 1]}])
def test_transposed_convolutions(attributes: dict[str, Any]) -> None:
    group = attributes.get("group", 1)
    parameters = {"x": numbers(2, 4, 4, 3), "w": numbers(4, 8 // group, 3, 2, seed=1), "b": numbers(8, seed=2)}
    check_gradients([node("ConvTranspose", "x w b", **attributes)], parameters)


@pytest.mark.parametrize("dilations", [[1, 1], [2, 1]])
def test_means_of_windows_that_reach_beyond_pads_that_count(dilations: list[int]) -> None:
    attributes = {"kernel_shape": [3, 3], "strides": [2, 3], "pads": [1, 1, 1, 1], "dilations": dilations}
    pool = node("AveragePool", "x", ceil_mode=1, count_include_pad=1, **attributes)
    check_gradients([pool], {"x": numbers(2, 3, 8, 6)}, opset=19)


@pytest.mark.parametrize("kind", ["MaxPool", "AveragePool"])
@pytest.mark.parametrize(
    "attributes",
    [
        {"kernel_shape": [2, 2], "strides": [2, 2]},
        {"kernel_shape": [3, 2], "strides": [1, 2], "pads": [1, 0, 1, 1]},
        {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1},
    ],
)
def test_pooling(kind: str, attributes: dict[str, Any]) -> None:
    check_gradients([node(kind, "x", **attributes)], {"x": numbers(2, 3, 7, 6)})


@pytest.mark.parametrize("kind", ["GlobalAveragePool", "GlobalMaxPool"])
def test_pooling_of_whole_images(kind: str) -> None:
    check_gradients([node(kind, "x")], {"x": numbers(2, 3, 4, 5)})


def test_average_pooling_that_counts_pads() -> None:
    attributes = {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1], "count_include_pad": 1}
    check_gradients([node("AveragePool", "x", **attributes)], {"x": numbers(2, 3, 7, 6)})


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("kind", ["Softmax", "LogSoftmax"])
def test_softmax(kind: str, axis: int) -> None:
    check_gradients([node(kind, "x", axis=axis)], {"x": numbers(2, 3, 4)})


@pytest.mark.parametrize("axis", [-1, 1])
def test_layer_normalisation(axis: int) -> None:
    shape = (3, 4)[axis if axis == -1 else 0 :] if axis == -1 else (3, 4)
    parameters = {"x": numbers(2, 3, 4), "s": numbers(*shape, seed=1), "b": numbers(*shape, seed=2)}
    check_gradients([node("LayerNormalization", "x s b", axis=axis)], parameters)


def test_rms_normalisation() -> None:
    check_gradients(
        [node("RMSNormalization", "x s", stash_type=11)], {"x": numbers(2, 3, 4), "s": numbers(4, seed=1)}, opset=23
    )


@pytest.mark.parametrize("groups", [1, 2, 4])
def test_group_normalisation(groups: int) -> None:
    parameters = {"x": numbers(2, 4, 3), "s": numbers(4, seed=1), "b": numbers(4, seed=2)}
    check_gradients([node("GroupNormalization", "x s b", num_groups=groups)], parameters, opset=21)


def test_instance_normalisation() -> None:
    parameters = {"x": numbers(2, 3, 4, 2), "s": numbers(3, seed=1), "b": numbers(3, seed=2)}
    check_gradients([node("InstanceNormalization", "x s b")], parameters)


@pytest.mark.parametrize("shape", [(6, 3), (2, 3, 4), (2, 3, 2, 2)])
def test_batch_normalisation_by_the_moments_of_the_batch(shape: tuple[int, ...]) -> None:
    constants = {"m": numbers(3, seed=3), "v": numbers(3, seed=4, low=0.5)}
    parameters = {"x": numbers(*shape), "s": numbers(3, seed=1), "b": numbers(3, seed=2)}
    check_gradients([node("BatchNormalization", "x s b m v")], parameters, constants=constants)


@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_local_response_normalisation(size: int) -> None:
    check_gradients([node("LRN", "x", size=size, alpha=0.3, beta=0.6, bias=1.5)], {"x": numbers(2, 4, 3)})


@pytest.mark.parametrize("keepdims", [0, 1])
@pytest.mark.parametrize(
    "kind",
    ["Sum", "Mean", "Max", "Min", "Prod", "L1", "L2", "SumSquare", "LogSum", "LogSumExp"],
)
def test_reductions(kind: str, keepdims: int) -> None:
    x = numbers(2, 3, 4, low=0.2) if kind == "LogSum" else numbers(2, 3, 4)
    nodes = [node(f"Reduce{kind}", "x axes", keepdims=keepdims)]
    check_gradients(nodes, {"x": x}, constants={"axes": integers(0, 2)}, opset=18)


def test_products_with_zeros() -> None:
    x = numbers(3, 4)
    x[0, 1] = 0
    x[2, :2] = 0
    check_gradients([node("ReduceProd", "x axes")], {"x": x}, constants={"axes": integers(1)}, opset=18)


@pytest.mark.parametrize("exclusive", [0, 1])
@pytest.mark.parametrize("reverse", [0, 1])
def test_cumulative_sums(exclusive: int, reverse: int) -> None:
    nodes = [node("CumSum", "x axis", exclusive=exclusive, reverse=reverse)]
    check_gradients(nodes, {"x": numbers(3, 4)}, constants={"axis": np.array(1)})


def test_largest_elements() -> None:
    nodes = [node("TopK", "x k", "y i", axis=1)]
    check_gradients(nodes, {"x": numbers(3, 5)}, constants={"k": integers(2)})


def test_transposition_reshaping_and_expansion() -> None:
    nodes = [
        node("Transpose", "x", "t", perm=[2, 0, 1]),
        node("Reshape", "t shape", "r"),
        node("Unsqueeze", "r axes", "u"),
        node("Expand", "u wide", "e"),
        node("Mul", "e w"),
    ]
    constants = {"shape": integers(4, 6), "axes": integers(1), "wide": integers(4, 3, 6)}
    check_gradients(nodes, {"x": numbers(2, 3, 4), "w": numbers(3, 6, seed=1)}, constants=constants)


def test_concatenation_and_splitting() -> None:
    nodes = [
        node("Concat", "a b", "c", axis=1),
        node("Split", "c parts", "p q", axis=1),
        node("MatMul", "p q", "y"),
    ]
    parameters = {"a": numbers(3, 2), "b": numbers(3, 4, seed=1)}
    check_gradients(nodes, parameters, constants={"parts": integers(3, 3)}, opset=18)


@pytest.mark.parametrize(
    ("starts", "ends", "steps"), [([1, 0], [3, 9], [1, 1]), ([0, 1], [9, 6], [2, 3]), ([-1, 5], [-9, 0], [-1, -2])]
)
def test_slices(starts: list[int], ends: list[int], steps: list[int]) -> None:
    constants = {"s": integers(*starts), "e": integers(*ends), "a": integers(0, 1), "t": integers(*steps)}
    check_gradients([node("Slice", "x s e a t")], {"x": numbers(4, 6)}, constants=constants)


@pytest.mark.parametrize("mode", ["constant", "reflect", "edge", "wrap"])
def test_pads(mode: str) -> None:
    constants = {"p": integers(1, 2, 0, 1)}
    check_gradients([node("Pad", "x p", mode=mode)], {"x": numbers(3, 4)}, constants=constants, opset=19)


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize("coordinates", ["half_pixel", "asymmetric", "align_corners"])
@pytest.mark.parametrize("scale", [2.0, 0.6])
def test_resizing(mode: str, coordinates: str, scale: float) -> None:
    nodes = [node("Resize", "x  scales", mode=mode, coordinate_transformation_mode=coordinates)]
    nodes[0].input[:] = ["x", "", "scales"]
    scales = np.array([1, 1, scale, 1.5], "float32")
    check_gradients(nodes, {"x": numbers(1, 2, 5, 4)}, constants={"scales": scales})


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_gather(axis: int) -> None:
    constants = {"i": np.array([[0, 1], [1, -1]])}
    check_gradients([node("Gather", "x i", axis=axis)], {"x": numbers(2, 3, 4)}, constants=constants)


def test_gather_elements() -> None:
    constants = {"i": np.array([[0, 1, 0, 1], [1, 1, 0, -1]])}
    check_gradients([node("GatherElements", "x i", axis=0)], {"x": numbers(3, 4)}, constants=constants)


@pytest.mark.parametrize("batch_dims", [0, 1])
def test_gather_nd(batch_dims: int) -> None:
    indices = np.array([[[0, 1], [1, 2]], [[1, 1], [1, 1]]]) if not batch_dims else np.array([[[0], [2]], [[1], [1]]])
    nodes = [node("GatherND", "x i", batch_dims=batch_dims)]
    check_gradients(nodes, {"x": numbers(2, 3, 4)}, constants={"i": indices})


@pytest.mark.parametrize("reduction", ["none", "add"])
def test_scatters(reduction: str) -> None:
    parameters = {"x": numbers(3, 4), "u": numbers(2, 4, seed=1)}
    constants = {"i": np.array([[0, 1, 0, 2], [1, 2, 2, 1]])}
    nodes = [node("ScatterElements", "x i u", axis=0, reduction=reduction)]
    check_gradients(nodes, parameters, constants=constants, opset=18)
    rows = {"i": np.array([[2], [0]])}
    check_gradients([node("ScatterND", "x i u", reduction=reduction)], parameters, constants=rows, opset=18)


def test_attention_of_several_heads() -> None:
    parameters = {"q": numbers(2, 3, 4, 6), "k": numbers(2, 3, 5, 6, seed=1), "v": numbers(2, 3, 5, 6, seed=2)}
    check_gradients([node("Attention", "q k v", is_causal=1)], parameters, opset=23)


def test_rotary_positions_of_packed_heads() -> None:
    given = ["qkv", "", "", "", "", "lengths", "total", "cosines", "sines"]
    attributes: dict[str, Any] = {"num_heads": 2, "kv_num_heads": 1, "do_rotary": 1, "domain": "com.microsoft"}
    attention = helper.make_node("GroupQueryAttention", given, ["y", "key", "value"], **attributes)
    constants = {"lengths": np.array([2], "int32"), "total": np.array(3, "int32")}
    constants |= {"cosines": numbers(4, 2, seed=1), "sines": numbers(4, 2, seed=2)}
    check_gradients([attention], {"qkv": numbers(1, 3, 16)}, constants=constants)


@pytest.mark.parametrize(
    ("equation", "shapes"),
    [
        ("ii->i", [(4, 4)]),
        ("ii", [(4, 4)]),
        ("bij,bjj->bi", [(2, 3, 4), (2, 4, 4)]),
        ("iji,jk->ik", [(3, 4, 3), (4, 2)]),
        ("iiij,iij->j", [(3, 3, 3, 2), (3, 3, 2)]),
        ("...ii->...i", [(2, 3, 4, 4)]),
    ],
)
def test_einsum_of_diagonals(equation: str, shapes: list[tuple[int, ...]]) -> None:
    names = "ab"[: len(shapes)]
    parameters = {
        name: numbers(*shape, seed=seed) for seed, (name, shape) in enumerate(zip(names, shapes, strict=True))
    }
    check_gradients([node("Einsum", " ".join(names), equation=equation)], parameters)


@pytest.mark.parametrize("mode", ["linear", "cubic"])
@pytest.mark.parametrize(
    "attributes", [{}, {"coordinate_transformation_mode": "align_corners"}, {"exclude_outside": 1}]
)
def test_resize_with_antialiasing(mode: str, attributes: dict[str, Any]) -> None:
    resize = node("Resize", "x  s".replace("  ", " none none2 "), mode=mode, antialias=1, **attributes)
    resize.input[1] = ""
    del resize.input[2]
    check_gradients([resize], {"x": numbers(1, 2, 9, 8)}, constants={"s": np.float32([1, 1, 0.4, 1.5])}, opset=18)


@pytest.mark.parametrize("mode", ["linear", "cubic"])
@pytest.mark.parametrize("region", [[0.1, 0.2, 0.8, 0.9], [-0.2, 0.1, 0.8, 1.3]])
def test_resize_of_a_region_with_antialiasing(mode: str, region: list[float]) -> None:
    resize = helper.make_node("Resize", ["x", "region", "", "sizes"], ["y"], mode=mode, antialias=1, axes=[2, 3])
    more = {"coordinate_transformation_mode": "tf_crop_and_resize", "extrapolation_value": 0.5}
    resize.attribute.extend(helper.make_attribute(name, value) for name, value in more.items())
    constants = {"region": np.float32(region), "sizes": integers(5, 10)}
    check_gradients([resize], {"x": numbers(1, 2, 9, 8)}, constants=constants, opset=18)


@pytest.mark.parametrize(
    "attributes",
    [
        {"kernel_shape": [2, 2], "strides": [2, 2]},
        {"kernel_shape": [2, 3], "strides": [2, 3], "pads": [1, 0, 1, 0]},
    ],
)
@pytest.mark.parametrize("order", [0, 1])
def test_largest_elements_are_scattered_back(attributes: dict[str, Any], order: int) -> None:
    nodes = [
        node("MaxPool", "x", "p i", storage_order=order, **attributes),
        node("Exp", "p", "e"),
        node("MaxUnpool", "e i", **attributes),
    ]
    check_gradients(nodes, {"x": numbers(2, 3, 8, 6)})
    nodes[-1] = node("MaxUnpool", "e i shape", **attributes)
    check_gradients(nodes, {"x": numbers(2, 3, 8, 6)}, constants={"shape": integers(2, 3, 9, 7)})


REGIONS = np.array([[0.3, 0.2, 4.1, 5.3], [-3.0, 1.1, 2.2, 9.7], [2.3, 2.1, 2.6, 2.4], [0.7, 6.9, 14.2, 13.1]])


@pytest.mark.parametrize(
    ("opset", "attributes"),
    [
        (16, {}),
        (16, {"coordinate_transformation_mode": "output_half_pixel", "spatial_scale": 0.7}),
        (10, {"sampling_ratio": 3}),
        (16, {"sampling_ratio": 0}),
        (16, {"sampling_ratio": 0, "spatial_scale": 0.7}),
        (10, {"sampling_ratio": 0}),
    ],
)
@pytest.mark.parametrize("mode", ["avg", "max"])
def test_aligned_regions(opset: int, attributes: dict[str, Any], mode: str) -> None:
    align = node(
        "RoiAlign",
        "x regions of",
        **{"output_height": 2, "output_width": 3, "sampling_ratio": 2, **attributes},
        mode=mode,
    )
    # In the places of round numbers two parts of a maximum are equal.
    check_gradients(
        [align],
        {"x": numbers(2, 3, 8, 7), "regions": REGIONS + numbers(4, 4, low=0.0) / 20},
        constants={"of": integers(1, 0, 1, 1)},
        opset=opset,
    )


def test_an_expression_with_a_long_derivative() -> None:
    folded: Any = 0
    for number in range(4):  # as positions that are reflected: 243 operators, and thousands in the derivative
        folded = ("mul", ("min", ("mul", folded, 1), ("const", 0.9 - number / 10)), ("sin", ("add", folded, 1)))
    b = NetworkBuilder("long", 0, {}, ModelLimits())
    given = {"x": numbers(3, 4), "y": numbers(4, seed=1), "dz": numbers(3, 4, seed=2)}
    for name, array in given.items():
        b.add_input(name, array.shape, "float64")
    made = CanonicalNode("z", "elementwise", ("x", "y"), ("z",), {"expression": folded})
    b.add_node(made, [Value("z", (3, 4), "float64")])
    gradients = differentiate(b, [made], {"z": "dz"}, ["x", "y"])
    network = b.finish("long", [("z", "z"), *((f"d{name}", found) for name, found in gradients.items())])
    results = evaluate(network, given)
    for name in "xy":
        direction = 1e-6 * numbers(*given[name].shape, seed=3)
        ends = [evaluate(network, {**given, name: given[name] + sign * direction})["z"] for sign in (1, -1)]
        wanted = ((ends[0] - ends[1]) / 2 * given["dz"]).sum()
        assert (results[f"d{name}"] * direction).sum() == pytest.approx(wanted, rel=1e-6)


def test_parameters_without_influence_have_a_gradient_of_zero() -> None:
    nodes = [node("Round", "a", "r"), node("Mul", "r b")]
    parameters = {"a": 3 * numbers(3, 4), "b": numbers(3, 4, seed=1)}
    check_gradients(nodes, parameters)
