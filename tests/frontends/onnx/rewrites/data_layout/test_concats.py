# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from support.networks import Builder, kinds, rewritten


def test_concatenations_along_the_same_axis_are_merged() -> None:
    made = Builder(dtype="float64")
    x = made.input("x", (2, 3))
    made.concat(1, made.concat(1, x, x), made.elementwise(("exp", 0), x), made.concat(0, x))
    network = rewritten(made, "concats")
    assert kinds(network) == ["elementwise", "concat", "concat"]
    assert len(network.nodes[-1].inputs) == 4


def test_a_concat_with_other_readers_stays() -> None:
    made = Builder(dtype="float64")
    x = made.input("x", (2, 3))
    first = made.concat(1, x, x)
    second = made.concat(1, first, x)
    network = rewritten(made, "concats", outputs=(second, made.softmax(first, 1)))
    assert kinds(network) == ["concat", "concat", "softmax"]
    assert network.nodes[1].inputs == (first, x)


def test_a_slice_of_one_part_is_a_slice_of_that_part() -> None:
    made = Builder(dtype="float64")
    x, y = made.input("x", (2, 3)), made.input("y", (2, 4))
    made.elementwise(("exp", 0), made.slice(made.concat(1, x, y), 1, 3, 7))
    network = rewritten(made, "concats", "identities")
    assert kinds(network) == ["elementwise"]
    assert network.nodes[0].inputs == ("y",)


def test_a_slice_across_parts_stays() -> None:
    made = Builder(dtype="float64")
    x, y = made.input("x", (2, 3)), made.input("y", (2, 4))
    made.slice(made.concat(1, x, y), 1, 2, 5)
    assert kinds(rewritten(made, "concats")) == ["concat", "slice"]


def test_a_slice_of_a_slice_is_one_slice() -> None:
    made = Builder(dtype="float64")
    backwards = made.add("slice", (made.input("x", (9, 2)),), (4, 2), starts=(7, 0), steps=(-2, 1))
    made.add("slice", (backwards,), (2, 2), starts=(3, 0), steps=(-2, 1))
    (node,) = rewritten(made, "concats").nodes
    assert dict(node.attributes) == {"starts": (1, 0), "steps": (4, 1)}
