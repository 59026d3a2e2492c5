# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numpy as np
from support.networks import Builder, kinds, rewritten

from syclsched.frontends.onnx.rewrites.fusion.elementwise_fusion import MOST_INPUTS


def test_a_chain_becomes_one_node() -> None:
    made = Builder(dtype="float64")
    x = made.input("x", (3, 4))
    made.elementwise(("relu", 0), made.elementwise(("add", 0, 1), x, made.elementwise(("exp", 0), x)))
    (node,) = rewritten(made, "elementwise").nodes
    assert node.attributes["expression"] == ("relu", ("add", 0, ("exp", 0)))
    assert node.origin == ("elementwise0", "elementwise1", "elementwise2")


def test_a_diamond_becomes_one_node() -> None:
    made = Builder(dtype="float64")
    top = made.elementwise(("exp", 0), made.input("x", (3, 4)))
    made.elementwise(("mul", 0, 1), made.elementwise(("sin", 0), top), made.elementwise(("cos", 0), top))
    assert kinds(rewritten(made, "elementwise")) == ["elementwise"]


def test_shared_expressions_are_not_computed_twice() -> None:
    made = Builder(dtype="float64")
    shared = made.elementwise(("exp", 0), made.input("x", (3, 4)))
    one = made.elementwise(("sin", 0), shared)
    other = made.softmax(shared, 1)
    assert kinds(rewritten(made, "elementwise", outputs=(one, other))) == ["elementwise", "elementwise", "softmax"]


def test_numbers_are_computed_again_where_further_numbers_are() -> None:
    made = Builder(dtype="float64")
    shared = made.elementwise(("exp", 0), made.input("x", (1, 1)))
    one, other = made.elementwise(("sin", 0), shared), made.elementwise(("cos", 0), shared)
    network = rewritten(made, "elementwise", outputs=(one, other))
    assert [node.attributes["expression"] for node in network.nodes] == [("sin", ("exp", 0)), ("cos", ("exp", 0))]
    wide = made.elementwise(("add", 0, 1), shared, made.input("y", (3, 4)))
    assert len(rewritten(made, "elementwise", outputs=(one, other, wide)).nodes) == 4


def test_an_expansion_is_fused_into_all_its_readers() -> None:
    made = Builder(dtype="float64")
    wide = made.add("elementwise", (made.input("x", (3, 1)),), (3, 4), expression=0)
    y = made.input("y", (3, 4))
    one, other = made.elementwise(("mul", 0, 1), wide, y), made.elementwise(("add", 0, 1), wide, y)
    network = rewritten(made, "elementwise", outputs=(one, other))
    assert [node.inputs for node in network.nodes] == [("x", "y"), ("x", "y")]


def test_small_value_is_recomputed_per_element_only_if_cheap() -> None:
    made = Builder(dtype="float64")
    x, row = made.input("x", (30, 4)), made.input("row", (4,))
    cheap = made.elementwise(("mul", 0, ("const", 2.0)), row)
    dear = made.elementwise(("exp", 0), row)
    made.elementwise(("add", 0, 1, 2), x, cheap, dear)
    network = rewritten(made, "elementwise")
    assert [node.attributes["expression"] for node in network.nodes] == [
        ("exp", 0),
        ("add", 0, ("mul", 2, ("const", 2.0)), 1),
    ] or kinds(network) == ["elementwise", "elementwise"]


def test_there_are_no_more_inputs_than_a_kernel_should_have() -> None:
    made = Builder(dtype="float64")
    total = made.input("x0", (2, 3))
    for i in range(1, 20):
        total = made.elementwise(("add", 0, 1), total, made.input(f"x{i}", (2, 3)))
    network = rewritten(made, "elementwise")
    assert len(network.nodes) == 3
    assert max(len(node.inputs) for node in network.nodes) == MOST_INPUTS


def test_casts_and_comparisons_are_fused() -> None:
    made = Builder(dtype="float64")
    mask = made.input("mask", (2, 3), "int64")
    wanted = made.elementwise(("cast", "bool", 0), mask, dtype="bool")
    made.elementwise(("where", 0, ("const", 0.0, "float64"), ("const", -1.0, "float64")), wanted)
    network = rewritten(made, "elementwise")
    assert kinds(network) == ["elementwise"]
    assert np.issubdtype(network.values[network.outputs[0]].dtype, np.floating)
