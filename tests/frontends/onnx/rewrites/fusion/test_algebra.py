# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numpy as np
import pytest
from support.networks import Builder, kinds, rewritten

from syclsched.frontends.onnx.rewrites.fusion.expressions import simplified


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (("mul", 0, ("const", 1.0)), 0),
        (("add", ("const", 0.0), 0), 0),
        (("sub", 0, ("const", 0.0)), 0),
        (("div", 0, ("const", 1.0)), 0),
        (("div", 0, ("const", 4.0)), ("mul", 0, ("const", 0.25))),
        (("div", 0, ("const", 3.0)), ("div", 0, ("const", 3.0))),
        (("pow", 0, ("const", 2.0)), ("square", 0)),
        (("pow", 0, ("const", 0.5)), ("sqrt", 0)),
        (("pow", 0, ("const", 3.0)), ("pow", 0, ("const", 3.0))),
        (("max", 0, ("const", 0.0)), ("relu", 0)),
        (("relu", ("relu", 0)), ("relu", 0)),
        (("neg", ("neg", 0)), 0),
        (("cast", "float32", 0), 0),
        (("cast", "float64", 0), ("cast", "float64", 0)),
        (("where", ("const", True), 0, 1), 0),
        (("add", ("mul", 0, ("const", 1.0)), ("mul", 1, ("const", 1.0))), ("add", 0, 1)),
        (("add", 0, 1, ("const", 0.0)), ("add", 0, 1)),
        (("add", ("const", 1.0), ("const", 0.0)), ("add", ("const", 1.0), ("const", 0.0))),
    ],
)
def test_expressions_become_simpler(before: object, after: object) -> None:
    assert simplified(before, ("float32", "float32")) == after


def test_a_quotient_of_integers_stays_one() -> None:
    expression = ("div", 0, ("const", 4))
    assert simplified(expression, ("int64",)) == expression


def test_constants_of_one_element_are_written_into_expressions() -> None:
    made = Builder(dtype="float64")
    x = made.input("x", (3, 4))
    made.elementwise(("add", 0, ("mul", 1, 2)), x, made.constant(np.array([[2.5]])), x)
    (node,) = rewritten(made, "algebra").nodes
    assert node.inputs == ("x",)
    assert node.attributes["expression"] == ("add", 0, ("mul", ("const", 2.5, "float64"), 0))


def test_non_finite_constants_stay_constants() -> None:
    made = Builder(dtype="float64")
    made.elementwise(("add", 0, 1), made.input("x", (3, 4)), made.constant(np.array(-np.inf)))
    network = made.network(str(made.nodes[-1].outputs[0]))
    from syclsched.frontends.onnx.rewrites import rewrite

    assert rewrite(network, passes=("algebra",)).network is network


def test_an_expansion_keeps_its_shape() -> None:
    made = Builder(dtype="float64")
    wide = made.add("elementwise", (made.input("x", (3, 1)),), (3, 4), expression=("mul", 0, ("const", 1.0)))
    network = rewritten(made, "algebra", "identities")
    assert kinds(network) == ["elementwise"]
    assert network.values[wide].shape == (3, 4)
