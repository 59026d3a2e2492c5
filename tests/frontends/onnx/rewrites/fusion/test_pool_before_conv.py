# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest
from support.networks import Builder, kinds, rewritten


def test_an_average_comes_before_a_convolution_of_single_elements() -> None:
    made = Builder(dtype="float64")
    made.pool(made.conv(made.input("x", (2, 4, 6, 8)), 3, 1), "average", 2, 2)
    network = rewritten(made, "pool_order")
    assert kinds(network) == ["pool", "conv"]
    assert network.values[str(network.nodes[0].outputs[0])].shape == (2, 4, 3, 4)


def test_of_channels_last_too() -> None:
    made = Builder(dtype="float64")
    made.pool(made.conv(made.input("x", (2, 4, 6, 8)), 3, 1), "average", 2, 2)
    network = rewritten(made, "layout", "pool_order")
    assert [kind for kind in kinds(network) if kind != "transpose"] == ["pool", "conv"]


@pytest.mark.parametrize(
    "change",
    [{"kernel": 3}, {"stride": 2}, {"mode": "max"}, {"pool_stride": 1}, {"pad": 1, "counted": True}],
)
def test_where_they_cannot_change_places_or_nothing_is_won_they_stay(change: dict) -> None:
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
