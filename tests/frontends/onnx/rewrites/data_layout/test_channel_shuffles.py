# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from support.networks import Builder, kinds, rewritten


def test_a_convolution_makes_its_channels_shuffled() -> None:
    made = Builder(dtype="float64")
    made.softmax(made.shuffle(made.conv(made.input("x", (2, 3, 4, 5)), 6), 2), 1)
    assert kinds(rewritten(made, "shuffles")) == ["conv", "softmax"]


def test_a_shuffled_network_output_is_fused() -> None:
    made = Builder(dtype="float64")
    made.shuffle(made.conv(made.input("x", (2, 3, 4, 5)), 6), 3)
    assert kinds(rewritten(made, "shuffles")) == ["conv"]


def test_a_shuffle_behind_a_grouped_convolution_stays() -> None:
    made = Builder(dtype="float64")
    made.shuffle(made.conv(made.input("x", (2, 4, 4, 5)), 6, groups=2), 2)
    assert kinds(rewritten(made, "shuffles")) == ["conv", "reshape", "transpose", "reshape"]


def test_nor_one_that_others_read() -> None:
    made = Builder(dtype="float64")
    conv = made.conv(made.input("x", (2, 3, 4, 5)), 6)
    network = rewritten(made, "shuffles", outputs=(made.shuffle(conv, 2), conv))
    assert kinds(network) == ["conv", "reshape", "transpose", "reshape"]


def test_transposition_of_spatial_axes_is_no_shuffle() -> None:
    made = Builder(dtype="float64")
    split = made.reshape(made.conv(made.input("x", (2, 3, 4, 4)), 6), 2, 6, 2, 2, 4)
    made.reshape(made.transpose(split, 0, 1, 3, 2, 4), 2, 6, 4, 4)
    assert kinds(rewritten(made, "shuffles")) == ["conv", "reshape", "transpose", "reshape"]
