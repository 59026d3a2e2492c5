# SPDX-License-Identifier: Apache-2.0
"""Copy times over sizes: host to device, device to host, within a device, between two devices."""

from __future__ import annotations

from collections.abc import Callable
from itertools import cycle
from typing import Any, Literal

import numpy as np

from syclsched.errors import MeasurementError
from syclsched.model.profile import LinkFit
from syclsched.model.usm import UsmKind
from syclsched.profiling.measure.bench import Bench
from syclsched.profiling.measure.link_fit import fit_link
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

#: Source and destination.
Pair = tuple[Any, Any]


def measure_transfer(bench: Bench, direction: Direction, budget: SessionBudget) -> LinkFit:
    """Measure copies of one direction over sizes and fit latency and bandwidth."""
    source_kind, destination_kind = DIRECTIONS[direction]
    return _fit(bench, lambda size: (bench.memory(size, source_kind), bench.memory(size, destination_kind)), budget)


def measure_link(source: Bench, destination: Bench, budget: SessionBudget) -> LinkFit:
    """Measure copies from one device's memory to another's, as plans do them: through memory the host can address.

    The copies run on the destination's queue. It treats USM memory of another context as ordinary host memory, so the
    source must be of kind ``shared`` or ``host``.
    """
    kind: UsmKind = "shared" if "usm_shared_allocations" in source.device.aspects else "host"

    # The source is a NumPy view, because the runtime would look up a foreign USM pointer in its own context.
    def pair(size: int) -> Pair:
        return np.asarray(source.memory(size, kind)), destination.memory(size, "device")

    return _fit(destination, pair, budget)


def _fit(bench: Bench, pair: Callable[[int], Pair], budget: SessionBudget) -> LinkFit:
    _verify(bench, *pair(min(budget.transfer_bytes)), min(budget.transfer_bytes))
    points = []
    for size in budget.transfer_bytes:
        sample = _batch(bench, [pair(size) for _ in range(max(1, min(PAIRS, _PAIRS_BYTES // size)))], size)
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
