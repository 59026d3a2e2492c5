# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from support.networks import Builder, kinds, rewritten

from syclsched.frontends.onnx.rewrites.fusion.concat_scale_shift import MOST_PARTS


def scaled(made: Builder, x: str) -> str:
    channels = made.shape(x)[-1]
    return made.elementwise(("relu", ("add", ("mul", 0, 1), 2)), x, made.positive(channels), made.normal(1, channels))


def test_scaled_and_shifted_concatenations_become_joins() -> None:
    made = Builder(dtype="float64")
    x, y = made.input("x", (2, 5, 3)), made.input("y", (2, 5, 4))
    scaled(made, made.concat(2, x, y))
    (node,) = rewritten(made, "joins").nodes
    assert node.kind == "join"
    assert node.inputs[:2] == ("x", "y")
    assert node.attributes["activation"] == (("relu",),)


def test_growing_concatenations_are_read_in_parts() -> None:
    made = Builder(dtype="float64")
    whole, last = made.input("x", (2, 3, 8)), ""
    for _ in range(4):
        last = made.matmul(scaled(made, whole), made.normal(made.shape(whole)[-1], 2))
        whole = made.concat(2, whole, last)
    scaled(made, whole)
    network = rewritten(made, "joins")
    assert kinds(network).count("join") == 4
    assert "concat" not in kinds(network)
    assert [len(node.inputs) for node in network.nodes if node.kind == "join"] == [4, 5, 6, 7]


def test_a_concat_with_another_reader_stays() -> None:
    made = Builder(dtype="float64")
    whole = made.concat(1, made.input("x", (2, 3)), made.input("y", (2, 3)))
    one, other = scaled(made, whole), made.softmax(whole, 1)
    assert kinds(rewritten(made, "joins", outputs=(one, other))) == ["concat", "elementwise", "softmax"]


def test_a_concat_of_another_axis_or_scale_stays() -> None:
    made = Builder(dtype="float64")
    x = made.input("x", (3, 3))
    one = scaled(made, made.concat(0, x, x))
    other = made.elementwise(("add", ("mul", 0, 1), 2), made.concat(1, x, x), made.normal(3, 6), made.normal(6))
    assert "join" not in kinds(rewritten(made, "joins", outputs=(one, other)))


def test_there_are_not_too_many_parts() -> None:
    made = Builder(dtype="float64")
    x = made.input("x", (2, 1))
    scaled(made, made.concat(1, *[x] * (MOST_PARTS + 1)))
    assert kinds(rewritten(made, "joins")) == ["concat", "elementwise"]


def test_kept_concatenation_takes_parts_of_removed_one() -> None:
    made = Builder(dtype="float64")
    x, y = made.input("x", (2, 3)), made.input("y", (2, 4))
    inner = made.concat(1, x, y)
    outer = made.concat(1, inner, x)
    one, other = scaled(made, inner), made.softmax(outer, 1)
    network = rewritten(made, "joins", outputs=(one, other))
    assert sorted(kinds(network)) == ["concat", "join", "softmax"]
    assert next(node for node in network.nodes if node.kind == "concat").inputs == ("x", "y", "x")
