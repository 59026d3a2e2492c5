# SPDX-License-Identifier: Apache-2.0
"""Measurement of the engine's own overheads on a device, which simulation adds to every instruction."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from syclsched.costs import CostModel
from syclsched.execution.handle.run import Run
from syclsched.execution.runner.one_off import execute
from syclsched.model.graph import TaskGraph
from syclsched.model.platform import Platform
from syclsched.model.profile import DeviceProfile
from syclsched.model.trace import Span
from syclsched.planner.attempt import PlanTarget, attempt
from syclsched.planner.search_budget import SearchBudget
from syclsched.profiling.measure.microkernels import EMPTY_ITEMS, empty_operation, triad_operation
from syclsched.profiling.statistics import summarise
from syclsched.scheduling.objectives import minimize

if TYPE_CHECKING:
    from syclsched.devices.opened_devices import OpenDevices

#: Kernels in the dispatch graph; kernels plus host functions in the hand-off graph; measured runs; warm-up runs.
TASKS, HOPS, RUNS, WARM_UPS = 100, 40, 5, 1

#: Elements of each array in the hand-off graph: a few tenths of a millisecond of work on one core.
ELEMENTS = 1 << 18


def with_engine_costs(profile: DeviceProfile, device: str, platform: Platform, devices: OpenDevices) -> DeviceProfile:
    """Return the profile with ``dispatch_s`` and ``handoff_s`` measured."""
    alone = platform.select([device])
    dispatch_s = [_dispatch_s(run) for run in _runs(_dispatch_graph(), device, alone, devices)]
    # The mean, not the median: a few late wake-ups make up most of the total.
    handoff_s = [statistics.fmean(_gaps(run.trace().spans)) for run in _runs(_handoff_graph(), device, alone, devices)]
    return replace(
        profile, launch=replace(profile.launch, dispatch_s=summarise(dispatch_s), handoff_s=summarise(handoff_s))
    )


def _dispatch_graph() -> TaskGraph:
    graph = TaskGraph("dispatch")
    operation = empty_operation()
    arrays = [graph.array(f"x{i}", data=np.zeros(EMPTY_ITEMS, "float32")) for i in range(TASKS // 4)]
    for i in range(TASKS):
        graph.kernel(operation, name=f"t{i}", x=arrays[i % len(arrays)])
    return graph


def _handoff_graph() -> TaskGraph:
    """Return two chains that alternate between device and host, with enough work for realistic wake-up latencies."""
    graph = TaskGraph("handoff")
    operation = triad_operation("float32")
    for chain in range(2):
        a, b, c = (graph.array(f"{name}{chain}", data=np.ones(ELEMENTS, "float32")) for name in "abc")
        for hop in range(HOPS // 4):
            graph.kernel(operation, name=f"device{chain}.{hop}", a=a, b=b, c=c, s=2.0)
            graph.host(_host_work, name=f"host{chain}.{hop}", a=a.read(), b=b.write())
    return graph


def _host_work(a: Any, b: Any) -> None:
    """Do about as much work as the kernel."""
    np.sqrt(np.abs(a), out=b)


def _runs(graph: TaskGraph, device: str, platform: Platform, devices: OpenDevices) -> Iterator[Run]:
    # A lower bound of this graph would take longer than all the runs.
    target = PlanTarget(platform, CostModel(platform), f"single:{device}", minimize("makespan"), bounded=False)
    plan = attempt(graph, target, SearchBudget(None, None, None, 0)).finished()
    for turn in range(WARM_UPS + RUNS):
        with execute(plan, graph, devices) as run:
            run.wait()
            if turn >= WARM_UPS:
                yield run


def _dispatch_s(run: Run) -> float:
    counts = run.counts
    return counts.dispatch_ns * 1e-9 / max(1, counts.submissions)


def _gaps(spans: tuple[Span, ...]) -> list[float]:
    """Return the start delays, in seconds, of instructions that wait across the device/host boundary."""
    by_number = {span.instruction: span for span in spans}
    lane_free_s: dict[str, float] = {}
    gaps = []
    for span in sorted(spans, key=lambda s: s.start_s):
        waits = [by_number[number] for number in span.waits if number in by_number]
        if any((before.lane_kind == "host") != (span.lane_kind == "host") for before in waits):
            ready_s = max(lane_free_s.get(span.lane, 0.0), *(before.finish_s for before in waits))
            gaps.append(max(0.0, span.start_s - ready_s))
        lane_free_s[span.lane] = span.finish_s
    return gaps
