# SPDX-License-Identifier: Apache-2.0
"""Workload types: a graph with its data, the arrays to fetch, and a check of the results."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from syclsched.errors import ArgumentError, did_you_mean
from syclsched.model.graph import TaskGraph

Array: TypeAlias = NDArray[Any]
Arrays: TypeAlias = Mapping[str, Array]

#: Element types of ready graphs.
DTYPES = ("float32", "float64")

#: Larger graphs are refused before they are built: they would take minutes and gigabytes.
MAX_TASKS = 1_000_000


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The verdict of a result check."""

    ok: bool  # whether ``residual`` is a number and at most ``tolerance``
    #: The error and its limit, in the units stated in ``text``.
    residual: float
    tolerance: float
    text: str  # readable description of the comparison


@dataclass(frozen=True, slots=True)
class Workload:
    """A graph with its data, ready to run."""

    name: str
    graph: TaskGraph  # with initial values of its inputs
    results: tuple[str, ...]  # the arrays to fetch
    check: Callable[[Arrays], CheckResult]  # compares the fetched arrays with the expected ones
    inputs: Arrays | None = None  # input values for every run, for arrays without an initial value


@dataclass(frozen=True, slots=True)
class WorkloadKind:
    """A kind of workload: its options and its builder."""

    name: str  # on the command line
    description: str  # one line
    options: type[Any]  # a frozen dataclass; every field has a default, and its help text in ``metadata["help"]``
    build: Callable[[Any], Workload]


def check_residual(residual: float, tolerance: float, text: str) -> CheckResult:
    """Return the verdict for a residual; NaN is a failure."""
    ok = bool(residual <= tolerance)
    return CheckResult(ok, float(residual), tolerance, f"{text} = {residual:.3g}, at most {tolerance:g}")


def require_count(value: object, option: str, workload: str) -> int:
    """Return the value if it is a positive integer; raise `ArgumentError` otherwise."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 1:
        raise ArgumentError(f"must be a positive whole number, not {value!r}", where=f"{workload}: {option}")
    return int(value)


def require_dtype(value: object, workload: str) -> np.dtype[Any]:
    """Return the dtype if it is float32 or float64; raise `ArgumentError` otherwise."""
    if value not in DTYPES:
        raise ArgumentError(
            f"must be {' or '.join(DTYPES)}, not {value!r}",
            where=f"{workload}: dtype",
            hint=did_you_mean(value, DTYPES).rstrip() or None,
        )
    return np.dtype(str(value))


def limit_tasks(count: int, workload: str, hint: str) -> None:
    """Raise `ArgumentError` if a graph would have too many tasks."""
    if count > MAX_TASKS:
        raise ArgumentError(f"would be {count:,} tasks, more than {MAX_TASKS:,}", where=workload, hint=hint)


def blocks(extent: int, size: int) -> tuple[slice, ...]:
    """Split ``extent`` elements into blocks of ``size``; the last block may be smaller."""
    return tuple(slice(start, min(start + size, extent)) for start in range(0, extent, size))


def allocate(make: Callable[[], Array], workload: str) -> Array:
    """Return ``make()``; raise `ArgumentError` if the array does not fit into memory."""
    try:
        return make()
    except (MemoryError, OverflowError, ValueError) as error:
        raise ArgumentError(
            f"the data does not fit into this machine's memory: {error}", where=workload, hint="Take a smaller size"
        ) from error


def require_array(arrays: Arrays, name: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Return one fetched array, checked for shape and dtype."""
    if name not in arrays:
        raise ArgumentError("the check needs this array", where=f"array {name!r}", hint="Fetch all of Workload.results")
    value = np.asarray(arrays[name])
    if value.shape != shape or value.dtype != dtype:
        raise ArgumentError(
            f"the check needs shape {shape} and dtype {dtype.name}, not {value.shape} and {value.dtype.name}",
            where=f"array {name!r}",
        )
    return value
