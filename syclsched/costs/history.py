# SPDX-License-Identifier: Apache-2.0
"""Measured durations: their keys, samples, and the interface through which the cost model reads them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final, Literal, Protocol

from syclsched.model.operation import Implementation, Operation, Signature
from syclsched.model.profile import Quantity


@dataclass(frozen=True, slots=True)
class HistoryKey:
    """Key of a measured duration."""

    device_key: str  # `Device.timing_key`
    #: Names of the operation and of the implementation.
    operation: str
    implementation: str
    revision: str  # `Implementation.revision`: measurements of older code are ignored
    signature: str  # `signature_text`


#: Origin of a sample: calibration before a run, a task of a run, a profiling session, or a comparison of plans.
Source = Literal["calibration", "run", "profile", "selection"]

#: Kind of a run whose makespan is kept: the first one of a plan in a process, a later one, a later one by a single call
#: of compiled code (`Runner`), whose time includes reading the results; or a run that failed on a device.
RunKind = Literal["first", "later", "call", "failed"]

#: From this relative uncertainty on, an estimate is provisional: it is used, and measured again in a quiet moment.
PROVISIONAL: Final = 0.25

#: End of the implementation's name in the key of a time within runs.
IN_RUN: Final = ", in a run"

#: Runs from which a task's time within runs is preferred to its time alone.
_RUNS_ENOUGH = 2


@dataclass(frozen=True, slots=True)
class Sample:
    """One measured duration and its circumstances."""

    seconds: float
    when_s: float = 0.0  # UTC, seconds since 1970; 0 if unknown
    load: float | None = None  # share of the machine that other processes took meanwhile; None if unknown
    source: Source = "calibration"
    quiet: bool = True  # whether the sample can be trusted: little load, and no later measurement contradicts it


class History(Protocol):
    """Source of measured durations."""

    def lookup(self, key: HistoryKey) -> Quantity | None:
        """Return the seconds measured for ``key``, or None if there are none."""
        ...


def known_refusals(history: History | None) -> Mapping[HistoryKey, str]:
    """Return why devices or libraries refused implementations when these were to be timed, by key.

    A history need not keep refusals; `HistoryStore` does.
    """
    refusals = getattr(history, "refusals", None)
    return {} if refusals is None else dict(refusals())


def stored_samples(history: History | None, key: HistoryKey) -> tuple[Sample, ...]:
    """Return the samples of a key, the oldest first; a history need not keep samples, `HistoryStore` does."""
    stored = getattr(history, "stored", None)
    return () if stored is None else tuple(stored(key))


class MemoryHistory(dict[HistoryKey, Quantity]):
    """History in memory: a dict from key to seconds, and the refusals noted."""

    def __init__(self, *seconds: Mapping[HistoryKey, Quantity]) -> None:
        super().__init__(*seconds)
        self._refusals: dict[HistoryKey, str] = {}

    def lookup(self, key: HistoryKey) -> Quantity | None:
        """Return the seconds measured for ``key``, or None if there are none."""
        return self.get(key)

    def refuse(self, key: HistoryKey, reason: str) -> None:
        """Note that a device or library refuses an implementation."""
        self._refusals[key] = reason

    def refusals(self) -> Mapping[HistoryKey, str]:
        """Return the refusals noted, by key."""
        return self._refusals


@dataclass(frozen=True, slots=True)
class HistoryChain:
    """Several histories; of each key, the first one that has it counts."""

    histories: tuple[History, ...]

    def lookup(self, key: HistoryKey) -> Quantity | None:
        """Return the seconds measured for ``key``, or None if there are none."""
        return next((found for each in self.histories if (found := each.lookup(key)) is not None), None)

    def refusals(self) -> Mapping[HistoryKey, str]:
        """Return the refusals noted in any of them, by key."""
        return {key: reason for each in self.histories for key, reason in known_refusals(each).items()}


def is_provisional(quantity: Quantity) -> bool:
    """Return whether a measured duration is too uncertain to be kept: few, scattered or disturbed samples."""
    return quantity.uncertainty is not None and quantity.uncertainty >= PROVISIONAL


def measured_seconds(history: History, key: HistoryKey) -> Quantity | None:
    """Return the best estimate of a task's duration: within runs if several agree on it, else timed alone.

    Times within runs are closer to the next run's, which is what plans predict.
    """
    alone, in_run = history.lookup(key), history.lookup(in_run_key(key))
    if alone is None or in_run is None:
        return alone or in_run
    if in_run.samples >= _RUNS_ENOUGH and (in_run.uncertainty or 0.0) <= PROVISIONAL:
        return in_run
    return in_run if (in_run.uncertainty or 0.0) < (alone.uncertainty or 0.0) else alone


def signature_text(signature: Signature) -> str:
    """Return a signature as text that is the same in every process."""
    arrays = [
        f"{name}:{signature.dtypes[name]}[{','.join(map(str, shape))}]{'!' if name in signature.constants else ''}"
        for name, shape in sorted(signature.shapes.items())
    ]
    return " ".join([*arrays, *(f"{name}={value!r}" for name, value in sorted(signature.scalars.items()))])


def history_key(
    device_key: str, operation: Operation, implementation: Implementation, signature: Signature
) -> HistoryKey:
    """Return the key of one implementation on one device."""
    text = signature_text(signature)
    return HistoryKey(device_key, operation.name, implementation.name, implementation.revision, text)


def in_run_key(key: HistoryKey) -> HistoryKey:
    """Return the key of the same measurement taken between other tasks of a run.

    A task timed alone takes less or more: its weights are in caches, or a thread is asleep.
    """
    return replace(key, implementation=key.implementation + IN_RUN)
