# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest
from support.networks import Builder, kinds, rewritten


def start(made: Builder) -> str:
    return made.input("image", (2, 4, 6, 5))


def transposed(network: object) -> list[tuple[int, ...]]:
    return [node.attributes["permutation"] for node in network.nodes if node.kind == "transpose"]  # type: ignore[attr-defined]


def test_between_convolutions_nothing_is_transposed() -> None:
    made = Builder(dtype="float64")
    x = made.elementwise(("relu", 0), made.conv(start(made), 8))
    x = made.pool(made.elementwise(("add", 0, 1), made.conv(x, 8), x), "max")
    made.elementwise(("mul", 0, 1), made.conv(x, 8, groups=2), made.positive(8, 1, 1))
    network = rewritten(made, "layout")
    assert transposed(network) == [(0, 2, 3, 1), (0, 3, 1, 2)]
    assert all(node.attributes["channels_last"] for node in network.nodes if node.kind in ("conv", "pool"))


def test_the_gradients_of_a_network_have_its_layout() -> None:
    made = Builder(dtype="float64")
    outputs = made.training_step()
    network = rewritten(made, "layout", outputs=outputs)
    assert transposed(network) == [(0, 2, 3, 1)]
    windows = [node for node in network.nodes if "channels_last" in node.attributes]
    assert len(windows) == 7 and all(node.attributes["channels_last"] for node in windows)
    assert transposed(rewritten(made, outputs=outputs)) == [(0, 2, 3, 1)]


def test_sums_of_channels_need_no_layout() -> None:
    """As in the gradient of pooling after a normalisation: most readers are sums, one is a convolution."""
    made = Builder(dtype="float64")
    h = made.conv(start(made), 8)
    window = {"kernel": (2, 2), "strides": (2, 2), "pads": (0,) * 4, "dilations": (1, 1), "channels_last": False}
    pool = {"mode": "average", "count_include_pad": False, **window}
    wide = made.elementwise(("mul", 0, 1), made.constant([[[[0.5]]]]), made.input("dy", (2, 8, 1, 1)))
    far = made.add("elementwise", (wide,), (2, 8, 3, 2), expression=0)
    dh = made.add("pool_gradient", (h, far), made.shape(h), **pool)
    passed = made.elementwise(("where", ("greater", 0, ("const", 0.0)), 1, ("const", 0.0)), h, dh)
    sums = [made.reduce(made.elementwise((f, 0), passed), "sum", 0, 2, 3, keepdims=False) for f in ("abs", "square")]
    last = made.conv(made.elementwise(("neg", 0), passed), 4)
    network = rewritten(made, "layout", outputs=(*sums, last))
    assert transposed(network) == [(0, 2, 3, 1), (0, 3, 1, 2)]  # the image and the result


@pytest.mark.parametrize("rank", [3, 5])
def test_convolutions_of_any_rank_share_one_layout(rank: int) -> None:
    made = Builder(dtype="float64")
    x = made.input("image", (2, 3, *(5,) * (rank - 2)))
    made.conv(made.conv_transpose(made.conv(x, 4), 6, groups=2), 4)
    assert len(transposed(rewritten(made, "layout"))) == 2


def test_a_network_without_convolutions_is_unchanged() -> None:
    made = Builder(dtype="float64")
    made.pool(start(made), "max")
    assert kinds(rewritten(made, "layout")) == ["pool"]


def test_transpositions_of_the_model_are_undone() -> None:
    made = Builder(dtype="float64")
    x = made.input("image", (2, 6, 5, 4))
    x = made.conv(made.transpose(x, 0, 3, 1, 2), 8)
    made.layer_norm(made.transpose(x, 0, 2, 3, 1))
    assert transposed(rewritten(made, "layout")) == []


