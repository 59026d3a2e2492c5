# SPDX-License-Identifier: Apache-2.0
"""Gradient functions of operations: the arguments that they may take."""

from __future__ import annotations

from typing import Any

import pytest

import syclsched
from syclsched import Read, Update, Write
from syclsched.errors import ArgumentError
from syclsched.kernels import get
from syclsched.model.operation_parts.gradient_function import gradient_arguments


@syclsched.operation
def step(y: Write, state: Update, x: Read, share: float) -> None:
    y[...] = x
    state += share * x


def test_gradient_parameters_are_recognised_by_name() -> None:
    def gradient(dy: Any, y: Any, dstate: Any, state: Any, new_state: Any, x: Any, share: float) -> Any:
        return dstate, dy

    assert step.gradient(gradient).gradient_function is gradient
    assert step.gradient_function is None and step.gradient(gradient).name == "step"
    assert gradient_arguments("step", {each.name: each.mode for each in step.parameters}, gradient) == {
        "dy": ("gradient", "y"),
        "y": ("after", "y"),
        "dstate": ("gradient", "state"),
        "state": ("before", "state"),
        "new_state": ("after", "state"),
        "x": ("before", "x"),
        "share": ("number", "share"),
    }


def test_implementations_are_added_before_or_after() -> None:
    made = step.gradient(lambda dy: (None, dy)).host(lambda y, state, x, share: None, name="another")
    assert made.gradient_function is not None and len(made.implementations) == 2


@pytest.mark.parametrize(
    ("function", "wrong"),
    [
        (lambda dx: dx, "gradient of operation 'step': 'dx' is no parameter of it. It may take: y, dy, state"),
        (lambda z: z, "'z' is no parameter"),
        (lambda new_x: new_x, "'new_x' is no parameter"),
    ],
)
def test_other_parameters_are_refused(function: Any, wrong: str) -> None:
    with pytest.raises(ArgumentError, match=wrong):
        step.gradient(function)


def test_ambiguous_names_and_needless_gradients_are_refused() -> None:
    @syclsched.operation
    def named(y: Write, dy: Read) -> None:
        y[...] = dy

    with pytest.raises(ArgumentError, match="'dy' stands for two things"):
        named.gradient(lambda dy: dy)
    with pytest.raises(ArgumentError, match="it reads no array"):
        get("fill").gradient(lambda dx: None)
    with pytest.raises(ArgumentError, match="depends on its arguments"):
        get("gemm").gradient(lambda dc: (dc, dc))


def test_operations_are_called_in_gradients_only() -> None:
    with pytest.raises(ArgumentError, match=r"only gradients call operations.*graph\.kernel"):
        step(x=1.0)
