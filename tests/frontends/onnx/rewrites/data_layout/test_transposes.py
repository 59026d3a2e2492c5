# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from support.networks import Builder, kinds, rewritten


def test_two_in_a_row_become_one() -> None:
    made = Builder(dtype="float64")
    first = made.transpose(made.input("x", (2, 3, 4)), 2, 0, 1)
    made.softmax(made.transpose(first, 1, 0, 2), 1)
    network = rewritten(made, "transposes")
    assert kinds(network) == ["transpose", "softmax"]
    assert network.nodes[0].attributes["permutation"] == (0, 2, 1)


def test_two_that_undo_each_other_go() -> None:
    made = Builder(dtype="float64")
    first = made.transpose(made.input("x", (2, 3, 4)), 2, 0, 1)
    made.softmax(made.transpose(first, 1, 2, 0), 1)
    assert kinds(rewritten(made, "transposes", "identities")) == ["softmax"]


def test_a_product_reads_its_operands_transposed() -> None:
    made = Builder(dtype="float64")
    x, y = made.input("x", (2, 4, 3)), made.input("y", (2, 5, 4))
    made.matmul(made.transpose(x, 0, 2, 1), made.transpose(y, 0, 2, 1))
    (node,) = rewritten(made, "products").nodes
    assert node.attributes["transpose_a"] and node.attributes["transpose_b"]


def test_one_that_reads_transposed_already_reads_plainly() -> None:
    made = Builder(dtype="float64")
    made.matmul(made.transpose(made.input("x", (3, 4)), 1, 0), made.normal(4, 5), transpose_a=True)
    (node,) = rewritten(made, "products").nodes
    assert not node.attributes["transpose_a"]


def test_of_a_larger_transposition_the_last_two_axes_are_taken_if_rows_stay_whole() -> None:
    made = Builder(dtype="float64")
    x, y = made.input("x", (2, 7, 3, 5)), made.input("y", (2, 6, 3, 5))
    made.matmul(made.transpose(x, 0, 2, 1, 3), made.transpose(y, 0, 2, 3, 1))
    network = rewritten(made, "products")
    assert kinds(network) == ["transpose", "transpose", "matmul"]
    assert {node.attributes["permutation"] for node in network.nodes[:2]} == {(0, 2, 1, 3)}
    assert network.nodes[2].attributes["transpose_b"]
