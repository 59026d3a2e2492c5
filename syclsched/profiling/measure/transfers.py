# SPDX-License-Identifier: Apache-2.0
"""Copy times over sizes, fitted: host to device, device to host, within a device, between two devices."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from itertools import cycle
from typing import Any, Literal

import numpy as np

from syclsched.devices.memory.usm_memory import memory_slice
from syclsched.errors import MeasurementError
from syclsched.model.profile import LinkFit
from syclsched.model.usm import UsmKind
from syclsched.profiling.measure.bench import Bench
from syclsched.profiling.measure.session_budget import MIB, SessionBudget

Direction = Literal["h2d", "d2h", "d2d"]

#: USM kinds of source and destination.
DIRECTIONS: dict[Direction, tuple[UsmKind, UsmKind]] = {
    "h2d": ("host", "device"),
    "d2h": ("device", "host"),
    "d2d": ("device", "device"),
}

#: Copies per batch: enough to hide the wait at its end; large copies need fewer.
BATCH = 8
_BATCH_BYTES = 16 * MIB

#: Pairs of buffers that copies rotate through, fewer if they are large: a plan copies each array once, so its data must
#: not be cached from the previous copy.
PAIRS = 32
_PAIRS_BYTES = 32 * MIB

#: Bandwidth where times do not grow with the size: above any memory's, so that bytes cost nothing.
UNLIMITED_BYTES_PER_S = 1e15

#: Source and destination.
Pair = tuple[Any, Any]

#: A function: the part of some memory from a byte on, with a number of bytes.
Parts = Callable[[int, int], Any]


def measure_transfer(bench: Bench, direction: Direction, budget: SessionBudget) -> LinkFit:
    """Measure copies of one direction over sizes and fit latency and bandwidth."""
    source_kind, destination_kind = DIRECTIONS[direction]

    def parts(size: int, count: int) -> tuple[Parts, Parts]:
        return _usm_parts(bench, size, count, source_kind), _usm_parts(bench, size, count, destination_kind)

    return _fit(bench, parts, budget)


def measure_link(source: Bench, destination: Bench, budget: SessionBudget) -> LinkFit:
    """Measure copies from one device's memory to another's, as plans do them: through memory the host can address.

    The copies run on the destination's queue. It treats USM memory of another context as ordinary host memory, so the
    source must be of kind ``shared`` or ``host``.
    """
    kind: UsmKind = "shared" if "usm_shared_allocations" in source.device.aspects else "host"

    # The source is a NumPy view, because the runtime would look up a foreign USM pointer in its own context.
    def parts(size: int, count: int) -> tuple[Parts, Parts]:
        array = np.asarray(source.memory(size * count, kind))
        return lambda start, nbytes: array[start : start + nbytes], _usm_parts(destination, size, count, "device")

    return _fit(destination, parts, budget)


def _usm_parts(bench: Bench, size: int, count: int, kind: UsmKind) -> Parts:
    """Return a function that gives parts of USM memory for a number of buffers of a size."""
    return partial(memory_slice, bench.memory(size * count, kind))


def _fit(bench: Bench, parts: Callable[[int, int], tuple[Parts, Parts]], budget: SessionBudget) -> LinkFit:
    counts = {size: max(1, min(PAIRS, _PAIRS_BYTES // size)) for size in budget.transfer_bytes}
    # Memory for all sizes: touching its pages takes longer than the copies.
    sources, destinations = parts(*max(counts.items(), key=math.prod))
    smallest = min(counts)
    _verify(bench, sources(0, smallest), destinations(0, smallest), smallest)
    points = []
    for size, count in counts.items():
        places = [(sources(start, size), destinations(start, size)) for start in range(0, count * size, size)]
        sample = _batch(bench, places, size)
        sample()
        points.append((size, bench.sampler.sample_until(sample, budget.point_s).value))
    return fit_link(points)


def _batch(bench: Bench, pairs: list[Pair], size: int) -> Callable[[], float]:
    count = max(1, min(BATCH, _BATCH_BYTES // size))
    rotation = cycle(pairs)

    def copy() -> None:
        for _ in range(count):
            source, destination = next(rotation)
            bench.queue.memcpy_async(destination, source, size)

    timed = bench.wall_clock(copy)
    return lambda: timed() / count


def _verify(bench: Bench, source: Any, destination: Any, size: int) -> None:
    """Copy a pattern, read it back, and raise `MeasurementError` if it differs."""
    queue = bench.queue
    pattern = (np.arange(size) % 251).astype(np.uint8)
    if isinstance(source, np.ndarray):
        source[:size] = pattern
    else:
        queue.memcpy(source, pattern, size)
    queue.memcpy_async(destination, source, size)
    bench.wait()
    result = np.empty(size, np.uint8)
    queue.memcpy(result, destination, size)
    if not np.array_equal(result, pattern):
        raise MeasurementError("a copy does not give what was copied", where=f"device {bench.device.name!r}")


# --- least-squares fit ----------------------------------------------------------------------------------


def fit_link(points: Sequence[tuple[int, float]]) -> LinkFit:
    """Fit ``seconds = alpha + beta * bytes`` with alpha, beta >= 0, minimising the relative errors.

    Weighted linear least squares with weights ``1 / seconds**2``: sizes span decades, and unweighted the
    largest alone would decide, leaving the latency to chance. Where the free optimum has a negative
    coefficient, the optimum lies on the boundary and the other coefficient is fitted alone (the
    two-variable case of Lawson and Hanson's NNLS).
    """
    if len({size for size, _ in points}) < 2:
        raise MeasurementError("a fit needs at least two different sizes")
    if any(not math.isfinite(t) or t <= 0 for _, t in points):
        raise MeasurementError("a measured time is not positive and finite")
    alpha, beta = _non_negative(points)
    errors = [(alpha + beta * n - t) / t for n, t in points]
    residual = math.sqrt(sum(e * e for e in errors) / len(errors))
    bandwidth = UNLIMITED_BYTES_PER_S if beta <= 1 / UNLIMITED_BYTES_PER_S else 1 / beta
    return LinkFit(alpha, bandwidth, residual, tuple((int(n), float(t)) for n, t in points))


def _non_negative(points: Sequence[tuple[int, float]]) -> tuple[float, float]:
    # Dividing alpha + beta*n = t by t: minimise |alpha*u + beta*v - 1|^2 with u = 1/t, v = n/t.
    u = [1 / t for _, t in points]
    v = [n / t for n, t in points]
    uu, uv, vv = _dot(u, u), _dot(u, v), _dot(v, v)
    su, sv = sum(u), sum(v)
    determinant = uu * vv - uv * uv
    if determinant > 1e-12 * uu * vv:
        alpha = (su * vv - sv * uv) / determinant
        beta = (sv * uu - su * uv) / determinant
        if alpha >= 0 and beta >= 0:
            return alpha, beta
    only_alpha, only_beta = (su / uu, 0.0), (0.0, sv / vv if vv > 0 else 0.0)

    def squared_error(coefficients: tuple[float, float]) -> float:
        return sum((coefficients[0] * a + coefficients[1] * b - 1) ** 2 for a, b in zip(u, v, strict=True))

    return min(only_alpha, only_beta, key=squared_error)


def _dot(a: Sequence[float], b: Sequence[float]) -> float:
    return math.fsum(x * y for x, y in zip(a, b, strict=True))
