# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest
from support.networks import Builder, kinds, rewritten

from syclsched.frontends.onnx.rewrites import rewrite

X = (2, 8, 6, 7)


def branch(made: Builder, channels: int = 3, kernel: int = 1, **pool: object) -> str:
    """Return a convolution of an average pooling, which by default keeps the size."""
    given = {"kernel": 3, "stride": 1, "pad": 1, "counted": False, **pool}
    return made.conv(made.pool(made.input("x", X), "average", **given), channels, kernel)


def test_average_pools_move_behind_convolutions() -> None:
    made = Builder(dtype="float64")
    made.elementwise(("relu", 0), branch(made))
    network = rewritten(made, "averages", "post_ops")
    assert kinds(network) == ["conv", "pool"]
    conv, pool = network.nodes
    assert network.values[str(conv.outputs[0])].shape == (2, 3, 6, 7)
    assert not conv.attributes["activation"] and pool.attributes["activation"] == (("relu",),)


def test_an_activation_of_the_convolution_moves_to_the_pool() -> None:
    made = Builder(dtype="float64")
    made.elementwise(("tanh", 0), branch(made))
    first = rewritten(made, "post_ops")
    assert kinds(first) == ["pool", "conv"]
    conv, pool = rewrite(first, passes=["averages"]).network.nodes
    assert (conv.kind, conv.attributes["activation"]) == ("conv", ())
    assert (pool.kind, pool.attributes["activation"]) == ("pool", (("tanh",),))


@pytest.mark.parametrize(
    "change",
    [{"channels": 8}, {"kernel": 3}, {"counted": True}, {"stride": 2}, {"pad": 0}],
    ids=["as many channels", "not of single elements", "padding counts", "fewer elements", "smaller"],
)
def test_average_pools_stay_first_without_commutation_or_gain(change: dict) -> None:
    made = Builder(dtype="float64")
    of_pool = {name: value for name, value in change.items() if name in ("counted", "stride", "pad")}
    x = made.pool(made.input("x", X), "average", **{"kernel": 3, "stride": 1, "pad": 1, **of_pool})
    made.conv(x, change.get("channels", 3), change.get("kernel", 1))
    assert kinds(rewritten(made, "averages")) == ["pool", "conv"]


def test_averages_of_single_elements_do_not_go_to_and_fro() -> None:
    made = Builder(dtype="float64")
    made.pool(made.conv(made.input("x", (2, 8, 1, 1)), 3, 1), "average", 3, 2, 1)
    found = rewrite(made.network(), passes=["pool_order", "averages"])
    assert kinds(found.network) == ["conv", "pool"]
    assert found.rounds == 1


def test_averages_that_others_read_stay_where_they_are() -> None:
    made = Builder(dtype="float64")
    pool = made.pool(made.input("x", X), "average", 3, 1, 1)
    conv = made.conv(pool, 3, 1)
    assert kinds(rewritten(made, "averages", outputs=(pool, conv))) == ["pool", "conv"]


def test_the_largest_take_no_activation() -> None:
    made = Builder(dtype="float64")
    made.elementwise(("relu", 0), made.pool(made.input("x", X), "max", 3, 1, 1))
    assert kinds(rewritten(made, "post_ops")) == ["pool", "elementwise"]


def test_an_average_pool_moves_before_a_1x1_convolution() -> None:
    made = Builder(dtype="float64")
    made.pool(made.conv(made.input("x", (2, 4, 6, 8)), 3, 1), "average", 2, 2)
    network = rewritten(made, "pool_order")
    assert kinds(network) == ["pool", "conv"]
    assert network.values[str(network.nodes[0].outputs[0])].shape == (2, 4, 3, 4)


def test_an_average_pool_moves_in_channels_last_layout() -> None:
    made = Builder(dtype="float64")
    made.pool(made.conv(made.input("x", (2, 4, 6, 8)), 3, 1), "average", 2, 2)
    network = rewritten(made, "layout", "pool_order")
    assert [kind for kind in kinds(network) if kind != "transpose"] == ["pool", "conv"]


@pytest.mark.parametrize(
    "change",
    [{"kernel": 3}, {"stride": 2}, {"mode": "max"}, {"pool_stride": 1}, {"pad": 1, "counted": True}],
)
def test_poolings_that_stay_behind(change: dict) -> None:
    made = Builder(dtype="float64")
    x = made.conv(made.input("x", (2, 4, 9, 9)), 3, change.get("kernel", 1), change.get("stride", 1), pad=0)
    pool = {"pad": change.get("pad", 0), "counted": change.get("counted", False)}
    made.pool(x, change.get("mode", "average"), 2, change.get("pool_stride", 2), **pool)
    assert kinds(rewritten(made, "pool_order")) == ["conv", "pool"]


def test_padding_that_is_not_counted_leaves_averages_averages() -> None:
    made = Builder(dtype="float64")
    made.pool(made.conv(made.input("x", (2, 4, 6, 8)), 3, 1), "average", 3, 2, 1)
    assert kinds(rewritten(made, "pool_order")) == ["pool", "conv"]


def test_a_convolution_that_others_read_stays_first() -> None:
    made = Builder(dtype="float64")
    conv = made.conv(made.input("x", (2, 4, 6, 8)), 3, 1)
    pool = made.pool(conv, "average", 2, 2)
    assert kinds(rewritten(made, "pool_order", outputs=(pool, conv))) == ["conv", "pool"]
