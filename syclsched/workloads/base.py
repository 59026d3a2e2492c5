# SPDX-License-Identifier: Apache-2.0
"""What a ready-made workload is: a graph with its data, what to fetch of it, and how to check that it is right."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from syclsched.errors import ArgumentError
from syclsched.model.graph import TaskGraph

Array: TypeAlias = NDArray[Any]
Arrays: TypeAlias = Mapping[str, Array]

#: Larger graphs are refused before they are built: they would take minutes to make and gigabytes to hold.
MAX_TASKS = 1_000_000


@dataclass(frozen=True, slots=True)
class CheckResult:
    """Whether a result is right."""

    ok: bool  # whether ``residual`` is a number and at most ``tolerance``
    #: The error in the units ``text`` says, and how large it may be.
    residual: float
    tolerance: float
    text: str  # what was compared, for people


@dataclass(frozen=True, slots=True)
class Workload:
    """A graph with its data, ready to run."""

    name: str  # for people
    graph: TaskGraph  # with initial values of its inputs
    results: tuple[str, ...]  # the arrays to fetch
    check: Callable[[Arrays], CheckResult]  # compares the fetched arrays with what they must be
    inputs: Arrays | None = None  # values that are given to every run, where the graph has none

    @property
    def sample_data(self) -> Arrays:
        """Representative values by array name: those of the graph's inputs."""
        return {**self.graph.data, **(self.inputs or {})}


@dataclass(frozen=True, slots=True)
class WorkloadKind:
    """How to make one kind of workload."""

    name: str  # as on the command line
    description: str  # one line
    options: type[Any]  # A frozen dataclass; every field has a default, and its help text in ``metadata["help"]``
    build: Callable[[Any], Workload]  # makes it


def judge(residual: float, tolerance: float, text: str) -> CheckResult:
    """Return a verdict; a residual that is not a number is a failure."""
    ok = bool(residual <= tolerance)
    return CheckResult(ok, float(residual), tolerance, f"{text} = {residual:.3g}, at most {tolerance:g}")


def require_count(value: object, option: str, workload: str) -> int:
    """Return a positive whole number."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 1:
        raise ArgumentError(f"must be a positive whole number, not {value!r}", where=f"{workload}: {option}")
    return int(value)


def require_dtype(value: object, workload: str) -> np.dtype[Any]:
    """Return float32 or float64."""
    if value not in ("float32", "float64"):
        raise ArgumentError(f"must be float32 or float64, not {value!r}", where=f"{workload}: dtype")
    return np.dtype(str(value))


def limit_tasks(count: int, workload: str, hint: str) -> None:
    """Refuse a graph that would be too large to build."""
    if count > MAX_TASKS:
        raise ArgumentError(f"would be {count:,} tasks, more than {MAX_TASKS:,}", where=workload, hint=hint)


def blocks(extent: int, size: int) -> tuple[slice, ...]:
    """Cut ``extent`` elements into blocks of ``size``, the last one smaller if it does not divide."""
    return tuple(slice(start, min(start + size, extent)) for start in range(0, extent, size))


def allocate(make: Callable[[], Array], workload: str) -> Array:
    """Return ``make()``, with a clear error if it does not fit into memory."""
    try:
        return make()
    except (MemoryError, OverflowError, ValueError) as error:
        raise ArgumentError(
            f"the data does not fit into this machine's memory: {error}", where=workload, hint="Take a smaller size"
        ) from error


def fetched(arrays: Arrays, name: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Return one fetched array."""
    if name not in arrays:
        raise ArgumentError("the check needs this array", where=f"array {name!r}", hint="Fetch all of Workload.results")
    value = np.asarray(arrays[name])
    if value.shape != shape or value.dtype != dtype:
        raise ArgumentError(
            f"the check needs shape {shape} and dtype {dtype.name}, not {value.shape} and {value.dtype.name}",
            where=f"array {name!r}",
        )
    return value
