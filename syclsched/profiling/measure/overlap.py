# SPDX-License-Identifier: Apache-2.0
"""Overlap: concurrency of kernels on two queues, of copies with kernels, of two devices; useful lane count."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from syclsched.devices.native.sycl_types import SyclQueue
from syclsched.model.profile import Quantity
from syclsched.profiling.measure.bench import Bench
from syclsched.profiling.measure.session_budget import MIB, SessionBudget
from syclsched.profiling.measure.throughput import FmaChain
from syclsched.profiling.statistics import Sampler

#: Two lanes count as independent up to this slow-down.
LANE_THRESHOLD = 0.25

#: Most lanes tried.
MAX_LANES = 16

#: Size of one copy; several of them fill the time of the kernel.
COPY_BYTES = 4 * MIB

#: Duration of a kernel: its launch cost is negligible, and many turns take little time.
_KERNEL_S = 0.005

#: Minimum times need many turns, even if the factors of the first few hardly vary.
_MIN_TURNS = 40
_LEAST_S = 0.25

#: Overlap gets several times the budget of a number, because placement depends on it most.
_BUDGET_FACTOR = 3

Submit = Callable[[], object]


@dataclass(frozen=True, slots=True)
class Load:
    """A workload to run, alone or with others."""

    submit: Submit  # submits it asynchronously
    wait: Callable[[], None]  # waits for its completion


def overlap_factor(alone: Sequence[float], together: float) -> float:
    """Return the serialised share of loads that could run concurrently: 0 for none, 1 for all.

    With the longest alone time T and the sum S of all, ``(together - T) / (S - T)``; for two equal loads this is
    ``together / alone - 1``. Never negative; more than 1 if they hinder each other.
    """
    longest = max(alone)
    return max(0.0, (together - longest) / (sum(alone) - longest))


def measure_overlap(sampler: Sampler, loads: Sequence[Load], budget_s: float) -> Quantity:
    """Measure the overlap factor of loads, in turns alone and together.

    Other activity on the machine only makes times longer, which distorts the factor either way. So the factor is
    computed from the minimum times over all turns; the factors of single turns give its spread.
    """

    def seconds(chosen: Sequence[Load]) -> float:
        start = sampler.clock()
        for load in chosen:
            load.submit()
        for load in chosen:
            load.wait()
        return sampler.clock() - start

    best_alone = [math.inf] * len(loads)
    best_together = math.inf

    def measure_once() -> float:
        nonlocal best_together
        alone = [seconds([load]) for load in loads]
        together = seconds(loads)
        best_alone[:] = map(min, best_alone, alone)
        best_together = min(best_together, together)
        # One is added while sampling, as the spread relative to a number near 0 would never be small.
        return 1.0 + overlap_factor(alone, together)

    measure_once()
    # Even after the session's deadline take several turns: one alone would be chance.
    deadline = max(sampler.deadline_s, sampler.clock() + _LEAST_S)
    turns = replace(sampler, min_samples=_MIN_TURNS, deadline_s=deadline).sample_until(measure_once, budget_s)
    return Quantity(overlap_factor(best_alone, best_together), turns.mad, turns.samples, turns.spikes)


def _kernel_load(chain: FmaChain, queue: SyclQueue, iterations: int) -> Load:
    """Return a load of one kernel that fills the device, on one of its queues."""
    submission = chain.bind(iterations)
    return Load(lambda: submission.submit(queue, []), queue.wait)


def _copy_load(bench: Bench, seconds: float) -> Load:
    """Return a load of host-to-device copies of about this many seconds, on the copy queue."""
    source, destination = bench.memory(COPY_BYTES, "host"), bench.memory(COPY_BYTES, "device")
    queue = bench.copy_queue

    def submit(count: int) -> None:
        for _ in range(count):
            queue.memcpy_async(destination, source, COPY_BYTES)

    timed = bench.wall_clock(lambda: submit(4))
    timed()
    count = max(1, round(4 * seconds / max(timed(), 1e-6)))
    return Load(lambda: submit(count), queue.wait)


def large_kernel(bench: Bench) -> tuple[FmaChain, int]:
    """Return a kernel that fills the device, and its iterations for some milliseconds."""
    chain = FmaChain(bench, "float32")
    return chain, chain.iterations_for(_KERNEL_S)


def measure_kernel_kernel(bench: Bench, budget: SessionBudget, lanes: int = 2) -> Quantity:
    """Measure the overlap of kernels that each fill the device, one per compute queue."""
    chain, iterations = large_kernel(bench)
    loads = [_kernel_load(chain, bench.lane(index), iterations) for index in range(lanes)]
    return measure_overlap(bench.sampler, loads, _BUDGET_FACTOR * budget.number_s)


def measure_copy_kernel(bench: Bench, budget: SessionBudget) -> Quantity:
    """Measure the overlap of host-to-device copies with a kernel that fills the device and takes as long."""
    chain, iterations = large_kernel(bench)
    kernel = _kernel_load(chain, bench.queue, iterations)
    seconds = max(chain.seconds(iterations), 1e-6)
    return measure_overlap(bench.sampler, [kernel, _copy_load(bench, seconds)], budget.number_s)


def measure_interference(first: Bench, second: Bench, budget: SessionBudget) -> Quantity:
    """Measure the overlap of large kernels on two devices."""
    loads = []
    for bench in (first, second):
        chain, iterations = large_kernel(bench)
        loads.append(_kernel_load(chain, bench.queue, iterations))
    return measure_overlap(first.sampler, loads, _BUDGET_FACTOR * budget.number_s)


def measure_lanes(bench: Bench, budget: SessionBudget, two: Quantity) -> int:
    """Return the number of independent queues: doubled until kernels slow down, or compute units are exhausted."""
    lanes, factor = 1, two.value
    limit = min(bench.device.compute_units, MAX_LANES)
    while 2 * lanes <= limit and factor <= LANE_THRESHOLD:
        lanes *= 2
        if 2 * lanes <= limit:
            factor = measure_kernel_kernel(bench, budget, lanes=2 * lanes).value
    return lanes
