# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from support.networks import Builder, kinds, rewritten


def test_relus_of_non_negative_values_are_removed() -> None:
    made = Builder(dtype="float64")
    x = made.pool(made.elementwise(("relu", 0), made.input("x", (2, 4, 6, 6))), "average")
    made.elementwise(("relu", 0), made.concat(1, x, made.elementwise(("sigmoid", 0), x)))
    assert kinds(rewritten(made, "signs")) == ["elementwise", "pool", "elementwise", "concat"]


def test_relus_of_possibly_negative_values_stay() -> None:
    made = Builder(dtype="float64")
    made.elementwise(("relu", 0), made.pool(made.input("x", (2, 4, 6, 6)), "average"))
    assert kinds(rewritten(made, "signs")) == ["pool", "elementwise"]


def test_an_activation_of_joined_convolutions_becomes_theirs() -> None:
    made = Builder(dtype="float64")
    x = made.elementwise(("exp", 0), made.input("x", (2, 4, 6, 6)))
    made.elementwise(("relu", 0), made.concat(1, made.conv(x, 3), x, made.conv(x, 5, 1)))
    network = rewritten(made, "signs", "post_ops")
    assert kinds(network) == ["elementwise", "conv", "conv", "concat"]


def test_a_relu_of_a_concat_stays_if_a_part_cannot_fuse_it() -> None:
    made = Builder(dtype="float64")
    x = made.input("x", (2, 4, 6, 6))
    made.elementwise(("relu", 0), made.concat(1, made.conv(x, 3), x))
    assert kinds(rewritten(made, "signs", "post_ops")) == ["conv", "concat", "elementwise"]
