# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numpy as np
from support.networks import Builder, kinds, rewritten


def test_nodes_of_constants_are_folded() -> None:
    made = Builder(dtype="float64")
    x = made.input("x", (3, 4))
    known = made.reshape(made.transpose(made.normal(2, 2), 1, 0), 4)
    made.elementwise(("add", 0, 1), x, made.elementwise(("exp", 0), known))
    network = rewritten(made, "constant_folding")
    assert kinds(network) == ["elementwise"]
    assert len(network.constants) == 1


def test_a_small_constant_is_not_made_a_large_one() -> None:
    made = Builder(dtype="float64")
    x = made.input("x", (200, 200))
    wide = made.add("elementwise", (made.normal(1, 1),), (200, 200), expression=0)
    made.elementwise(("add", 0, 1), x, wide)
    assert kinds(rewritten(made, "constant_folding")) == ["elementwise", "elementwise"]


def test_folded_constants_are_read_only() -> None:
    made = Builder(dtype="float64")
    made.elementwise(("add", 0, 1), made.input("x", (4,)), made.elementwise(("exp", 0), made.normal(4)))
    assert not any(array.flags.writeable for array in rewritten(made, "constant_folding").constants.values())


def test_an_output_of_the_network_stays_a_node() -> None:
    made = Builder(dtype="float64")
    made.elementwise(("exp", 0), made.constant(np.arange(4.0)))
    assert kinds(rewritten(made, "constant_folding")) == ["elementwise"]
