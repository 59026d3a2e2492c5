# SPDX-License-Identifier: Apache-2.0
"""Types of injected faults."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from syclsched.errors import ArgumentError

#: Kinds of operations that can fail.
FaultPoint = Literal["submission", "copy", "allocation", "host call"]

#: Kinds of random faults: an operation is refused, or a submission fails on its device.
RANDOM_KINDS: Final = ("submission", "copy", "allocation", "host call", "on device")


@dataclass(frozen=True, slots=True)
class OperationFailure:
    """``times`` operations of a kind fail, from the ``number``-th on."""

    point: FaultPoint
    number: int
    device: str | None = None
    times: int = 1

    def __post_init__(self) -> None:
        _check_at_least(1, number=self.number, times=self.times)


@dataclass(frozen=True, slots=True)
class DeviceFailure:
    """``times`` submissions from the ``number``-th on are accepted, then reported as failed by the device."""

    number: int
    device: str | None = None
    times: int = 1
    done: bool = False

    def __post_init__(self) -> None:
        _check_at_least(1, number=self.number, times=self.times)


@dataclass(frozen=True, slots=True)
class DeviceLoss:
    """A device is lost at the first submission after ``after`` others."""

    device: str
    after: int = 0

    def __post_init__(self) -> None:
        _check_at_least(0, after=self.after)


@dataclass(frozen=True, slots=True)
class DeviceHang:
    """Submissions to a device after the first ``after`` do not start for ``for_s`` seconds, or until released."""

    device: str
    after: int = 0
    for_s: float | None = None

    def __post_init__(self) -> None:
        _check_at_least(0, after=self.after)
        if self.for_s is not None:
            _check_at_least(0, for_s=self.for_s)


@dataclass(frozen=True, slots=True)
class DeviceSlowdown:
    """Submissions to a device start ``by_s`` seconds late, one after another."""

    device: str
    by_s: float

    def __post_init__(self) -> None:
        _check_at_least(0, by_s=self.by_s)


@dataclass(frozen=True, slots=True)
class RandomFault:
    """Every operation of some kinds fails with a probability, at most ``most`` times in all."""

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


Fault = OperationFailure | DeviceFailure | DeviceLoss | DeviceHang | DeviceSlowdown | RandomFault


@dataclass(frozen=True, slots=True)
class Injected:
    """A fault that was injected.

    Parameters
    ----------
    what : str
        ``submission``, ``copy``, ``allocation`` or ``host call`` that was refused; ``on device`` for a failure reported
        later; ``lost`` for a device, ``pending`` for a submission in flight on it; ``hang`` or ``slow``.
    device : str or None
        Name of the device; None for the host and for allocations.
    number : int
        Number of the operation from 1, or of the submission that was pending.
    """

    what: str
    device: str | None
    number: int


def _check_at_least(least: int, **values: float) -> None:
    for name, value in values.items():
        if not value >= least:
            raise ArgumentError(f"{name}={value!r} is less than {least}", where="fault")
