# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest
from support.networks import Builder, kinds, rewritten

X = (2, 4, 6, 5)


@pytest.mark.parametrize(
    ("expression", "step"),
    [
        (("relu", 0), ("relu",)),
        (("clip", 0.0, 6.0, 0), ("clip", 0.0, 6.0)),
        (("leaky_relu", 0), ("leaky_relu", 0.01)),
        (("leaky_relu", 0.2, 0), ("leaky_relu", 0.2)),
        (("hard_sigmoid", 0), ("hard_sigmoid", 0.2, 0.5)),
        (("elu", 0), ("elu", 1.0)),
        (("mul", 0, ("const", 0.5)), ("scale", 0.5)),
    ],
)
def test_an_activation_becomes_the_convolution_s(expression: tuple, step: tuple) -> None:
    made = Builder(dtype="float64")
    made.elementwise(expression, made.conv(made.input("x", X), 4))
    (conv,) = rewritten(made, "post_ops").nodes
    assert conv.attributes["activation"] == (step,)


def test_a_missing_bound_of_a_clip_is_infinite() -> None:
    made = Builder(dtype="float64")
    made.elementwise(("clip", None, 1.0, 0), made.conv(made.input("x", X), 4))
    (conv,) = rewritten(made, "post_ops").nodes
    assert conv.attributes["activation"] == (("clip", float("-inf"), 1.0),)


def test_activations_are_applied_in_order() -> None:
    made = Builder(dtype="float64")
    made.elementwise(("relu", ("tanh", 0)), made.conv(made.input("x", X), 4))
    (conv,) = rewritten(made, "post_ops").nodes
    assert conv.attributes["activation"] == (("tanh",), ("relu",))


def test_the_later_of_two_summed_convolutions_adds_the_other() -> None:
    made = Builder(dtype="float64")
    x = made.input("x", X)
    one = made.conv(x, 4)
    other = made.conv(made.elementwise(("relu", 0), made.conv(x, 4)), 4)
    made.elementwise(("relu", ("add", 0, 1)), one, other)
    network = rewritten(made, "post_ops")
    assert kinds(network) == ["conv"] * 3
    assert network.nodes[-1].inputs[3] == one
    assert network.nodes[-1].attributes["activation"] == (("relu",),)


def test_a_transposed_convolution_has_no_residual() -> None:
    made = Builder(dtype="float64")
    x, z = made.input("x", (2, 4, 3, 5)), made.input("z", (2, 4, 6, 10))
    made.elementwise(("relu", ("add", 0, 1)), made.conv_transpose(x, 4), z)
    network = rewritten(made, "post_ops")
    assert kinds(network) == ["conv_transpose", "elementwise"]
    assert not network.nodes[0].attributes["activation"]


@pytest.mark.parametrize("expression", [("add", ("relu", 0), ("tanh", 0)), ("add", ("relu", 0), ("tanh", 1))])
def test_expressions_that_read_a_convolution_twice_stay(expression: tuple) -> None:
    made = Builder(dtype="float64")
    conv = made.conv(made.input("x", X), 4)
    made.elementwise(expression, *(conv,) * (1 + (expression[2][1])))
    assert kinds(rewritten(made, "post_ops")) == ["conv", "elementwise"]


def test_a_sum_with_a_dependent_of_the_convolution_stays() -> None:
    made = Builder(dtype="float64")
    conv = made.conv(made.input("x", X), 4)
    made.elementwise(("add", 0, 1), conv, made.softmax(conv, 1))
    assert kinds(rewritten(made, "post_ops")) == ["conv", "softmax", "elementwise"]


def test_an_activation_that_reads_twice_stays() -> None:
    made = Builder(dtype="float64")
    made.elementwise(("mul", 0, ("sigmoid", ("add", 0, ("const", 1.0)))), made.conv(made.input("x", X), 4))
    assert kinds(rewritten(made, "post_ops")) == ["conv", "elementwise"]


