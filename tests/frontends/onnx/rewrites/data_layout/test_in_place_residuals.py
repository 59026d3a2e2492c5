# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from support.networks import Builder, rewritten

from syclsched.frontends.onnx.network import Network
from syclsched.frontends.onnx.rewrites import rewrite

X = (2, 4, 6, 5)


def branch(made: Builder, x: str) -> str:
    """Two convolutions of a residual block."""
    return made.conv(made.elementwise(("relu", 0), made.conv(x, 4)), 4)


def summed(made: Builder, x: str, other: str) -> str:
    return made.elementwise(("relu", ("add", 0, 1)), x, other)


def in_place(network: Network) -> list[bool]:
    """Return of every convolution with a residual whether it overwrites the residual."""
    return [
        bool(node.attributes.get("in_place")) for node in network.nodes if node.kind == "conv" and len(node.inputs) == 4
    ]


def placed(made: Builder, *outputs: str) -> list[bool]:
    return in_place(rewritten(made, "post_ops", "in_place", outputs=outputs))


def test_a_chain_of_blocks_adds_its_residuals_in_place() -> None:
    made = Builder(dtype="float64")
    x = made.conv(made.input("x", X), 4)
    for _ in range(4):
        x = summed(made, x, branch(made, x))
    assert placed(made) == [True, True, True, False]
    made.elementwise(("tanh", ("mul", 0, ("const", 2.0))), made.pool(x, "average"))
    assert placed(made) == [True] * 4


def test_a_model_s_input_stays() -> None:
    made = Builder(dtype="float64")
    x = made.input("x", X)
    made.pool(summed(made, x, branch(made, x)), "max")
    assert placed(made) == [False]


def test_a_model_s_output_stays() -> None:
    made = Builder(dtype="float64")
    x = made.conv(made.input("x", X), 4)
    y = made.pool(summed(made, x, branch(made, x)), "max")
    assert placed(made, y) == [True]
    assert placed(made, x, y) == [False]
    assert placed(made, made.reshape(x, 2, 120), y) == [False]


def test_reshaped_outputs_are_not_overwritten_in_place() -> None:
    made = Builder(dtype="float64")
    x = made.conv(made.input("x", X), 4)
    made.reshape(summed(made, x, branch(made, x)), 2, 120)
    assert placed(made) == [False]


def test_values_read_later_are_not_overwritten() -> None:
    made = Builder(dtype="float64")
    x = made.conv(made.input("x", X), 4)
    y = summed(made, x, branch(made, x))
    made.elementwise(("sub", 0, 1), made.softmax(y, 1), made.pool(x, "average", kernel=3, stride=1, pad=1))
    assert placed(made) == [False]


def test_reshaped_values_read_later_are_not_overwritten() -> None:
    made = Builder(dtype="float64")
    x = made.conv(made.input("x", X), 4)
    y = summed(made, x, branch(made, x))
    made.elementwise(("sub", 0, 1), made.softmax(made.reshape(y, 2, 120), 1), made.reshape(x, 2, 120))
    assert placed(made) == [False]


def test_in_place_sums_add_no_dependencies() -> None:
    # The search reads x, and the sum does not need it: were x overwritten, the sum would have to wait for it.
    made = Builder(dtype="float64")
    x = made.conv(made.input("x", X), 4)
    beside = made.softmax(x, 1)
    y = made.pool(summed(made, x, branch(made, x)), "max")
    assert placed(made, beside, y) == [False]


def test_predecessors_of_the_sum_may_read_the_residual() -> None:
    made = Builder(dtype="float64")
    x = made.conv(made.input("x", X), 4)
    y = made.conv(made.elementwise(("add", 0, 1), made.softmax(x, 1), branch(made, x)), 4)
    made.pool(summed(made, x, y), "max")
    assert placed(made)[-1]


def test_a_value_convolved_and_added_in_one_node_is_kept() -> None:
    made = Builder(dtype="float64")
    x = made.conv(made.input("x", X), 4)
    made.pool(summed(made, x, made.conv(x, 4)), "max")
    assert placed(made) == [False]


def test_a_constant_is_no_memory_to_write_to() -> None:
    made = Builder(dtype="float64")
    c = made.reshape(made.normal(2, 4, 30), *X)
    made.pool(summed(made, c, branch(made, made.input("x", X))), "max")
    assert True not in placed(made)


def test_the_last_of_two_sums_updates_a_shared_residual() -> None:
    made = Builder(dtype="float64")
    x = made.conv(made.input("x", X), 4)
    first = summed(made, x, branch(made, x))
    made.pool(summed(made, x, branch(made, first)), "max")
    assert placed(made) == [False, True]


def test_in_place_marks_are_removed_when_invalid() -> None:
    made = Builder(dtype="float64")
    x = made.conv(made.input("x", X), 4)
    y = made.pool(summed(made, x, branch(made, x)), "max")
    marked = rewrite(made.network(y), passes=("post_ops", "in_place")).network
    assert in_place(marked) == [True]
    asked = Network(marked.name, marked.inputs, (y, x), marked.values, marked.constants, marked.nodes)
    done = rewrite(asked, passes=("in_place",))
    assert in_place(done.network) == [False]
    assert "two arrays again" in done.report


def test_all_of_many_blocks_use_one_memory() -> None:
    made = Builder(dtype="float64")
    x = made.conv(made.input("x", (1, 2, 3)), 2)
    for _ in range(300):
        x = summed(made, x, made.conv(made.elementwise(("relu", 0), x), 2))
    made.pool(x, "max")
    network = rewrite(made.network(str(made.nodes[-1].outputs[0])), passes=("post_ops", "in_place")).network
    assert in_place(network) == [True] * 300
