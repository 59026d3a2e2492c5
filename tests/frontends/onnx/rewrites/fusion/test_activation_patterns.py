# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numpy as np
import pytest
from support.networks import Builder, rewritten

SIX = ("const", 6.0)
THREE = ("const", 3.0)
ONE = ("const", 1.0)
HALF = ("const", 0.5)
ROOT = ("const", 2**0.5)
ROOT_HALF = ("const", 0.5**0.5)
TANH = ("const", (2 / np.pi) ** 0.5)


@pytest.mark.parametrize(
    ("expression", "name"),
    [
        (("mul", ("mul", 0, ("add", ("erf", ("div", 0, ROOT)), ONE)), HALF), "gelu"),
        (("mul", ("mul", HALF, 0), ("add", ONE, ("erf", ("mul", 0, ROOT_HALF)))), "gelu"),
        (("mul", 0, ("add", HALF, ("mul", HALF, ("erf", ("mul", ROOT_HALF, 0))))), "gelu"),
        (("mul", 0, ("mul", HALF, ("add", ONE, ("erf", ("div", 0, ROOT))))), "gelu"),
        (
            (
                "mul",
                ("mul", HALF, 0),
                ("add", ONE, ("tanh", ("mul", TANH, ("add", 0, ("mul", ("const", 0.044715), ("pow", 0, THREE)))))),
            ),
            "gelu_tanh",
        ),
        (
            (
                "mul",
                0,
                (
                    "mul",
                    HALF,
                    (
                        "add",
                        ONE,
                        ("tanh", ("mul", ("mul", 0, TANH), ("add", ONE, ("mul", ("const", 0.044715), ("mul", 0, 0))))),
                    ),
                ),
            ),
            "gelu_tanh",
        ),
        (("mul", 0, ("sigmoid", 0)), "silu"),
        (("div", 0, ("add", ONE, ("exp", ("neg", 0)))), "silu"),
        (("div", ("mul", 0, ("clip", 0.0, 6.0, ("add", 0, THREE))), SIX), "hard_swish"),
        (("mul", 0, ("div", ("min", ("max", ("add", 0, THREE), ("const", 0.0)), SIX), SIX)), "hard_swish"),
        (("mul", 0, ("hard_sigmoid", 1 / 6, 0.5, 0)), "hard_swish"),
        (("mul", 0, ("tanh", ("softplus", 0))), "mish"),
        (("mul", 0, ("tanh", ("log", ("add", ("exp", 0), ONE)))), "mish"),
        (("div", ONE, ("add", ("exp", ("neg", 0)), ONE)), "sigmoid"),
        (("log", ("add", ONE, ("exp", 0))), "softplus"),
    ],
)
def test_activations_are_found_in_pieces(expression: object, name: str) -> None:
    made = Builder(dtype="float64")
    made.elementwise(expression, made.input("x", (3, 40)))
    (node,) = rewritten(made, "formulas").nodes
    assert node.attributes["expression"] == (name, 0)


@pytest.mark.parametrize("write", [Builder.gelu, Builder.gelu_tanh])
def test_patterns_across_nodes_are_recognised(write: object) -> None:
    made = Builder(dtype="float64")
    write(made, made.elementwise(("sin", 0), made.input("x", (3, 40))))  # type: ignore[operator]
    assert len(rewritten(made, "algebra", "formulas").nodes) == 2


@pytest.mark.parametrize(
    "expression",
    [
        ("mul", ("mul", 0, ("add", ("erf", ("div", 0, ROOT)), ONE)), ("const", 0.6)),
        ("mul", ("mul", 0, ("add", ("erf", ("div", 0, ("const", 1.5))), ONE)), HALF),
        ("mul", ("mul", 1, ("add", ("erf", ("div", 0, ROOT)), ONE)), HALF),
        ("mul", 0, ("sigmoid", 1)),
        ("mul", 0, ("sigmoid", ("mul", 0, ("const", 1.702)))),
        ("div", ("mul", 0, ("clip", 0.0, 6.0, ("add", 0, ("const", 2.0)))), SIX),
    ],
)
def test_expressions_similar_to_activations_stay(expression: object) -> None:
    made = Builder(dtype="float64")
    made.elementwise(expression, made.input("x", (3, 40)), made.input("y", (3, 40)))
    (node,) = rewritten(made, "formulas").nodes
    assert node.attributes["expression"] == expression


def test_patterns_with_shared_pieces_stay() -> None:
    made = Builder(dtype="float64")
    x = made.input("x", (3, 40))
    gate = made.elementwise(("sigmoid", 0), x)
    made.elementwise(("mul", 0, 1), x, gate)
    network = rewritten(made, "formulas", outputs=(str(made.nodes[-1].outputs[0]), gate))
    assert len(network.nodes) == 2


@pytest.mark.parametrize("passes", [("formulas",), ("algebra", "formulas")])
def test_long_chains_are_analysed_without_recursion(passes: tuple[str, ...]) -> None:
    made = Builder(dtype="float32")
    value = made.input("x", (3,))
    for turn in range(2000):
        value = made.elementwise(("tanh", 0) if turn % 2 else ("neg", 0), value)
    assert len(rewritten(made, *passes).nodes) > 1000