def test_the_unfused_rest_of_an_expression_stays() -> None:
    made = Builder(dtype="float64")
    x = made.input("x", X)
    made.elementwise(("sin", ("mul", 1, ("relu", 0))), made.conv(x, 4), x)
    network = rewritten(made, "post_ops")
    assert kinds(network) == ["conv", "elementwise"]
    assert network.nodes[1].attributes["expression"] == ("sin", ("mul", 0, 1))
    assert network.nodes[0].attributes["activation"] == (("relu",),)


def test_a_constant_of_the_channels_is_a_bias() -> None:
    made = Builder(dtype="float64")
    x = made.input("x", X)
    weight = made.normal(3, 4, 1, 1)
    attributes = {"strides": (1, 1), "pads": (0,) * 4, "dilations": (1, 1), "groups": 1, "channels_last": False}
    conv = made.add("conv", (x, weight), (2, 3, 6, 5), activation=(), **attributes)
    made.elementwise(("add", 0, 1), conv, made.normal(3, 1, 1))
    assert [len(node.inputs) for node in rewritten(made, "post_ops").nodes] == [3]


def test_bias_residual_and_activation_of_matrix_products() -> None:
    made = Builder(dtype="float64")
    x, r = made.input("x", (3, 4)), made.input("r", (3, 5))
    product = made.elementwise(("add", 0, 1), made.matmul(x, made.normal(4, 5)), made.normal(5))
    made.elementwise(("gelu", ("add", 0, 1)), r, product)
    (node,) = rewritten(made, "post_ops").nodes
    assert len(node.inputs) == 4
    assert node.inputs[3] == r


def test_a_mask_is_the_bias_of_scores() -> None:
    made = Builder(dtype="float64")
    q, k, mask = made.input("q", (2, 3, 4, 5)), made.input("k", (2, 3, 4, 5)), made.input("mask", (2, 1, 1, 4))
    scores = made.elementwise(("div", 0, ("const", 5**0.5)), made.matmul(q, k, transpose_b=True))
    made.softmax(made.elementwise(("add", 0, 1), scores, mask), -1)
    network = rewritten(made)
    assert kinds(network) == ["matmul", "softmax"]
    assert network.nodes[0].inputs == ("q", "k", "mask")
    assert network.nodes[0].attributes["alpha"] == 1 / 5**0.5


def test_after_an_activation_nothing_is_added() -> None:
    made = Builder(dtype="float64")
    x = made.input("x", (3, 4))
    made.elementwise(("add", ("relu", 0), 1), made.matmul(x, made.normal(4, 4)), x)
    network = rewritten(made, "post_ops")
    assert kinds(network) == ["matmul", "elementwise"]
    assert network.nodes[1].attributes["expression"] == ("add", 0, 1)


def test_a_sum_that_broadcasts_the_product_stays() -> None:
    made = Builder(dtype="float64")
    made.elementwise(("add", 0, 1), made.matmul(made.input("x", (1, 4)), made.normal(4, 4)), made.input("r", (3, 4)))
    assert kinds(rewritten(made, "post_ops")) == ["matmul", "elementwise"]


@pytest.mark.parametrize("kind", ["batch_norm", "group_norm"])
def test_an_activation_becomes_the_normalisation_s_but_no_sum(kind: str) -> None:
    made = Builder(dtype="float64")
    x, z = made.input("x", X), made.input("z", X)
    parameters = [made.positive(4) for _ in range(4 if kind == "batch_norm" else 2)]
    more = {"groups": 2} if kind == "group_norm" else {}
    normal = made.add(kind, (x, *parameters), X, epsilon=0.1, channels_last=False, activation=(), **more)
    made.elementwise(("add", ("relu", 0), 1), normal, z)
    network = rewritten(made, "post_ops")
    assert kinds(network) == [kind, "elementwise"]
    assert network.nodes[0].attributes["activation"] == (("relu",),)
