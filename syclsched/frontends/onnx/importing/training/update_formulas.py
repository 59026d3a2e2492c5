# SPDX-License-Identifier: Apache-2.0
"""Formulas of optimisers, as element-wise expressions: the new values of a parameter and of its state."""

from __future__ import annotations

from syclsched.kernels.tensor.writing.expression import Expression


def number(value: float) -> Expression:
    """Return a constant."""
    return ("const", float(value))


def decayed(factor: float, parameter: Expression, gradient: Expression) -> Expression:
    """Return a gradient with a multiple of the parameter added."""
    return ("add", gradient, ("mul", number(factor), parameter)) if factor else gradient


def momentum_step(
    parameter: Expression,
    momentum: Expression,
    gradient: Expression,
    rate: Expression,
    *,
    kept: float,
    nesterov: bool,
    weight: Expression | None = None,
) -> tuple[Expression, ...]:
    """Return a step of gradient descent with momentum, of which a part is kept; ``weight``: factor of the gradient."""
    added = gradient if weight is None else ("mul", weight, gradient)
    new = ("add", ("mul", number(kept), momentum), added)
    step = ("add", gradient, ("mul", number(kept), new)) if nesterov else new
    return ("sub", parameter, ("mul", rate, step)), new


def adam_step(
    parameter: Expression,
    averages: tuple[Expression, Expression],
    gradient: Expression,
    rate: Expression,
    *,
    decays: tuple[float, float],
    epsilon: float,
    correction: Expression | None = None,
) -> tuple[Expression, ...]:
    """Return a step of Adam; the averages are of gradients and of their squares, whose root has a ``correction``."""
    mean, square = (
        ("add", ("mul", number(decay), average), ("mul", number(1 - decay), *[gradient] * power))
        for power, (decay, average) in enumerate(zip(decays, averages, strict=True), 1)
    )
    root: Expression = ("sqrt", square)
    if correction is not None:
        root = ("mul", root, correction)
    return ("sub", parameter, ("mul", rate, ("div", mean, ("add", root, number(epsilon))))), mean, square


def adagrad_step(
    parameter: Expression, squares: Expression, gradient: Expression, rate: Expression, *, epsilon: float
) -> tuple[Expression, ...]:
    """Return a step of Adagrad; the state are the sums of squared gradients."""
    total = ("add", squares, ("mul", gradient, gradient))
    step = ("div", gradient, ("add", ("sqrt", total), number(epsilon)))
    return ("sub", parameter, ("mul", rate, step)), total
