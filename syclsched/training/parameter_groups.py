# SPDX-License-Identifier: Apache-2.0
"""Parameter groups: which optimiser updates each parameter, and the inputs that a step has for them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from syclsched.errors import ArgumentError
from syclsched.training.named_choice import fits, matching
from syclsched.training.optimisers import Optimiser, optimiser_of

#: The pattern that fits all names.
ALL = "*"


def slot_name(parameter: str, slot: str) -> str:
    """Return the name of an array of the optimiser's state."""
    return f"{parameter} ({slot})"


def scalar_name(name: str, group: int = 0) -> str:
    """Return the name of the input of one of the numbers of a group's optimiser."""
    return f"optimizer {group + 1} {name}" if group else f"optimizer {name}"


@dataclass(frozen=True, slots=True)
class ParameterGroups:
    """Different optimisers, and for each parameter the number of its one."""

    optimisers: tuple[Optimiser, ...]
    numbers: Mapping[str, int]

    def optimiser(self, parameter: str) -> Optimiser:
        """Return the optimiser of a parameter."""
        return self.optimisers[self.numbers[parameter]]

    def states(self, parameter: str) -> tuple[str, ...]:
        """Return the names of the arrays of a parameter's state."""
        return tuple(slot_name(parameter, slot) for slot in self.optimiser(parameter).slots)

    def scalars(self, step: int) -> dict[str, float]:
        """Return the optimisers' numbers of a step, counted from 0, by the names of their inputs."""
        return {
            scalar_name(name, group): number
            for group, optimiser in enumerate(self.optimisers)
            for name, number in optimiser.scalars(step).items()
        }

    def scalar_names(self, parameter: str) -> dict[str, str]:
        """Return for each number of a parameter's optimiser the name of its input."""
        group = self.numbers[parameter]
        return {name: scalar_name(name, group) for name in self.optimisers[group].scalars(0)}


def parameter_groups(
    given: str | Optimiser | Mapping[str, str | Optimiser], parameters: Collection[str]
) -> ParameterGroups:
    """Return the groups of parameters, for one optimiser or for those of patterns, the first that fits a name.

    Raises `ArgumentError` if a parameter fits no pattern, or a pattern is first for none. The last may be ``*``, for
    the rest, also where nothing is left.
    """
    if isinstance(given, Mapping):
        optimisers = {pattern: optimiser_of(each, f"optimizer of {pattern!r}") for pattern, each in given.items()}
    else:
        optimisers = {ALL: optimiser_of(given)}
    first: dict[str, str] = {}
    for name in parameters:
        pattern = next((each for each in optimisers if fits(each, name)), None)
        if pattern is None:
            raise ArgumentError(
                f"no pattern fits the parameter {name!r}",
                where="optimizer",
                hint=f"Add an optimizer for the rest: {ALL!r}, as the last pattern",
            )
        first[name] = pattern
    for number, pattern in enumerate(optimisers):
        if pattern in first.values() or (pattern == ALL and number == len(optimisers) - 1):
            continue
        name = min(matching([pattern], parameters, "optimizer", "trained parameter"))
        raise ArgumentError(
            f"pattern {pattern!r} has no effect: {first[name]!r} comes first, and fits {name!r}, too",
            where="optimizer",
            hint=f"Give {pattern!r} before {first[name]!r}, or leave it out",
        )
    different: list[Optimiser] = []
    for pattern in first.values():
        if optimisers[pattern] not in different:
            different.append(optimisers[pattern])
    return ParameterGroups(
        tuple(different), {name: different.index(optimisers[pattern]) for name, pattern in first.items()}
    )
