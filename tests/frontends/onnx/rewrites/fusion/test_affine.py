# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numpy as np
import pytest
from support.networks import Builder, kinds, rewritten


def image(made: Builder, channels: int = 4) -> str:
    return made.input("image", (2, channels, 6, 5))


@pytest.mark.parametrize("groups", [1, 2])
def test_a_batch_norm_is_fused_into_the_preceding_convolution(groups: int) -> None:
    made = Builder(dtype="float64")
    made.batch_norm(made.conv(image(made), 6, groups=groups))
    assert kinds(rewritten(made, "batch_norm")) == ["conv"]


@pytest.mark.parametrize("groups", [1, 2])
def test_batch_norm_is_fused_into_transposed_convolution(groups: int) -> None:
    made = Builder(dtype="float64")
    made.batch_norm(made.conv_transpose(image(made), 6, groups=groups))
    assert kinds(rewritten(made, "batch_norm")) == ["conv_transpose"]


def test_a_batch_norm_keeps_its_activation() -> None:
    made = Builder(dtype="float64")
    made.batch_norm(made.conv(image(made), 6))
    made.nodes[-1].attributes["activation"] = (("relu",),)  # type: ignore[index]
    (conv,) = rewritten(made, "batch_norm").nodes
    assert conv.attributes["activation"] == (("relu",),)
    assert conv.origin == ("conv0", "batch_norm1")


@pytest.mark.parametrize(("extents", "taken"), [((6, 1, 1), True), ((), True), ((6, 5), False)])
def test_a_batch_norm_takes_the_scale_and_shift_behind_it(extents: tuple[int, ...], taken: bool) -> None:
    made = Builder(dtype="float64")
    norm = made.batch_norm(made.conv(image(made), 6))
    scaled = made.elementwise(("mul", 0, 1), norm, made.positive(*extents))
    made.elementwise(("add", 0, 1), scaled, made.normal(*extents))
    network = rewritten(made, "batch_norm")
    assert kinds(network) == (["conv"] if taken else ["conv", "elementwise", "elementwise"])
    assert network.nodes[0].origin == ("conv0", "batch_norm1", "elementwise2", "elementwise3")[: 4 if taken else 2]


def test_a_batch_norm_of_one_channel_leaves_a_scale_by_pixel() -> None:
    made = Builder(dtype="float64")
    made.elementwise(("mul", 0, 1), made.batch_norm(made.conv(image(made), 1)), made.positive(6, 5))
    conv, scaled = rewritten(made, "batch_norm").nodes
    assert (conv.origin, scaled.origin) == (("conv0", "batch_norm1"), ("elementwise2",))


def test_a_batch_norm_that_is_a_result_leaves_what_follows() -> None:
    made = Builder(dtype="float64")
    norm = made.batch_norm(made.conv(image(made), 6))
    scaled = made.elementwise(("mul", 0, 1), norm, made.positive(6, 1, 1))
    assert kinds(rewritten(made, "batch_norm", outputs=(norm, scaled))) == ["conv", "elementwise"]


def test_a_batch_norm_of_a_shared_value_becomes_scale_and_shift() -> None:
    made = Builder(dtype="float64")
    conv = made.conv(image(made), 4)
    norm = made.batch_norm(conv)
    network = rewritten(made, "batch_norm", outputs=(norm, conv))
    assert kinds(network) == ["conv", "elementwise"]
    assert network.nodes[1].attributes["expression"] == ("add", ("mul", 0, 1), 2)


def test_a_batch_norm_with_computed_statistics_stays() -> None:
    made = Builder(dtype="float64")
    x = image(made)
    mean = made.reduce(x, "mean", 0, 2, 3, keepdims=False)
    made.add("batch_norm", (x, made.positive(4), made.normal(4), mean, made.positive(4)), (2, 4, 6, 5))
    made.nodes[-1].attributes.update(epsilon=1e-5, channels_last=False, activation=())  # type: ignore[attr-defined]
    assert kinds(rewritten(made, "batch_norm")) == ["reduce", "batch_norm"]


