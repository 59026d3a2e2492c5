# SPDX-License-Identifier: Apache-2.0
"""Faults as data: what goes wrong, and when."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from syclsched.errors import ArgumentError

#: The points that a run passes and at which something can go wrong.
Point = Literal["submission", "copy", "allocation", "host call"]

#: What can go wrong at random: a point fails, or the kernel of a submission fails on its device.
RANDOM_KINDS: Final = ("submission", "copy", "allocation", "host call", "on device")


@dataclass(frozen=True, slots=True)
class FailPoint:
    """The ``number``-th passage of a point, and those after it up to ``times``, fail."""

    point: Point
    number: int
    device: str | None = None
    times: int = 1

    def __post_init__(self) -> None:
        _check_at_least(1, number=self.number, times=self.times)


@dataclass(frozen=True, slots=True)
class FailOnDevice:
    """The ``number``-th submission is accepted, and its device reports a failure afterwards."""

    number: int
    device: str | None = None
    times: int = 1
    done: bool = False

    def __post_init__(self) -> None:
        _check_at_least(1, number=self.number, times=self.times)


@dataclass(frozen=True, slots=True)
class Lose:
    """A device is lost when more than ``after`` submissions are made to it."""

    device: str
    after: int = 0

    def __post_init__(self) -> None:
        _check_at_least(0, after=self.after)


@dataclass(frozen=True, slots=True)
class Hang:
    """What is submitted to a device after the first ``after`` submissions does not begin, for some time or for good."""

    device: str
    after: int = 0
    for_s: float | None = None

    def __post_init__(self) -> None:
        _check_at_least(0, after=self.after)
        if self.for_s is not None:
            _check_at_least(0, for_s=self.for_s)


@dataclass(frozen=True, slots=True)
class Slow:
    """What is submitted to a device begins ``by_s`` seconds after it could, one after another."""

    device: str
    by_s: float

    def __post_init__(self) -> None:
        _check_at_least(0, by_s=self.by_s)


@dataclass(frozen=True, slots=True)
class AtRandom:
    """Every passage of a point fails with a probability, at most ``most`` times in all."""

    probability: float
    kinds: tuple[str, ...] = ("submission", "copy", "allocation", "on device")
    device: str | None = None
    most: int | None = None

    def __post_init__(self) -> None:
        unknown = set(self.kinds).difference(RANDOM_KINDS)
        if unknown or not self.kinds:
            raise ArgumentError(
                f"there is no kind {sorted(unknown)}" if unknown else "no kind is given",
                where="at_random()",
                hint=f"Some of {', '.join(RANDOM_KINDS)}",
            )
        if not 0.0 <= self.probability <= 1.0:
            raise ArgumentError(f"{self.probability} is no probability", where="at_random()")


Fault = FailPoint | FailOnDevice | Lose | Hang | Slow | AtRandom


@dataclass(frozen=True, slots=True)
class Injected:
    """A fault that was injected.

    Parameters
    ----------
    what : str
        ``submission``, ``copy``, ``allocation`` or ``host call`` of what was refused or raised; ``on device``;
        ``lost``, ``pending`` of what was on its way to a device when it was lost; ``hang`` or ``slow``.
    device : str or None
        Where; None for the host, and for memory.
    number : int
        Which passage of the point it was, or the instruction that was pending.
    """

    what: str
    device: str | None
    number: int


def _check_at_least(least: int, **values: float) -> None:
    for name, value in values.items():
        if not value >= least:
            raise ArgumentError(f"{name}={value!r} is less than {least}", where="fault")
