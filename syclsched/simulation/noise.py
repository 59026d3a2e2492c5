# SPDX-License-Identifier: Apache-2.0
"""Random and systematic deviations of true durations from planned ones."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from operator import attrgetter

import numpy as np

from syclsched.errors import PlanError
from syclsched.model.plan import Plan, PlannedTask
from syclsched.simulation.machine import COPY, WORK, Floats, Ints, Machine
from syclsched.simulation.plan_memo import PlanMemo

#: Family name of all copies.
COPIES = "copy"

#: Largest sigma and spread: larger ones could overflow.
_MOST_SIGMA, _MOST_SPREAD = 10.0, 1e6


@dataclass(frozen=True, slots=True)
class Noise:
    """Deviations of true durations from planned ones; each is a factor on the planned duration."""

    sigma: float = 0.0  # standard deviation of the log of a factor with mean 1, drawn for each task and each copy
    #: Systematic errors: one factor for all tasks of a family; ``copy`` is the family of copies.
    families: Mapping[str, float] = field(default_factory=dict)
    #: Standard deviation of the log of a factor with mean 1, drawn once for each family not in ``families``.
    family_sigma: float = 0.0
    #: Wrong estimates of single tasks: a factor drawn log-uniformly from ``1 / spread`` to ``spread`` for each task.
    spread: float = 1.0

    def __post_init__(self) -> None:
        for name, value in (("sigma", self.sigma), ("family_sigma", self.family_sigma)):
            if not 0.0 <= value <= _MOST_SIGMA:
                raise PlanError(f"{name} is {value!r}", where="noise", hint=f"It is from 0 to {_MOST_SIGMA:g}")
        for family, factor in self.families.items():
            if not 0.0 < factor < math.inf:
                raise PlanError(f"the factor is {factor!r}", where=f"noise of {family!r}", hint="It must be positive")
        if not 1.0 <= self.spread <= _MOST_SPREAD:
            raise PlanError(f"spread is {self.spread!r}", where="noise", hint=f"It is from 1 to {_MOST_SPREAD:g}")

    @property
    def random(self) -> bool:
        """Whether anything is drawn at random, so that the seed matters."""
        return self.sigma > 0.0 or self.family_sigma > 0.0 or self.spread > 1.0


def check_randomness(noise: Noise | None, seed: int) -> None:
    """Refuse an invalid noise or seed."""
    if noise is not None and not isinstance(noise, Noise):
        raise PlanError(f"it is {noise!r}, not a Noise", where="noise", hint="As Noise(sigma=0.1)")
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or seed < 0:
        raise PlanError(f"it is {seed!r}", where="seed", hint="It is a whole number from 0 on")


def with_noise(plan: Plan, machine: Machine, noise: Noise, seed: int) -> Machine:
    """Return a machine whose durations deviate from planned ones."""
    systematic = _family_factors([task.family for task in plan.tasks], noise, seed)
    # Factors by task, then that of copies, then that of instructions without a listed task.
    factor = np.array([*task_factors(plan.tasks, noise, seed), systematic[COPIES], 1.0])[_places(plan)]
    steps = machine.steps.copy()
    real = steps[:-1]
    factor[real["kind"] < WORK] = 1.0
    copies = np.flatnonzero(real["kind"] == COPY)
    copies = copies[np.argsort(real["order"][copies])]
    factor[copies] *= _lognormal(noise.sigma, len(copies), seed, 2)
    real["duration_s"] *= factor
    real["latency_s"] *= factor
    return machine._replace(steps=steps)


def task_factors(tasks: Sequence[PlannedTask], noise: Noise, seed: int) -> Floats:
    """Return the factor of each task of a plan, in the plan's order."""
    systematic = _family_factors([task.family for task in tasks], noise, seed)
    factors = np.array([systematic[task.family] for task in tasks], dtype=np.float64)
    factors *= _lognormal(noise.sigma, len(tasks), seed, 1)
    generator = np.random.default_rng([seed, 3])
    return factors * noise.spread ** generator.uniform(-1.0, 1.0, len(tasks))


def copy_factors(tasks: Sequence[PlannedTask], count: int, noise: Noise, seed: int) -> Floats:
    """Return factors for copies that are not in a plan."""
    systematic = _family_factors([task.family for task in tasks], noise, seed)
    return systematic[COPIES] * _lognormal(noise.sigma, count, seed, 2)


@PlanMemo
def _places(plan: Plan) -> Ints:
    """Return the index of each instruction's task; one past the tasks for copies, two past for unlisted tasks."""
    tasks = {task.name: n for n, task in enumerate(plan.tasks)}
    copy, other = len(tasks), len(tasks) + 1
    every = chain.from_iterable(map(attrgetter("instructions"), plan.lanes))
    named = map(attrgetter("kind", "task"), every)
    return np.array([copy if kind == "copy" else tasks.get(task, other) for kind, task in named], dtype=np.int64)


def _family_factors(families: Sequence[str], noise: Noise, seed: int) -> dict[str, float]:
    """Return the systematic factor of each family, and of copies."""
    names = sorted({*families, COPIES})
    drawn = _lognormal(noise.family_sigma, len(names), seed, 0)
    return {name: noise.families.get(name, float(factor)) for name, factor in zip(names, drawn, strict=True)}


def _lognormal(sigma: float, count: int, seed: int, stream: int) -> Floats:
    generator = np.random.default_rng([seed, stream])
    factors: Floats = np.exp(generator.normal(-0.5 * sigma * sigma, sigma, count))
    return factors
