# SPDX-License-Identifier: Apache-2.0
"""Planning passes, verification and transitive reduction of large graphs, the reduction compared with networkx.

    python benchmarks/planning.py [--tasks 10000] [--devices 4 16] [--runs 5] [--networkx 2000]

Random layered graphs of about three dependencies a task, on described devices with a memory space each. Prints the
least and the median of CPU seconds (one thread), warm; the first run, which may load or compile machine code and
records the graph, is shown apart.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable
from dataclasses import replace

import networkx
import numpy as np
from common import parser, seconds

from syclsched.execution.core.program import Program
from syclsched.model.access import AccessMode
from syclsched.model.graph import TaskGraph
from syclsched.model.operation import Implementation, Operation, Parameter, Work
from syclsched.model.plan import Plan
from syclsched.model.platform import HOST, Device, Link, MemorySpace, Platform
from syclsched.model.schedule import Assignment, Schedule
from syclsched.model.task import LogicalArray
from syclsched.planning import build, build_plan, transitive_reduction, verify
from syclsched.planning.synchronisation.graph_reduction import reduced_edges
from syclsched.simulation import predict

ARRAY_BYTES = 8192
TASK_S = 1e-4


def combine(inputs: int) -> Operation:
    """Return an operation that reads a number of arrays and writes one; it is planned, never run."""

    def never(_: object) -> None:
        raise AssertionError("this benchmark runs nothing")

    parameters = [Parameter(f"p{i}", AccessMode.READ) for i in range(inputs)]
    return Operation(
        f"combine{inputs}",
        (*parameters, Parameter("out", AccessMode.WRITE)),
        (Implementation("kernel", "opencl-c", load=never),),
        lambda _: Work(flops=1e6, bytes=1e5),
    )


def layered(tasks: int, seed: int = 0) -> TaskGraph:
    """Return layers as wide as their number; each task reads two to four results of the layer before."""
    rng = random.Random(seed)
    graph = TaskGraph(f"layered {tasks}")
    operations = [combine(n) for n in range(5)]
    width = max(1, round(tasks**0.5))
    before: list[LogicalArray] = []
    while len(graph) < tasks:
        layer = []
        for _ in range(min(width, tasks - len(graph))):
            number = len(graph)
            chosen = rng.sample(before, min(len(before), rng.choice((2, 3, 4))))
            out = graph.array(f"a{number}", (ARRAY_BYTES // 8,), temporary=rng.random() < 0.8)
            arguments = {f"p{i}": array for i, array in enumerate(chosen)}
            graph.kernel(operations[len(chosen)], name=f"t{number}", out=out, **arguments)
            layer.append(out)
        before = layer
    return graph


def machine(devices: int, capacity_bytes: int = 0) -> Platform:
    """Return devices with a memory space each, linked to the host's."""
    names = [f"d{i}" for i in range(devices)]
    made = [Device(n, n, "gpu", "level_zero", "described", f"m{n}", (f"m{n}",), dtypes=("float64",)) for n in names]
    made.append(Device(HOST, HOST, HOST, HOST, "the host", HOST, (HOST,)))
    spaces = [MemorySpace(HOST, 0, True), *(MemorySpace(f"m{n}", capacity_bytes) for n in names)]
    links = [Link(a, b, 1e-6, 1e10) for n in names for a, b in ((HOST, f"m{n}"), (f"m{n}", HOST))]
    return Platform("described", tuple(made), tuple(spaces), tuple(links))


def near_data(graph: TaskGraph, platform: Platform, seed: int = 0) -> Schedule:
    """Schedule each task where one of its inputs was made, or in three of ten cases anywhere."""
    rng = random.Random(seed)
    before: dict[str, list[str]] = {}
    for dependency in graph.dependencies():
        before.setdefault(dependency.after, []).append(dependency.before)
    where: dict[str, str] = {}
    finish_s: dict[str, float] = {}
    free_s = dict.fromkeys((d.name for d in platform.compute_devices), 0.0)
    assigned = []
    for task in graph.order():
        inputs = before.get(task, [])
        near = [where[b] for b in inputs]
        device = rng.choice(near) if near and rng.random() < 0.7 else rng.choice(list(free_s))
        start_s = max([free_s[device], *(finish_s[b] for b in inputs)])
        where[task] = device
        finish_s[task] = free_s[device] = start_s + TASK_S
        assigned.append(Assignment(task, device, 0, "kernel", start_s, start_s + TASK_S))
    return Schedule("near data", tuple(assigned))


def measure(what: str, run: Callable[[], object], runs: int) -> None:
    """Print the CPU time of a call."""
    first, *warm = (seconds(run, time.process_time) for _ in range(runs + 1))
    print(
        f"{what:44s} least {min(warm) * 1e3:8.1f} ms, median {statistics.median(warm) * 1e3:8.1f} ms; "
        f"first {first * 1e3:8.1f} ms"
    )


def made(plan: Plan) -> Plan:
    """Return a plan after creating its instructions, which are lazy."""
    for lane in plan.lanes:
        len(lane.instructions)
    return plan


