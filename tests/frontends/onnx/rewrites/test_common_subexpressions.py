# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numpy as np
import pytest
from support.networks import Builder, kinds, rewritten

from syclsched.frontends.onnx.rewrites import rewrite


def test_equal_nodes_are_merged() -> None:
    made = Builder(dtype="float64")
    x = made.input("x", (3, 4))
    made.elementwise(("add", 0, 1), made.softmax(x, 1), made.softmax(x, 1))
    assert kinds(rewritten(made, "common")) == ["softmax", "elementwise"]


def test_nodes_with_different_attributes_are_not_merged() -> None:
    made = Builder(dtype="float64")
    x = made.input("x", (3, 3))
    made.elementwise(("add", 0, 1), made.softmax(x, 0), made.softmax(x, 1))
    assert len(rewritten(made, "common").nodes) == 3


def test_random_nodes_are_not_merged() -> None:
    made = Builder(dtype="float64")
    drawn = [made.add("reference", (), (3,), node=b"", opsets=(), names=(), results=("y",)) for _ in range(2)]
    made.elementwise(("add", 0, 1), *drawn)
    network = rewrite(made.network(str(made.nodes[-1].outputs[0])), passes=("common",)).network
    assert kinds(network) == ["reference", "reference", "elementwise"]


@pytest.mark.parametrize("other", [1.0, True, -1.0])
def test_equal_constants_of_different_type_are_not_merged(other: float) -> None:
    made = Builder(dtype="float64")
    x = made.input("x", (3, 3))
    two = [made.elementwise(("cast", "float64", ("const", value)), x) for value in (1, other)]
    made.elementwise(("add", 0, 1), *two)
    assert len(rewritten(made, "common").nodes) == 3


def test_equal_constants_and_their_readers_are_merged() -> None:
    made = Builder(dtype="float64")
    x = made.input("x", (3, 4))
    one, other = (made.elementwise(("mul", 0, 1), x, made.constant(np.arange(4.0))) for _ in range(2))
    made.elementwise(("add", 0, 1), one, other)
    network = rewritten(made, "common")
    assert len(network.nodes) == 2
    assert len(network.constants) == 1


def test_two_outputs_of_the_network_keep_their_names() -> None:
    made = Builder(dtype="float64")
    x = made.input("x", (3, 4))
    outputs = made.softmax(x, 1), made.softmax(x, 1)
    assert rewritten(made, "common", outputs=outputs).outputs == outputs