@pytest.mark.parametrize(
    "expression", [("mul", 0, 1), ("add", 1, 0), ("sub", 0, 1), ("sub", 1, 0), ("div", 0, 1), ("neg", ("mul", 0, 1))]
)
def test_constants_go_into_the_convolution_before_them(expression: tuple) -> None:
    made = Builder(dtype="float64")
    made.elementwise(expression, made.conv(image(made), 6), made.positive(6, 1, 1))
    assert kinds(rewritten(made, "scale_shift")) == ["conv"]


def test_a_quotient_of_a_constant_is_no_scale() -> None:
    made = Builder(dtype="float64")
    made.elementwise(("div", 1, ("add", ("square", 0), 1)), made.conv(image(made), 6), made.positive(6, 1, 1))
    assert kinds(rewritten(made, "scale_shift")) == ["conv", "elementwise"]


def test_constants_that_differ_by_pixel_stay() -> None:
    made = Builder(dtype="float64")
    made.elementwise(("mul", 0, 1), made.conv(image(made), 6), made.positive(6, 6, 5))
    assert kinds(rewritten(made, "scale_shift")) == ["conv", "elementwise"]


@pytest.mark.parametrize("transposed", [False, True])
def test_constants_go_into_weights_and_bias_of_a_matrix_product(transposed: bool) -> None:
    made = Builder(dtype="float64")
    x = made.input("x", (3, 7))
    product = made.matmul(x, made.normal(5, 7) if transposed else made.normal(7, 5), transpose_b=transposed)
    made.elementwise(("add", ("mul", 0, 1), 2), product, made.positive(5), made.normal(5))
    (node,) = rewritten(made, "scale_shift").nodes
    assert (node.kind, len(node.inputs)) == ("matmul", 3)


def test_one_number_scales_a_product_of_any_two_matrices() -> None:
    made = Builder(dtype="float64")
    x = made.input("x", (2, 3, 4, 5))
    made.elementwise(("div", 0, ("const", 8.0)), made.matmul(x, x, transpose_b=True))
    (node,) = rewritten(made, "scale_shift").nodes
    assert node.attributes["alpha"] == 0.125


def test_two_scales_and_shifts_become_one() -> None:
    made = Builder(dtype="float64")
    first = made.elementwise(("add", ("mul", 0, 1), 2), image(made), made.positive(4, 1, 1), made.normal(4, 1, 1))
    made.elementwise(("sub", ("div", 0, 1), 2), first, made.positive(4, 1, 1), made.normal(4, 1, 1))
    assert kinds(rewritten(made, "scale_shift")) == ["elementwise"]


@pytest.mark.parametrize(("pad", "taken"), [(0, True), (1, False)])
def test_shift_is_fused_only_without_pads(pad: int, taken: bool) -> None:
    made = Builder(dtype="float64")
    shifted = made.elementwise(("add", ("mul", 0, 1), 2), image(made), made.positive(4, 1, 1), made.normal(4, 1, 1))
    made.conv(shifted, 6, groups=2, pad=pad)
    assert kinds(rewritten(made, "scale_shift")) == (["conv"] if taken else ["elementwise", "conv"])


def test_a_scale_is_fused_into_the_next_convolution_with_pads() -> None:
    made = Builder(dtype="float64")
    made.conv(made.elementwise(("mul", 0, 1), image(made), made.positive(4, 1, 1)), 6)
    assert kinds(rewritten(made, "scale_shift")) == ["conv"]


def test_weights_that_would_become_infinite_are_unchanged() -> None:
    made = Builder(dtype="float64")
    scale = made.constant(np.array([1.0, 0.0, 1.0, 1.0]).reshape(4, 1, 1))
    made.elementwise(("div", 0, 1), made.conv(image(made), 4), scale)
    network = made.network(str(made.nodes[-1].outputs[0]))
    from syclsched.frontends.onnx.rewrites import rewrite

    assert kinds(rewrite(network, passes=("scale_shift",)).network) == ["conv", "elementwise"]