def planning(graph: TaskGraph, devices: int, runs: int) -> None:
    """Measure passes and verification, with and without a memory limit."""
    platform = machine(devices)
    schedule = near_data(graph, platform)
    durations_s = dict.fromkeys((t.name for t in graph.tasks), TASK_S)
    plan = build_plan(graph, platform, schedule, durations_s)
    count = sum(len(lane.instructions) for lane in plan.lanes)
    print(f"{len(graph)} tasks, {plan.counters.dependencies} dependencies on {devices} devices:")
    print(f"  {count} instructions, {plan.counters.copies} copies, {plan.counters.waits} waits")
    measure("  passes", lambda: made(build_plan(graph, platform, schedule, durations_s)), runs)
    given = build.plan_inputs(graph, platform, schedule, durations_s)
    measure("  of these, tasks and copies placed", lambda: build.make_draft(given), runs)
    measure("  verification", lambda: verify(plan, graph), runs)
    measure("  execution's program of it", lambda: Program(plan).waited_for, runs)
    peak = max(plan.peak_bytes[d.space] for d in platform.compute_devices)
    small = replace(
        platform, spaces=tuple(s if s.name == HOST else replace(s, capacity_bytes=peak // 4) for s in platform.spaces)
    )
    tight = build_plan(graph, small, schedule, durations_s)
    print(f"  a quarter of the memory ({peak // 4} bytes a device): {tight.counters.copies} copies")
    measure("  passes with evictions", lambda: made(build_plan(graph, small, schedule, durations_s)), runs)
    limited = build.plan_inputs(graph, small, schedule, durations_s)
    measure("  of these, tasks and copies placed", lambda: build.make_draft(limited, limited=True), runs)
    measure("  verification", lambda: verify(tight, graph), runs)


def measure_reversed_chain(length: int, runs: int) -> None:
    """Measure a chain whose values are needed again in reverse order, as in training, with memory for 32 of them."""
    graph = TaskGraph(f"reversed chain {length}")
    values = [graph.array(f"x{n}", (ARRAY_BYTES // 8,), temporary=True) for n in range(length)]
    back = [graph.array(f"g{n}", (ARRAY_BYTES // 8,), temporary=n > 0) for n in range(length)]
    for n in range(length):
        inputs = {"p0": values[n - 1]} if n else {}
        graph.kernel(combine(len(inputs)), name=f"f{n}", out=values[n], **inputs)
    for n in reversed(range(length)):
        inputs = {f"p{i}": array for i, array in enumerate([values[n], *back[n + 1 : n + 2]])}
        graph.kernel(combine(len(inputs)), name=f"b{n}", out=back[n], **inputs)
    assigned = tuple(Assignment(t.name, "d0", 0, "kernel", k * TASK_S, TASK_S) for k, t in enumerate(graph.tasks))
    schedule, durations_s = Schedule("in order", assigned), dict.fromkeys((t.name for t in graph.tasks), TASK_S)
    print(f"a chain of {length} tasks there and back, room for 32 arrays:")
    for latency_s in (0.1 * TASK_S, TASK_S, 10 * TASK_S):
        platform = machine(1, 32 * ARRAY_BYTES)
        slow = replace(platform, links=tuple(replace(link, latency_s=latency_s) for link in platform.links))
        given = build.plan_inputs(graph, slow, schedule, durations_s)
        evicting = build.finish_plan(given, build.make_draft(given, limited=True))
        plan = predict(build_plan(graph, slow, schedule, durations_s))
        verify(plan, graph)
        print(
            f"  copies of {latency_s / TASK_S:g} tasks' time: evictions only {evicting.makespan_s * 1e3:.1f} ms "
            f"({evicting.counters.copies} copies); as planned {plan.makespan_s * 1e3:.1f} ms "
            f"({plan.counters.copies} copies, {plan.counters.recomputed} tasks done again)"
        )
        measure("  passes", lambda where=slow: made(build_plan(graph, where, schedule, durations_s)), runs)


def reduction(what: str, edges: set[tuple[int, int]], runs: int, *, beside_networkx: bool) -> None:
    """Measure the reduction of one graph, and networkx's, which must be equal."""
    before, after = (np.array(ends, np.int64) for ends in zip(*sorted(edges), strict=True))
    count = int(after.max()) + 1
    kept = reduced_edges(count, before, after)
    print(f"reduction of {count} tasks, {what}: {len(edges)} edges, {len(kept[0])} left")
    measure("  syclsched", lambda: reduced_edges(count, before, after), runs)
    if beside_networkx:
        start = time.process_time()
        reduced = networkx.transitive_reduction(networkx.DiGraph(edges))
        print(f"{'  networkx':44s} once  {(time.process_time() - start) * 1e3:8.1f} ms")
        assert set(reduced.edges()) == set(zip(*(ends.tolist() for ends in kept), strict=True))


def main() -> None:
    """Measure and print."""
    options = parser(__doc__, tasks=10_000, devices=[4, 16], runs=5)
    options.add_argument("--networkx", type=int, default=2000, help="tasks of the graphs that networkx reduces, too")
    given = options.parse_args()
    graph = layered(given.tasks)
    for devices in given.devices:
        planning(graph, devices, given.runs)
    measure_reversed_chain(500, given.runs)
    measure("reduction of that graph, from its tasks", lambda: transitive_reduction(graph), given.runs)
    rng = random.Random(0)
    for count, beside in ((given.tasks, False), (min(given.tasks, given.networkx), True)):
        steps = (1, 2, 3, 50, 200)
        near = {(max(0, n - rng.choice(steps)), n) for n in range(1, count) for _ in range(3)}
        reduction("edges near in order", near, given.runs, beside_networkx=beside)
        far = {(min(pair), max(pair)) for pair in (rng.sample(range(count), 2) for _ in range(3 * count))}
        reduction("edges anywhere", far, given.runs, beside_networkx=beside)


if __name__ == "__main__":
    main()
