# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numpy as np
import pytest
from support.networks import Builder, kinds, rewritten

PLACES = (0, 0, 1, 0, 0, 0, 1, 1)


def padded(made: Builder, pads: tuple[int, ...] = PLACES, value: float = 0.0, mode: str = "constant") -> str:
    return made.pad(made.input("x", (2, 3, 6, 7)), pads, value, mode)


def test_a_convolution_pads_for_itself() -> None:
    made = Builder(dtype="float64")
    made.conv(padded(made), 4, pad=1)
    (conv,) = rewritten(made, "pads").nodes
    assert conv.attributes["pads"] == (2, 1, 2, 2)


def test_a_pad_that_others_read_stays_for_them() -> None:
    made = Builder(dtype="float64")
    x = padded(made)
    one, other = made.conv(x, 4), made.softmax(x, 1)
    network = rewritten(made, "pads", outputs=(one, other))
    assert sorted(kinds(network)) == ["conv", "pad", "softmax"]
    assert network.producer()[one].inputs[0] == "x"


@pytest.mark.parametrize(
    "pads", [{"pads": (0, 1, 1, 1, 0, 0, 0, 0)}, {"value": 1.0}, {"mode": "edge"}, {"mode": "reflect"}]
)
def test_pads_unsupported_by_convolutions_stay(pads: dict) -> None:
    made = Builder(dtype="float64")
    made.conv(padded(made, **pads), 4)
    assert kinds(rewritten(made, "pads")) == ["pad", "conv"]


@pytest.mark.parametrize(("pad", "counted", "taken"), [(0, False, True), (1, True, True), (1, False, False)])
def test_an_average_counts_the_padding_it_takes_over(pad: int, counted: bool, taken: bool) -> None:
    made = Builder(dtype="float64")
    made.pool(padded(made), "average", 3, 2, pad, counted)
    network = rewritten(made, "pads")
    assert kinds(network) == (["pool"] if taken else ["pad", "pool"])
    assert not taken or network.nodes[0].attributes["count_include_pad"]


@pytest.mark.parametrize(("value", "taken"), [(0.0, False), (-np.inf, True), (float(np.finfo(np.float64).min), True)])
def test_a_maximum_pool_absorbs_only_the_lowest_pad_values(value: float, taken: bool) -> None:
    made = Builder(dtype="float64")
    made.pool(padded(made, value=value), "max", 3, 2)
    assert kinds(rewritten(made, "pads")) == (["pool"] if taken else ["pad", "pool"])


def test_a_pad_as_wide_as_a_window_stays() -> None:
    made = Builder(dtype="float64")
    made.pool(padded(made, (0, 0, 3, 3, 0, 0, 0, 0)), "average", 3, 1)
    assert kinds(rewritten(made, "pads")) == ["pad", "pool"]