def test_a_channel_shuffle_is_one_transposition_of_the_last_axes() -> None:
    made = Builder(dtype="float64")
    made.conv(made.shuffle(made.conv(start(made), 8), 2), 8)
    assert transposed(rewritten(made, "layout")) == [(0, 2, 3, 1), (0, 1, 2, 4, 3), (0, 3, 1, 2)]


def test_after_a_global_pool_nothing_is_transposed() -> None:
    made = Builder(dtype="float64")
    x = made.conv(made.input("image", (2, 4, 5, 5)), 8)
    x = made.reshape(made.pool(x, "average", 5, 1), 2, 8)
    made.matmul(x, made.normal(8, 3))
    assert transposed(rewritten(made, "layout", "identities")) == [(0, 2, 3, 1)]


def test_layout_after_a_mean_over_spatial_axes() -> None:
    made = Builder(dtype="float64")
    x = made.conv(start(made), 8)
    gate = made.elementwise(("sigmoid", 0), made.conv(made.reduce(x, "mean", 2, 3), 8, 1))
    x = made.elementwise(("mul", 0, 1), x, gate)
    made.matmul(made.reduce(x, "mean", 2, 3, keepdims=False), made.normal(8, 3))
    assert transposed(rewritten(made, "layout")) == [(0, 2, 3, 1)]


@pytest.mark.parametrize("axis", range(4))
def test_axis_attributes_follow_the_stored_layout(axis: int) -> None:
    made = Builder(dtype="float64")
    x = made.conv(start(made), 4)
    x = made.concat(axis, made.softmax(x, axis), made.pad(x, (0, 1, 0, 2, 0, 0, 0, 0)) if axis == 9 else x)
    x = made.slice(x, axis, 1, 2)
    x = made.add("scan_sum", (x,), made.shape(x), axis=axis, exclusive=False, reverse=True)
    x = made.pad(x, (0, 1, 1, 0, 0, 0, 2, 1))
    x = made.elementwise(("add", 0, ("cast", "float64", ("index", axis - 4))), x)
    made.conv(x, 4)
    assert len(transposed(rewritten(made, "layout"))) == 2


def test_indices_of_the_largest() -> None:
    made = Builder(dtype="float64")
    x = made.conv(start(made), 4)
    made.add("arg", (x,), (2, 6, 5), "int64", mode="max", axis=1, keepdims=False, last=False)
    network = rewritten(made, "layout")
    assert network.nodes[-1].attributes["axis"] == 3
    assert transposed(network) == [(0, 2, 3, 1)]


def test_resize_keeps_the_layout_of_its_input() -> None:
    made = Builder(dtype="float64")
    x = made.conv(start(made), 4)
    shape = (2, 4, 12, 5)
    scales = (1.0, 1.0, 2.0, 1.0)
    x = made.add("resize", (x,), shape, mode="nearest", coordinates="asymmetric", nearest="floor", scales=scales)
    made.conv(x, 4)
    network = rewritten(made, "layout")
    resize = next(node for node in network.nodes if node.kind == "resize")
    assert resize.attributes["scales"] == (1.0, 2.0, 1.0, 1.0)
    assert len(transposed(network)) == 2


def test_smaller_values_are_broadcast_along_the_axes_they_had() -> None:
    made = Builder(dtype="float64")
    x = made.conv(start(made), 4)
    row, column = made.input("row", (5,)), made.input("plane", (6, 5))
    x = made.elementwise(("add", 0, ("mul", 1, 2)), x, row, column)
    made.conv(made.elementwise(("mul", 0, 1), x, made.positive(4, 6, 5)), 4)
    assert len(transposed(rewritten(made, "layout"))) == 2


def test_values_read_in_model_order_are_transposed_once() -> None:
    made = Builder(dtype="float64")
    x = made.conv(start(made), 4)
    one, other = made.matmul(x, made.normal(5, 3)), made.matmul(x, made.normal(5, 2))
    assert transposed(rewritten(made, "layout", outputs=(one, other, x))) == [(0, 2, 3, 1), (0, 3, 1, 2)]
