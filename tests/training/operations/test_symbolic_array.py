# SPDX-License-Identifier: Apache-2.0
"""Symbolic arrays, compared with NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.examples import examples
from support.host_evaluation import evaluate

import syclsched
from syclsched.errors import ArgumentError
from syclsched.frontends.onnx.importing.network_builder import NetworkBuilder
from syclsched.frontends.onnx.model_file.model_limits import ModelLimits
from syclsched.training.operations.symbolic_array import SymbolicArray

Array = np.ndarray[Any, Any]


def computed(function: Callable[..., Any], *arrays: Array) -> Array:
    """Return the result of a function of symbolic arrays."""
    b = NetworkBuilder("test", 0, {}, ModelLimits())
    names = [b.add_input(f"x{i}", each.shape, each.dtype.name) for i, each in enumerate(arrays)]
    b.begin("made", "made")
    made = function(*(SymbolicArray(b, (name,)) for name in names))
    value, shape, dtype = made.value, made.shape, made.dtype
    b.end([], [])
    found = evaluate(b.finish("test", [("y", value)]), dict(zip(names, arrays, strict=True)))["y"]
    assert (found.shape, found.dtype) == (shape, dtype)
    return np.asarray(found)


X = np.random.default_rng(0).standard_normal((3, 4))
Z = np.random.default_rng(1).standard_normal((4, 3))
ROW = np.random.default_rng(2).uniform(0.5, 2, 4)

FUNCTIONS: dict[str, Callable[..., Any]] = {
    "arithmetic": lambda x, r: (2 * x - r) / (1 + abs(x)) ** 2 + -x % 0.7,
    "powers": lambda x, r: r**3 + r**2 + r**0.5 + r**-1 + r**-0.5 + 2.0**x + r**x + r**1.7,
    "functions": lambda x, r: np.exp(x) + np.log1p(r) + np.tanh(x) * np.sqrt(r) + np.sign(x) + np.rint(x),
    "arcs": lambda x, r: np.arctan(x) + np.arcsinh(x) + np.arcsin(x / 10) + np.arccosh(1 + r) + np.expm1(x),
    "choice": lambda x, r: r * np.where((x > 0) & ~(r < 1), 1, 0.1),
    "choice of numbers": lambda x, r: x * np.where((x <= 0.5) | (x == r), 2, -1),
    "extrema": lambda x, r: np.maximum(x, 0.1) + np.minimum(x, r) + np.clip(x, -0.5, 0.5),
    "sums": lambda x, r: np.sum(x * r) + x.sum(axis=0) + x.mean(1, keepdims=True) + x.max((0, 1)) + r.prod() + r.min(),
    "NumPy's sums": lambda x, r: np.mean(x, axis=-1, keepdims=True) + np.max(r),
    "slices": lambda x, r: x[1:, ::-1] * r[1] + x[..., 2:3][1:] + x[0],
    "shapes": lambda x, r: x.reshape(2, -1).T.reshape((3, 4)) + np.transpose(np.reshape(x, (4, 3)), (1, 0)),
    "moved": lambda x, r: np.concatenate([x.T, x.T], axis=1) + np.broadcast_to(r[0], (4, 6)),
    "triangles": lambda x, r: np.tril(x) - np.triu(x) + np.zeros_like(x) + np.ones_like(r),
    "products": lambda x, r: x @ x.T + (x @ r).reshape(3, 1) + (r @ x.T),
    "an array of NumPy": lambda x, r: x * Z.T + Z[0, 0],
    "many operators": lambda x, r: sum((x * r + i for i in range(60)), start=x),
    "repeated squares": lambda x, r: (lambda f: f(f(f(f(f(f(f(x))))))))(lambda t: 0.5 * t * t + 0.1),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name: str) -> None:
    function = FUNCTIONS[name]
    np.testing.assert_allclose(computed(function, X, ROW), function(X, ROW), rtol=1e-12, atol=1e-14)


def test_conversion() -> None:
    made = computed(lambda x: (x > 0).astype("float32"), X)
    np.testing.assert_array_equal(made, (X > 0).astype("float32"))


@settings(max_examples=examples(120), deadline=None)
@given(st.lists(st.tuples(st.sampled_from("+-*/^<"), st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=25))
def test_random_expressions(steps: list[tuple[str, int, int]]) -> None:
    def function(x: Any, r: Any) -> Any:
        known = [x, r, 0.5]
        for operator, i, j in steps:
            a, b = known[i % len(known)], known[j % len(known)]
            if operator == "/":
                made = a / (1 + b * b)
            elif operator == "^":
                made = np.tanh(a + r) ** 2
            elif operator == "<":
                made = np.where(x < b, a, b + r)
            else:
                made = {"+": a + b, "-": a - b, "*": np.tanh(a + x) * b}[operator]
            known.append(made)
        return known[-1] + x

    with np.errstate(over="ignore"):
        wanted = function(X, ROW)
    np.testing.assert_allclose(computed(function, X, ROW), wanted, rtol=1e-9, atol=1e-12)


@syclsched.operation
def divided(quotient: syclsched.Write, rest: syclsched.Write, x: syclsched.Read, by: float) -> None:
    quotient[...] = x // by
    rest[...] = x % by


@syclsched.operation
def doubled(x: syclsched.Update) -> None:
    x *= 2


def test_calls_of_operations() -> None:
    def function(x: Any) -> Any:
        quotient, rest = divided(quotient=np.empty_like(x), rest=np.empty_like(x, shape=(3, 4)), x=x, by=0.3)
        return doubled(x=quotient) + rest + 0 * quotient  # the old value is still available

    np.testing.assert_allclose(computed(function, X), 2 * (X // 0.3) + X % 0.3, rtol=1e-12)


@pytest.mark.parametrize(
    ("function", "wrong"),
    [
        (lambda x: np.linalg.inv(x), "gradients do not have np.inv"),
        (lambda x: np.hypot(x, x), "gradients do not have np.hypot"),
        (lambda x: x[[0, 1]], "gradients do not have x"),
        (lambda x: x if x > 0 else -x, "gradients do not have truth values"),
        (lambda x: divided(quotient=x, rest=np.empty_like(x), x=x, by=1.0), "'quotient' must be np.empty_like"),
        (lambda x: divided(x=x, by=1.0), "'quotient' must be np.empty_like.*, not None"),
        (lambda x: doubled(x=x, y=x), "no parameter 'y'"),
    ],
)
def test_unsupported_functions_are_refused(function: Callable[..., Any], wrong: str) -> None:
    with pytest.raises(ArgumentError, match=wrong):
        computed(function, X)
