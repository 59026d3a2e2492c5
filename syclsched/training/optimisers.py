# SPDX-License-Identifier: Apache-2.0
"""Optimisers: how a parameter and its state follow from a gradient, in one pass over them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from syclsched.errors import ArgumentError
from syclsched.frontends.onnx.importing.training.update_formulas import (
    adagrad_step,
    adam_step,
    decayed,
    momentum_step,
    number,
)
from syclsched.kernels.tensor.writing.expression import Expression
from syclsched.training.named_choice import chosen

#: A learning rate, or a function of the number of steps done that returns one.
Rate = float | Callable[[int], float]


class Optimiser(Protocol):
    """An optimiser."""

    @property
    def learning_rate(self) -> Rate:
        """The learning rate."""

    @property
    def slots(self) -> tuple[str, ...]:
        """Names of the arrays of state that each parameter has, all 0 at first."""

    def scalars(self, step: int) -> Mapping[str, float]:
        """Return the numbers of a step, counted from 0, that the expressions read."""

    def updated(
        self,
        parameter: Expression,
        state: Sequence[Expression],
        gradient: Expression,
        scalars: Mapping[str, Expression],
    ) -> tuple[Expression, ...]:
        """Return the new values of a parameter and of its state."""


def rate_at(rate: Rate, step: int) -> float:
    """Return the learning rate of a step, counted from 0."""
    given = rate(step) if callable(rate) else rate
    found = _number(given)
    if not (math.isfinite(found) and found >= 0):
        hint = f"Its function was called with {step}, the number of steps done" if callable(rate) else None
        what = f"the learning rate of step {step + 1} is {given}"
        raise ArgumentError(f"{what}, expected a number that is not negative", where="optimizer", hint=hint)
    return found


def _number(given: object) -> float:
    """Return a given number, or not-a-number for what is none."""
    try:
        return math.nan if isinstance(given, str) else float(given)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return math.nan


def _check(name: str, **numbers: float) -> None:
    for what, value in numbers.items():
        if not (math.isfinite(_number(value)) and value >= 0):
            raise ArgumentError(f"{what} is {value!r}, expected a number that is not negative", where=name)


class _OfRate:
    """Optimiser whose expressions read nothing but the learning rate."""

    __slots__ = ()
    learning_rate: Rate

    def scalars(self, step: int) -> Mapping[str, float]:
        """Return the numbers of a step."""
        return {"rate": rate_at(self.learning_rate, step)}


@dataclass(frozen=True, slots=True)
class SGD(_OfRate):
    """Stochastic gradient descent (Robbins and Monro, 1951), with momentum (Polyak, 1964; Nesterov, 1983).

    Parameters
    ----------
    learning_rate : float or callable, optional
        Or a function of the number of steps done.
    momentum : float, optional
        Part of the last step that is kept.
    nesterov : bool, optional
        Look ahead along the momentum.
    weight_decay : float, optional
        Multiple of the parameter that is added to its gradient.

    Examples
    --------
    >>> import syclsched
    >>> syclsched.SGD(syclsched.training.CosineDecay(0.1, steps=1000), momentum=0.9).slots
    ('momentum',)
    """

    learning_rate: Rate = 0.01
    momentum: float = 0.0
    nesterov: bool = False
    weight_decay: float = 0.0

    def __post_init__(self) -> None:
        _check("SGD", momentum=self.momentum, weight_decay=self.weight_decay)
        if self.nesterov and not self.momentum:
            raise ArgumentError("momentum is 0, expected more, as nesterov looks ahead along it", where="SGD")

    @property
    def slots(self) -> tuple[str, ...]:
        """Names of the arrays of state."""
        return ("momentum",) if self.momentum else ()

    def updated(
        self,
        parameter: Expression,
        state: Sequence[Expression],
        gradient: Expression,
        scalars: Mapping[str, Expression],
    ) -> tuple[Expression, ...]:
        """Return the new values of a parameter and of its state."""
        gradient = decayed(self.weight_decay, parameter, gradient)
        if not state:
            return (("sub", parameter, ("mul", scalars["rate"], gradient)),)
        kept, nesterov = self.momentum, self.nesterov
        return momentum_step(parameter, state[0], gradient, scalars["rate"], kept=kept, nesterov=nesterov)


@dataclass(frozen=True, slots=True)
class Adam:
    """Adaptive moment estimation (Kingma and Ba, 2015).

    Parameters
    ----------
    learning_rate : float or callable, optional
        Or a function of the number of steps done.
    beta1, beta2 : float, optional
        Decay of the averages of gradients and of their squares.
    epsilon : float, optional
        Added to the root of the average square.
    weight_decay : float, optional
        Multiple of the parameter that is added to its gradient.

    Examples
    --------
    >>> import syclsched
    >>> syclsched.Adam(1e-3).slots
    ('mean', 'square')
    """

    learning_rate: Rate = 1e-3
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8
    weight_decay: float = 0.0

    def __post_init__(self) -> None:
        _check("Adam", epsilon=self.epsilon, weight_decay=self.weight_decay)
        for name in ("beta1", "beta2"):
            if not 0 <= _number(getattr(self, name)) < 1:
                raise ArgumentError(f"{name} is {getattr(self, name)}, expected at least 0, less than 1", where="Adam")

    @property
    def slots(self) -> tuple[str, ...]:
        """Names of the arrays of state."""
        return ("mean", "square")

    def scalars(self, step: int) -> Mapping[str, float]:
        """Return the numbers of a step."""
        rate = rate_at(self.learning_rate, step)
        return {
            "rate": rate,
            "corrected_rate": rate / (1 - self.beta1 ** (step + 1)),
            "correction": 1 / math.sqrt(1 - self.beta2 ** (step + 1)),
        }

    def updated(
        self,
        parameter: Expression,
        state: Sequence[Expression],
        gradient: Expression,
        scalars: Mapping[str, Expression],
    ) -> tuple[Expression, ...]:
        """Return the new values of a parameter and of its state."""
        gradient = decayed(self.weight_decay, parameter, gradient)
        return _adapted(self, parameter, state, gradient, scalars)


def _adapted(
    adam: Adam | AdamW,
    parameter: Expression,
    state: Sequence[Expression],
    gradient: Expression,
    scalars: Mapping[str, Expression],
) -> tuple[Expression, ...]:
    return adam_step(
        parameter,
        (state[0], state[1]),
        gradient,
        scalars["corrected_rate"],
        decays=(adam.beta1, adam.beta2),
        epsilon=adam.epsilon,
        correction=scalars["correction"],
    )


@dataclass(frozen=True, slots=True)
class AdamW(Adam):
    """Adam with decoupled weight decay (Loshchilov and Hutter, 2019): parameters shrink by a part of the rate.

    Parameters
    ----------
    learning_rate, beta1, beta2, epsilon
        As for `Adam`.
    weight_decay : float, optional
        Multiple of the parameter that is subtracted, times the learning rate.

    Examples
    --------
    >>> import syclsched
    >>> syclsched.AdamW(1e-3, weight_decay=0.05).weight_decay
    0.05
    """

    weight_decay: float = 0.01

    def updated(
        self,
        parameter: Expression,
        state: Sequence[Expression],
        gradient: Expression,
        scalars: Mapping[str, Expression],
    ) -> tuple[Expression, ...]:
        """Return the new values of a parameter and of its state."""
        shrunk = ("mul", parameter, ("sub", number(1), ("mul", scalars["rate"], number(self.weight_decay))))
        return _adapted(self, shrunk, state, gradient, scalars)


@dataclass(frozen=True, slots=True)
class Adagrad(_OfRate):
    """Adaptive subgradient method (Duchi, Hazan and Singer, 2011).

    Parameters
    ----------
    learning_rate : float or callable, optional
        Or a function of the number of steps done.
    epsilon : float, optional
        Added to the root of the sum of squares.
    weight_decay : float, optional
        Multiple of the parameter that is added to its gradient.

    Examples
    --------
    >>> import syclsched
    >>> syclsched.Adagrad(lambda step: 0.1 / (1 + step)).scalars(1)["rate"]
    0.05
    """

    learning_rate: Rate = 0.01
    epsilon: float = 1e-10
    weight_decay: float = 0.0

    def __post_init__(self) -> None:
        _check("Adagrad", epsilon=self.epsilon, weight_decay=self.weight_decay)

    @property
    def slots(self) -> tuple[str, ...]:
        """Names of the arrays of state."""
        return ("squares",)

    def updated(
        self,
        parameter: Expression,
        state: Sequence[Expression],
        gradient: Expression,
        scalars: Mapping[str, Expression],
    ) -> tuple[Expression, ...]:
        """Return the new values of a parameter and of its state."""
        gradient = decayed(self.weight_decay, parameter, gradient)
        return adagrad_step(parameter, state[0], gradient, scalars["rate"], epsilon=self.epsilon)


#: The optimisers by name, with their usual settings.
OPTIMISERS: Final[dict[str, Optimiser]] = {"sgd": SGD(), "adam": Adam(), "adamw": AdamW(), "adagrad": Adagrad()}


def optimiser_of(given: str | Optimiser, where: str = "optimizer") -> Optimiser:
    """Return an optimiser, or the one of a name."""
    return chosen(given, OPTIMISERS, "optimizer", "scalars", where)


# --- schedules ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CosineDecay:
    """A learning rate that grows linearly, and then falls as half a cosine (Loshchilov and Hutter, 2017).

    Parameters
    ----------
    peak : float
        The highest learning rate.
    steps : int
        Steps after which it is lowest.
    warmup : int, optional
        Steps in which it grows from 0.
    lowest : float, optional
        The learning rate at the end.
    """

    peak: float
    steps: int
    warmup: int = 0
    lowest: float = 0.0

    def __post_init__(self) -> None:
        _check("CosineDecay", peak=self.peak, warmup=self.warmup, lowest=self.lowest)
        if not _number(self.steps) >= max(1, self.warmup):
            least = max(1, self.warmup)
            raise ArgumentError(
                f"steps is {self.steps!r}, expected at least {least}" + (", the warmup" if self.warmup > 1 else ""),
                where="CosineDecay",
            )

    def __call__(self, step: int) -> float:
        """Return the learning rate of a step, counted from 0."""
        if step < self.warmup:
            return self.peak * (step + 1) / self.warmup
        done = min(1.0, (step - self.warmup) / max(1, self.steps - self.warmup))
        return self.lowest + (self.peak - self.lowest) * (1 + math.cos(math.pi * done)) / 2


@dataclass(frozen=True, slots=True)
class StepDecay:
    """A learning rate that is multiplied by a factor at regular intervals.

    Parameters
    ----------
    first : float
        The learning rate at first.
    every : int
        Steps between two changes.
    factor : float, optional
        The factor.
    """

    first: float
    every: int
    factor: float = 0.1

    def __post_init__(self) -> None:
        _check("StepDecay", first=self.first, factor=self.factor)
        if not _number(self.every) >= 1:
            raise ArgumentError(f"every is {self.every!r}, expected at least 1", where="StepDecay")

    def __call__(self, step: int) -> float:
        """Return the learning rate of a step, counted from 0."""
        return self.first * self.factor ** (step // self.every)
