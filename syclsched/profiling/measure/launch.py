# SPDX-License-Identifier: Apache-2.0
"""Launch costs of kernels: submission, latency, chains, across queues and devices, first launch."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from syclsched.devices.native.sycl_types import SyclEvent, SyclQueue
from syclsched.errors import MeasurementError
from syclsched.model.profile import LaunchCosts, Quantity
from syclsched.profiling.measure.bench import Bench
from syclsched.profiling.measure.microkernels import EMPTY_ITEMS, empty_operation, fresh_operation
from syclsched.profiling.measure.session_budget import SessionBudget
from syclsched.profiling.statistics import summarise

#: Kernels per chain or burst of submissions: enough to hide the first and last, too few to fill a queue.
CHAIN = 100


class _EmptyKernel:
    """An empty kernel of a device, ready to be submitted to any of its queues."""

    def __init__(self, bench: Bench) -> None:
        array = bench.array(np.arange(EMPTY_ITEMS, dtype=np.float32))
        self._array = array
        self._bench = bench
        self._submission = bench.compile(empty_operation(), {"x": array}, {}).bind({"x": array})

    def submit(self, queue: SyclQueue, depends: list[SyclEvent]) -> SyclEvent:
        """Submit it and return the event."""
        return self._submission.submit(queue, depends)

    def verify(self) -> None:
        """Run it once and check that its array is unchanged."""
        self.submit(self._bench.queue, [])
        if not np.array_equal(self._bench.read(self._array), np.arange(EMPTY_ITEMS, dtype=np.float32)):
            raise MeasurementError("an empty kernel changed its argument", where=f"device {self._bench.device.name!r}")


def measure_launch(bench: Bench, budget: SessionBudget) -> LaunchCosts:
    """Measure the launch costs of one device; see `docs/reference/profiling.md`."""
    kernel = _EmptyKernel(bench)
    kernel.verify()
    sample = bench.sampler.sample_until
    for _ in range(CHAIN):  # warm-up
        kernel.submit(bench.queue, [])
    bench.wait()
    return LaunchCosts(
        submission_s=sample(_submission(bench, kernel), budget.number_s),
        latency_s=sample(bench.wall_clock(lambda: kernel.submit(bench.queue, [])), budget.number_s),
        chain_task_s=sample(chain(bench.wall_clock, [bench.queue], [kernel]), budget.number_s),
        cross_queue_s=sample(chain(bench.wall_clock, [bench.queue, bench.lane(1)], [kernel, kernel]), budget.number_s),
    )


def _submission(bench: Bench, kernel: _EmptyKernel) -> Callable[[], float]:
    def sample() -> float:
        bench.wait()
        start = bench.sampler.clock()
        for _ in range(CHAIN):
            kernel.submit(bench.queue, [])
        return (bench.sampler.clock() - start) / CHAIN

    return sample


def chain(
    wall: Callable[[Callable[[], object]], Callable[[], float]],
    queues: list[SyclQueue],
    kernels: list[_EmptyKernel],
) -> Callable[[], float]:
    """Return a sampler of the seconds per kernel of a dependent chain that cycles through ``queues``."""

    def run() -> None:
        depends: list[SyclEvent] = []
        for index in range(CHAIN):
            place = index % len(queues)
            event = kernels[place].submit(queues[place], depends)
            depends = [event] if len(queues) > 1 else []

    def sample() -> float:
        return timed() / CHAIN

    timed = wall(run)
    timed()  # warm-up of unused queues
    return sample


def measure_first_launch(bench: Bench, budget: SessionBudget) -> Quantity:
    """Measure the first launch of a new kernel: compile, build, submit, wait."""
    samples = []
    array = bench.array(np.ones(EMPTY_ITEMS, dtype=np.float32))
    for _ in range(budget.first_launches):
        bench.sampler.check()
        operation = fresh_operation()
        start = bench.sampler.clock()
        submission = bench.compile(operation, {"x": array}, {}).bind({"x": array})
        submission.submit(bench.queue, [])
        bench.wait()
        samples.append(bench.sampler.clock() - start)
    if np.array_equal(bench.read(array), np.ones(EMPTY_ITEMS, dtype=np.float32)):
        raise MeasurementError("a kernel did not change its array", where=f"device {bench.device.name!r}")
    return summarise(samples)


def measure_hop(first: Bench, second: Bench, budget: SessionBudget) -> Quantity:
    """Measure the delay between a kernel on one device and a dependent kernel on another device.

    It is the time of a kernel on the first device followed by one on the second, less the second kernel alone: both end
    with the same wait, and devices differ in how soon the host sees a completion. At most one hop is in flight: on a
    chain that alternates between two contexts, the 2024.2 runtime's clean-up of finished commands
    (``Scheduler::cleanupCommands`` after a host task) crashes the process.
    """
    kernels = _EmptyKernel(first), _EmptyKernel(second)
    clock = first.sampler.clock

    def seconds(hop: bool) -> float:
        start = clock()
        depends = [kernels[0].submit(first.queue, [])] if hop else []
        kernels[1].submit(second.queue, depends).wait()
        taken = clock() - start
        first.wait()
        second.wait()
        return taken

    def sample() -> float:
        alone = seconds(hop=False)
        return max(seconds(hop=True) - alone, 0.0)

    sample()
    return first.sampler.sample_until(sample, budget.number_s)
