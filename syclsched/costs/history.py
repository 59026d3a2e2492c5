# SPDX-License-Identifier: Apache-2.0
"""Measured durations: their keys, and the interface through which the cost model reads them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Protocol

from syclsched.model.operation import Implementation, Operation, Signature
from syclsched.model.profile import Quantity


@dataclass(frozen=True, slots=True)
class HistoryKey:
    """Key of a measured duration."""

    device_key: str  # `Device.key`
    #: Names of the operation and of the implementation.
    operation: str
    implementation: str
    revision: str  # `Implementation.revision`: measurements of older code are ignored
    signature: str  # `signature_text`


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


class MemoryHistory(dict[HistoryKey, Quantity]):
    """History in memory: a dict from key to seconds."""

    def lookup(self, key: HistoryKey) -> Quantity | None:
        """Return the seconds measured for ``key``, or None if there are none."""
        return self.get(key)


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
    return replace(key, implementation=key.implementation + ", in a run")
