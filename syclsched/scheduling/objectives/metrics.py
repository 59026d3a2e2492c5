# SPDX-License-Identifier: Apache-2.0
"""Metrics of a timetable: makespan, throughput, energy and peak memory."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from syclsched.errors import PlatformError, PolicyError, did_you_mean
from syclsched.scheduling.objectives.memory_use import peak_bytes
from syclsched.scheduling.objectives.power import energy_j, require_power
from syclsched.scheduling.problem import Problem, makespan_s
from syclsched.scheduling.tables import NOTHING, Floats
from syclsched.scheduling.timetable import Timetable


@dataclass(frozen=True, slots=True)
class Metrics:
    """Metrics of a timetable; less is better for each."""

    makespan_s: float  # end of the last task or copy of a wanted result
    #: Least time between the starts of two iterations when the graph is run repeatedly with this assignment: the
    #: largest load of a processor or channel in one iteration. No modulo schedule with it has a shorter interval;
    #: `syclsched.scheduling.objectives.pipeline` constructs one.
    initiation_interval_s: float
    energy_j: float | None  # of all devices until the makespan; None if the power of a device is not known
    peak_bytes: dict[str, float]  # peak memory use, by memory space

    def value(self, metric: str, space: str | None = None) -> float:
        """Return one metric."""
        if metric == "makespan":
            return self.makespan_s
        if metric == "interval":
            return self.initiation_interval_s
        if metric == "energy":
            if self.energy_j is None:
                raise PolicyError(
                    "the energy is not known",
                    where="metrics",
                    hint="Give busy_w and idle_w under power in the profiles of the devices",
                )
            return self.energy_j
        if metric != "memory":
            raise PolicyError(
                f"no metric {metric!r}", where="metrics", hint="There are makespan, interval, energy, memory"
            )
        if space is None:
            return max(self.peak_bytes.values(), default=0.0)
        if space not in self.peak_bytes:
            raise PlatformError(
                f"no memory space {space!r}", where="metrics", hint=f"It has {', '.join(self.peak_bytes)}"
            )
        return self.peak_bytes[space]


def evaluate(problem: Problem, timetable: Timetable) -> Metrics:
    """Return the metrics of a timetable."""
    done_s = makespan_s(problem, timetable)
    joules = energy_j(problem, timetable, done_s)
    return Metrics(
        makespan_s=done_s,
        initiation_interval_s=float(
            max(_processor_loads(problem, timetable).max(initial=0.0), _channel_load(problem, timetable))
        ),
        energy_j=None if math.isnan(joules) else joules,
        peak_bytes=dict(zip(problem.spaces, peak_bytes(problem, timetable, done_s).tolist(), strict=True)),
    )


def resolve_space(problem: Problem, name: str) -> str:
    """Return the memory space for the name of a space or of a device."""
    if name in problem.spaces:
        return name
    if name in problem.devices:
        tables = problem.tables
        return problem.spaces[int(tables.reach_space[tables.reach_start[problem.devices.index(name)]])]
    known = ", ".join(dict.fromkeys([*problem.spaces, *problem.devices]))
    meant = did_you_mean(name, [*problem.spaces, *problem.devices])
    raise PlatformError(f"no memory space {name!r}", where=f"memory[{name}]", hint=f"{meant}There are {known}")


def check_known(problem: Problem, metric: str) -> None:
    """Raise if a metric cannot be computed for any timetable of a problem."""
    if metric == "energy":
        require_power(problem)


def _processor_loads(problem: Problem, timetable: Timetable) -> Floats:
    """Return the seconds that each processor computes in one run, by the problem's times."""
    tables = problem.tables
    device = tables.processor_device[timetable.processor]
    seconds = tables.seconds[tables.kind, device]
    loads: Floats = np.bincount(timetable.processor, seconds, len(tables.processor_device)).astype(np.float64)
    return loads


def _channel_load(problem: Problem, timetable: Timetable) -> float:
    copies = timetable.copies
    if not problem.has_channels or copies is None:
        return 0.0
    used = problem.tables.channel[copies.source, copies.destination]
    seconds = np.repeat((copies.finish_s - copies.start_s)[:, None], 2, axis=1)
    real = used != NOTHING
    return float(np.bincount(used[real], seconds[real], 1).max(initial=0.0))
