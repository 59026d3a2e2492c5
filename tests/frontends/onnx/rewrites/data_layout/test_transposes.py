# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest
from support.networks import Builder, kinds, rewritten


def test_consecutive_transposes_are_merged() -> None:
    made = Builder(dtype="float64")
    first = made.transpose(made.input("x", (2, 3, 4)), 2, 0, 1)
    made.softmax(made.transpose(first, 1, 0, 2), 1)
    network = rewritten(made, "transposes")
    assert kinds(network) == ["transpose", "softmax"]
    assert network.nodes[0].attributes["permutation"] == (0, 2, 1)


def test_inverse_transposes_are_removed() -> None:
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


def test_last_two_axes_of_larger_transposition() -> None:
    made = Builder(dtype="float64")
    x, y = made.input("x", (2, 7, 3, 5)), made.input("y", (2, 6, 3, 5))
    made.matmul(made.transpose(x, 0, 2, 1, 3), made.transpose(y, 0, 2, 3, 1))
    network = rewritten(made, "products")
    assert kinds(network) == ["transpose", "transpose", "matmul"]
    assert {node.attributes["permutation"] for node in network.nodes[:2]} == {(0, 2, 1, 3)}
    assert network.nodes[2].attributes["transpose_b"]


def test_products_read_and_write_interleaved_heads() -> None:
    made = Builder(dtype="float64")
    q, k, v = (made.input(name, (2, 7, 3, 5)) for name in "qkv")
    shares = made.softmax(made.matmul(made.transpose(q, 0, 2, 1, 3), made.transpose(k, 0, 2, 3, 1)), 3)
    made.transpose(made.matmul(shares, made.transpose(v, 0, 2, 1, 3)), 0, 2, 1, 3)
    network = rewritten(made, "products", "interleaved")
    assert kinds(network) == ["matmul", "softmax", "matmul"]
    first, _, last = network.nodes
    assert first.attributes["interleaved"] == ("a", "b") and first.attributes["transpose_b"]
    assert last.attributes["interleaved"] == ("b", "y")


def test_products_read_and_write_heads_through_elementwise_nodes() -> None:
    made = Builder(dtype="float64")
    q, k = (made.input(name, (2, 7, 3, 5)) for name in "qk")
    q, k = (
        made.elementwise(("mul", 0, 1), x, made.positive(1)) for x in (made.transpose(x, 0, 2, 1, 3) for x in (q, k))
    )
    scores = made.matmul(q, k, transpose_b=True)
    made.transpose(made.elementwise(("mul", ("exp", 0), 1), scores, made.positive(1)), 0, 2, 1, 3)
    network = rewritten(made, "interleaved")
    assert sorted(kinds(network)) == ["elementwise"] * 3 + ["matmul"]
    (product,) = (node for node in network.nodes if node.kind == "matmul")
    assert product.attributes["interleaved"] == ("a", "b", "y")


def test_indices_count_the_same_elements_in_interleaved_arrays() -> None:
    made = Builder(dtype="float64")
    q, k = (made.input(name, (2, 7, 3, 5)) for name in "qk")
    few = ("where", ("less", ("index", -2), ("const", 4, "int64")), 0, ("cast", "float64", ("index", -3)))
    q, k = (made.elementwise(few, made.transpose(x, 0, 2, 1, 3)) for x in (q, k))
    made.transpose(made.elementwise(few, made.matmul(q, k, transpose_b=True)), 0, 2, 1, 3)
    assert sorted(kinds(rewritten(made, "interleaved"))) == ["elementwise"] * 3 + ["matmul"]


def test_a_transposed_value_with_several_readers_is_stored() -> None:
    made = Builder(dtype="float64")
    x = made.transpose(made.input("x", (2, 7, 3, 5)), 0, 2, 1, 3)
    made.matmul(x, made.transpose(x, 0, 1, 3, 2))
    network = rewritten(made, "products", "interleaved")
    assert kinds(network) == ["transpose", "matmul"] and "interleaved" not in network.nodes[1].attributes


def test_many_matrices_and_one_are_one_product() -> None:
    made = Builder(dtype="float64")
    made.matmul(made.transpose(made.input("x", (2, 7, 3, 5)), 0, 2, 1, 3), made.normal(5, 4))
    assert kinds(rewritten(made, "products", "interleaved")) == ["transpose", "matmul"]


@pytest.mark.parametrize("by_column", [True, False])
def test_only_a_bias_by_column_is_added_to_interleaved_results(by_column: bool) -> None:
    made = Builder(dtype="float64")
    x, y = made.input("x", (2, 3, 7, 5)), made.input("y", (2, 3, 5, 4))
    before = made.elementwise(("add", 0, 1), made.matmul(x, y), made.normal(*(4,) if by_column else (7, 4)))
    made.transpose(before, 0, 2, 1, 3)
    assert kinds(rewritten(made, "post_ops", "interleaved")) == ["matmul", *["transpose"] * (not by_column)]
    made = Builder(dtype="float64")
    x, y = made.input("x", (2, 3, 7, 5)), made.input("y", (2, 3, 5, 4))
    after = made.transpose(made.matmul(x, y), 0, 2, 1, 3)
    made.elementwise(("add", 0, 1), after, made.normal(*(4,) if by_column else (3, 4)))
    network = rewritten(made, "interleaved", "post_ops", "scale_shift")
    assert network.nodes[0].attributes["interleaved"] == ("y",)
    assert kinds(network) == ["matmul", *["elementwise"] * (not by_column)]
