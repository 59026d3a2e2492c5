# SPDX-License-Identifier: Apache-2.0
"""What runs at once: kernels on two queues, a copy beside a kernel, kernels on two devices; and how many lanes help."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from syclsched.model.profile import Quantity
from syclsched.profiling.bench import Bench
from syclsched.profiling.budget import MIB, Budget
from syclsched.profiling.statistics import Sampler
from syclsched.profiling.throughput import FmaChain

#: Up to this slow-down two lanes count as running as if alone.
LANE_THRESHOLD = 0.25

#: More lanes than this are not tried.
MAX_LANES = 16

#: Copies are of this size; several make up the time of the kernel.
COPY_BYTES = 4 * MIB

#: Each of the two must run long enough that starting it does not matter.
_MIN_KERNEL_S = 0.005

#: Least times need many turns, however little the factors of the first few scatter.
_MIN_TURNS = 40
_LEAST_S = 0.5

#: Overlap gets more time than a single number: what it says decides where everything runs.
_TIMES_THE_BUDGET = 3

Submit = Callable[[], object]


@dataclass(frozen=True, slots=True)
class Load:
    """Something to run, alone or beside others."""

    submit: Submit  # submits it asynchronously
    wait: Callable[[], None]  # waits until it is done


def overlap_factor(alone: Sequence[float], together: float) -> float:
    """Return how much of what could run at once took turns: 0 for none, 1 for all.

    With the longest alone time T and the sum S of all, ``(together - T) / (S - T)``; for two equal loads this is
    ``together / alone - 1``. Never negative; more than 1 if they hinder each other.
    """
    longest = max(alone)
    return max(0.0, (together - longest) / (sum(alone) - longest))


def measure_overlap(sampler: Sampler, loads: Sequence[Load], budget_s: float) -> Quantity:
    """Measure the overlap factor of loads, alone and together by turns.

    What runs at once is a property of the device; whatever else happens on the machine makes times longer, never
    shorter, and makes loads seem to overlap that do not, or the other way round. So the factor is that of the least
    times over all turns; the factors of the single turns give its spread.
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

    def turn() -> float:
        nonlocal best_together
        alone = [seconds([load]) for load in loads]
        together = seconds(loads)
        best_alone[:] = map(min, best_alone, alone)
        best_together = min(best_together, together)
        # One is added while sampling: a spread relative to a number near 0 would never be small.
        return 1.0 + overlap_factor(alone, together)

    turn()
    # A session that has run out of time still takes several turns: one would be chance.
    deadline = max(sampler.deadline_s, sampler.clock() + _LEAST_S)
    turns = replace(sampler, min_samples=_MIN_TURNS, deadline_s=deadline).sample_until(turn, budget_s)
    return Quantity(overlap_factor(best_alone, best_together), turns.mad, turns.samples, turns.spikes)


def kernel_load(chain: FmaChain, queue: Any, iterations: int) -> Load:
    """Return a kernel that fills the device, on one of its queues."""
    submission = chain.bind(iterations)
    return Load(lambda: submission.submit(queue, []), queue.wait)


def copy_load(bench: Bench, seconds: float) -> Load:
    """Return host-to-device copies that take about so many seconds, on the device's copy queue."""
    source, destination = bench.memory(COPY_BYTES, "host"), bench.memory(COPY_BYTES, "device")
    queue = bench.copy_queue

    def submit(count: int) -> None:
        for _ in range(count):
            queue.memcpy_async(destination, source, COPY_BYTES)

    timed = bench.wall(lambda: submit(4))
    timed()
    count = max(1, round(4 * seconds / max(timed(), 1e-6)))
    return Load(lambda: submit(count), queue.wait)


def large_kernel(bench: Bench, budget: Budget) -> tuple[FmaChain, int]:
    """Return a kernel that fills the device, and the iterations that make it run for the budget's kernel time."""
    chain = FmaChain(bench, "float32")
    return chain, chain.iterations_for(max(budget.kernel_s, _MIN_KERNEL_S))


def measure_kernel_kernel(bench: Bench, budget: Budget, lanes: int = 2) -> Quantity:
    """Measure the overlap of kernels that each fill the device, one per compute queue."""
    chain, iterations = large_kernel(bench, budget)
    loads = [kernel_load(chain, bench.lane(index), iterations) for index in range(lanes)]
    return measure_overlap(bench.sampler, loads, _TIMES_THE_BUDGET * budget.number_s)


def measure_copy_kernel(bench: Bench, budget: Budget) -> Quantity:
    """Measure the overlap of host-to-device copies with a kernel that fills the device and takes as long."""
    chain, iterations = large_kernel(bench, budget)
    kernel = kernel_load(chain, bench.queue, iterations)
    seconds = max(chain.seconds(iterations), 1e-6)
    return measure_overlap(bench.sampler, [kernel, copy_load(bench, seconds)], budget.number_s)


def measure_interference(first: Bench, second: Bench, budget: Budget) -> Quantity:
    """Measure the overlap of large kernels on two devices."""
    loads = []
    for bench in (first, second):
        chain, iterations = large_kernel(bench, budget)
        loads.append(kernel_load(chain, bench.queue, iterations))
    return measure_overlap(first.sampler, loads, _TIMES_THE_BUDGET * budget.number_s)


def measure_lanes(bench: Bench, budget: Budget, two: Quantity) -> int:
    """Return how many queues run kernels as if alone: doubled until they no longer do, or there are as many as units."""
    lanes, factor = 1, two.value
    limit = min(bench.device.compute_units, MAX_LANES)
    while 2 * lanes <= limit and factor <= LANE_THRESHOLD:
        lanes *= 2
        if 2 * lanes <= limit:
            factor = measure_kernel_kernel(bench, budget, lanes=2 * lanes).value
    return lanes
