# SPDX-License-Identifier: Apache-2.0
"""Importers of Adagrad, Adam and Momentum: one step of an optimiser for several tensors."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from syclsched.frontends.onnx.importing.importer_registry import TRAINING, Inputs, Names, imports
from syclsched.frontends.onnx.importing.network_builder import NetworkBuilder
from syclsched.frontends.onnx.importing.training.update_formulas import (
    adagrad_step,
    adam_step,
    decayed,
    momentum_step,
    number,
)
from syclsched.frontends.onnx.model_file.onnx_model import ModelNode
from syclsched.kernels.tensor.writing.expression import Expression

#: Function of a tensor, its state, its gradient, and of the step's numbers that returns the new tensor and state.
Step = Callable[[Expression, Sequence[Expression], Expression, Sequence[Expression]], Sequence[Expression]]


@imports("Momentum", domain=TRAINING)
def _momentum(b: NetworkBuilder, node: ModelNode, inputs: Inputs) -> Names:
    """Import Momentum: gradients count fully in the first step."""
    mode = node.text("mode")
    if mode not in ("standard", "nesterov"):
        raise b.wrong(f"its mode is {mode!r}, expected 'standard' or 'nesterov'")
    decay = node.number("norm_coefficient")
    rate, count = _numbers(b, inputs)
    weight = b.elementwise(("where", _begun(0), number(node.number("beta")), number(1)), count, dtype=b.dtype(rate))

    def step(
        x: Expression, state: Sequence[Expression], gradient: Expression, numbers: Sequence[Expression]
    ) -> Sequence[Expression]:
        return momentum_step(
            x,
            state[0],
            decayed(decay, x, gradient),
            numbers[0],
            kept=node.number("alpha"),
            nesterov=mode == "nesterov",
            weight=numbers[1],
        )

    return _steps(b, node, inputs, 1, (rate, weight), step)


@imports("Adam", domain=TRAINING)
def _adam(b: NetworkBuilder, node: ModelNode, inputs: Inputs) -> Names:
    """Import Adam: the learning rate is corrected for the number of steps, and tensors may shrink after the step."""
    alpha, beta = node.number("alpha", 0.9), node.number("beta", 0.999)
    decay, shrinkage = node.number("norm_coefficient"), node.number("norm_coefficient_post")
    rate, count = _numbers(b, inputs)
    exponent: Expression = ("cast", b.dtype(rate), 1)
    of_squares, of_means = (("sub", number(1), ("pow", number(each), exponent)) for each in (beta, alpha))
    corrected = ("where", _begun(1), ("mul", 0, ("div", ("sqrt", of_squares), of_means)), 0)
    adjusted = b.elementwise(corrected, rate, count)

    def step(
        x: Expression, state: Sequence[Expression], gradient: Expression, numbers: Sequence[Expression]
    ) -> Sequence[Expression]:
        new, *rest = adam_step(
            x,
            (state[0], state[1]),
            decayed(decay, x, gradient),
            numbers[0],
            decays=(alpha, beta),
            epsilon=node.number("epsilon", 1e-6),
        )
        return (("mul", number(1 - shrinkage), new) if shrinkage else new, *rest)

    return _steps(b, node, inputs, 2, (adjusted,), step)


@imports("Adagrad", domain=TRAINING)
def _adagrad(b: NetworkBuilder, node: ModelNode, inputs: Inputs) -> Names:
    """Import Adagrad: the learning rate falls with the number of steps."""
    decay = node.number("norm_coefficient")
    rate, count = _numbers(b, inputs)
    falling = ("mul", ("cast", b.dtype(rate), 1), number(node.number("decay_factor")))
    reduced = b.elementwise(("div", 0, ("add", number(1), falling)), rate, count)

    def step(
        x: Expression, state: Sequence[Expression], gradient: Expression, numbers: Sequence[Expression]
    ) -> Sequence[Expression]:
        epsilon = node.number("epsilon", 1e-6)
        return adagrad_step(x, state[0], decayed(decay, x, gradient), numbers[0], epsilon=epsilon)

    return _steps(b, node, inputs, 1, (reduced,), step)


def _numbers(b: NetworkBuilder, inputs: Inputs) -> list[str]:
    """Return learning rate and number of steps done as scalars."""
    found = inputs.first("R", "T")
    for name, what in zip(found, ("learning rate R", "update count T"), strict=True):
        if math.prod(b.shape(name)) != 1:
            raise b.wrong(f"its {what} has shape {b.shape(name)}, expected one number")
    return [b.reshape(name, ()) for name in found]


def _begun(count: int) -> Expression:
    """Return whether a number of steps, an input, is greater than 0."""
    return ("greater", count, ("const", 0, "int64"))


def _steps(
    b: NetworkBuilder, node: ModelNode, inputs: Inputs, states: int, numbers: Sequence[str], step: Step
) -> list[str | None]:
    """Add the step of each tensor: the inputs are all tensors, all gradients, then all of each state."""
    given = inputs.all("inputs ")[2:]
    count, rest = divmod(len(given), 2 + states)
    if rest or not count:
        raise b.wrong(
            f"{len(given)} inputs after R and T, expected {2 + states} for each tensor: itself, its gradient and its "
            f"state"
        )
    if len(node.outputs) > count * (1 + states):
        raise b.wrong(f"{len(node.outputs)} outputs, expected {count * (1 + states)} at most")
    columns: list[list[str]] = [[] for _ in range(1 + states)]
    for place in range(count):
        own = given[place::count]
        for each, what in zip(own[1:], ("gradient", "state", "state"), strict=False):
            if (b.shape(each), b.dtype(each)) != (b.shape(own[0]), b.dtype(own[0])):
                kinds = [f"{b.dtype(name)} {b.shape(name)}" for name in (each, own[0])]
                raise b.wrong(f"the {what} {each!r} is {kinds[0]}, and its tensor {own[0]!r} is {kinds[1]}")
        scalars = [b.cast(each, b.dtype(own[0])) for each in numbers]
        places = range(2 + states, 2 + states + len(scalars))
        made = step(0, tuple(range(2, 2 + states)), 1, tuple(places))
        for column, expression in zip(columns, made, strict=True):
            column.append(b.elementwise(expression, *own, *scalars, shape=b.shape(own[0])))
    return [name for column in columns for name in column]
