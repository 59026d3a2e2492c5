# SPDX-License-Identifier: Apache-2.0
"""Overlap of copies and kernels: plans that process chunks, with memory for one, two and three of them.

    CL_CONFIG_CPU_TBB_NUM_WORKERS=1 python benchmarks/overlap.py [--chunks 12] [--runs 15] [--picture overlap.svg]

The CPU device represents one with memory of its own, like a GPU: each chunk is copied in, processed by a kernel on
one core, and copied out for a host function. Kernels have one lane of one core, copies another. The limit of the
device's memory decides how far copies may run ahead: one chunk's input and result are single buffering,
two are double. Each also as a stream of chunks with several in flight, where the caller's thread fetches results.

Predictions are from what the kernel and the copies take without overlap, as measured at the beginning. All alternate in
one process; medians and median absolute deviations.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from common import one_core_queues, opencl_operation, parser

from syclsched import TaskGraph
from syclsched.devices import discover, open_devices
from syclsched.execution import bind
from syclsched.model.platform import HOST
from syclsched.model.schedule import Assignment, Schedule
from syclsched.planning import build_plan
from syclsched.profiling.statistics import median_absolute_deviation
from syclsched.simulation import predict, simulate
from syclsched.tracing import make_report
from syclsched.tracing.charts.gantt import make_comparison
from syclsched.tracing.charts.output import save_chart
from syclsched.tracing.report_content import IDLE_REASONS

SOURCE = """__kernel void smooth(__global float *y, __global const float *x, long turns) {
    long i = get_global_id(0);
    float value = x[i];
    for (long t = 0; t < turns; t++) value = value * 0.999f + 0.25f;
    y[i] = value;
}"""
BUFFERS = (1, 2, 3)


@dataclass(frozen=True)
class Costs:
    """Seconds of a chunk's parts without overlap."""

    kernel_s: float
    in_s: float
    out_s: float


@dataclass
class Way:
    """A way to process all chunks: its function, its prediction, and the measurements of each run."""

    go: Callable[[], tuple[float, Any]]
    predicted_s: float
    foreseen: Any = None
    chunk_s: list[float] = field(default_factory=list)
    reports: list[Any] = field(default_factory=list)
    traces: list[Any] = field(default_factory=list)

    def again(self, count: int) -> None:
        """Run it once more."""
        seconds, trace = self.go()
        self.chunk_s.append(seconds / count)
        self.traces.append(trace)
        self.reports.append(make_report(trace))

    @property
    def middle(self) -> Any:
        """The trace of the run of median makespan."""
        return self.traces[self.chunk_s.index(statistics.median_low(self.chunk_s))]


def take(y: Any, last: Any) -> None:
    """Read a result on the host."""
    last[0] = y[-1]


def chunks(count: int, length: int, turns: int, *, taken: bool) -> tuple[Any, Any, list[str]]:
    """Return a graph of chunks, its schedule, and the names of kernels; the host may take each chunk."""
    smooth = opencl_operation("smooth", SOURCE, length, writes="y", reads="x", scalars="turns")
    graph, placed = TaskGraph("chunks"), []
    for i in range(count):
        x = graph.array(f"x{i}", (length,), "float32")
        y = graph.array(f"y{i}", (length,), "float32", temporary=taken)
        graph.kernel(smooth, name=f"smooth{i}", x=x, y=y, turns=turns)
        placed.append(Assignment(f"smooth{i}", "cpu", 0, "opencl-c", i, i + 0.8))
        if taken:
            graph.host(take, name=f"take{i}", y=y.read(), last=graph.array(f"last{i}", (1,), "float32").write())
            placed.append(Assignment(f"take{i}", "host", 0, "host", i + 0.8, i + 0.9))
    return graph, Schedule("by hand", tuple(placed)), [f"smooth{i}" for i in range(count)]


def planned(made: tuple[Any, Any, list[str]], platform: Any, costs: Costs, nbytes: int, room_bytes: int) -> Any:
    """Return a plan of chunks for a device with a memory limit."""
    graph, schedule, kernels = made
    took_s = {"host": costs.in_s, "cpu": costs.out_s}  # by the source of a copy
    spaces = [replace(s, capacity_bytes=room_bytes) if s.name == "cpu" else s for s in platform.spaces]
    links = [replace(n, latency_s=0.0, bandwidth_bytes_per_s=nbytes / took_s[n.source]) for n in platform.links]
    platform = replace(platform, spaces=tuple(spaces), links=tuple(links), interferences=())
    seconds = {each.name: costs.kernel_s if each.name in kernels else 1e-5 for each in graph.tasks}
    return predict(build_plan(graph, platform, schedule, seconds))


def with_memory_of_its_own(platform: Any) -> Any:
    """Return a platform on which the host cannot address the device's memory."""
    devices = [replace(d, reaches=(HOST,)) if d.is_host else d for d in platform.devices]
    spaces = [replace(s, host_accessible=s.name == HOST) for s in platform.spaces]
    return replace(platform, devices=tuple(devices), spaces=tuple(spaces))


def device_row(report: Any) -> Any:
    """Return the report's row of the device."""
    return next(row for row in report.devices if row.device == "cpu")


def check(chunk: int, x: Any, found: float, turns: int) -> None:
    """Raise an error if a chunk's last value is wrong."""
    value = float(x[-1])
    for _ in range(turns):
        value = value * 0.999 + 0.25
    if not np.isclose(found, value, rtol=1e-4):
        raise SystemExit(f"chunk {chunk}: {found} where {value} is right")


def by_plan(runner: Any, inputs: list[Any], turns: int) -> tuple[float, Any]:
    """Run a plan of all chunks; return the makespan and the trace."""
    run = runner.run({f"x{i}": x for i, x in enumerate(inputs)})
    run.wait()
    for i, x in enumerate(inputs):
        check(i, x, run.result(f"last{i}")[0], turns)
    trace = run.trace()
    return trace.makespan_s, trace


def by_stream(runner: Any, inputs: list[Any], turns: int, in_flight: int, wanted: str) -> tuple[float, Any]:
    """Run a plan of one chunk over all of them, for one array of it; return the seconds and the trace."""
    begun = time.perf_counter()
    with runner.stream([{"x0": x} for x in inputs], in_flight=in_flight, results=[wanted]) as stream:
        lasts = [results[wanted][-1] for results in stream]
    seconds = time.perf_counter() - begun
    for i, (x, last) in enumerate(zip(inputs, lasts, strict=True)):
        check(i, x, last, turns)
    return seconds, stream.trace()


def calibrated(runner: Any, inputs: list[Any], turns: int) -> Costs:
    """Return the times of a chunk's parts in a plan without overlap: medians over three runs after the first."""
    by_plan(runner, inputs, turns)
    spans = [span for _ in range(3) for span in by_plan(runner, inputs, turns)[1].spans]
    parts = (("launch", "smooth"), ("copy", "smooth"), ("copy", "take"))
    return Costs(
        *(statistics.median(s.duration_s for s in spans if s.kind == k and s.task.startswith(t)) for k, t in parts)
    )


def ways_of(options: Any, platform: Any, live: Any, inputs: list[Any], opened: ExitStack) -> dict[str, Way]:
    """Return all ways, planned with measured costs."""
    nbytes, turns = 4 * options.length, options.turns
    whole = chunks(options.chunks, options.length, turns, taken=True)
    guess = planned(whole, platform, Costs(1e-3, 1e-3, 1e-3), nbytes, 2 * nbytes)
    with bind(guess, whole[0], live) as runner:
        costs = calibrated(runner, inputs, turns)
    print(
        f"{options.chunks} chunks of {nbytes / 2**20:g} MiB, {options.runs} runs; alone: "
        f"copied in {costs.in_s * 1e3:.2f}, kernel {costs.kernel_s * 1e3:.2f}, copied out {costs.out_s * 1e3:.2f} ms"
    )
    ways = {}
    for k in BUFFERS:
        plan = planned(whole, platform, costs, nbytes, k * 2 * nbytes)
        runner = opened.enter_context(bind(plan, whole[0], live))
        assert runner.replayed, runner.why_not_replayed
        foreseen = device_row(make_report(simulate(plan)))
        ways[f"plan, memory for {k}"] = Way(
            partial(by_plan, runner, inputs, turns), plan.makespan_s / options.chunks, foreseen
        )
    for name, taken, wanted in (("stream", False, "y0"), ("with function", True, "last0")):
        one = chunks(1, options.length, turns, taken=taken)
        runner = opened.enter_context(bind(planned(one, platform, costs, nbytes, 0), one[0], live))
        for k in BUFFERS:
            predicted_s = runner.stream([], in_flight=k).statistics.predicted_interval_s
            ways[f"{name}, {k} in flight"] = Way(partial(by_stream, runner, inputs, turns, k, wanted), predicted_s)
    return ways


def table_row(title: str, way: Way, base_s: float) -> str:
    """Return a line of the table."""
    rows = [(device_row(report), report.makespan_s) for report in way.reports]
    middle_s = statistics.median(way.chunk_s)
    spread_ms = median_absolute_deviation(way.chunk_s) * 1e3
    times = f"{way.predicted_s * 1e3:5.2f} {middle_s * 1e3:6.2f} ± {spread_ms:4.2f} ms {base_s / middle_s:5.2f} x"
    shares = [(row.overlap, row.utilisation, row.copying_s / whole_s) for row, whole_s in rows]
    hidden, kernels, copies = (100 * statistics.median(column) for column in zip(*shares, strict=True))
    foreseen = "    " if way.foreseen is None else f"{100 * (way.foreseen.overlap or 0.0):4.0f}"
    why = {
        reason: 100 * statistics.median(getattr(row.idle, name) / whole_s for row, whole_s in rows)
        for reason, name in IDLE_REASONS
    }
    said = ", ".join(f"{reason} {share:.0f}" for reason, share in why.items() if share >= 0.5)
    return f"{title:20} {times} {foreseen} {hidden:5.0f} % {kernels:6.0f} % {copies:6.0f} %   {said}"


def main() -> None:
    """Time all ways, alternating; print a table, and draw each plan's median run."""
    arguments = parser(__doc__, chunks=12, runs=15)
    arguments.add_argument("--length", type=int, default=1 << 20, help="numbers of 4 bytes in a chunk")
    arguments.add_argument("--turns", type=int, default=100, help="how often the kernel goes over a number")
    arguments.add_argument("--picture", type=Path)
    options = arguments.parse_args()
    one_core_queues()

    platform = with_memory_of_its_own(discover().select(["cpu"]))
    random = np.random.default_rng(0)
    inputs = [random.random(options.length, dtype=np.float32) for _ in range(options.chunks)]
    with open_devices(platform) as live, ExitStack() as opened:
        ways = ways_of(options, platform, live, inputs, opened)
        for way in ways.values():
            way.go()
        for _ in range(options.runs):
            for way in ways.values():
                way.again(options.chunks)
    print(
        "                     a chunk: predicted, measured       hidden: predicted, measured; kernels, copies; idle, %"
    )
    for name, way in ways.items():
        base = statistics.median(
            ways[f"{name.split(',')[0]}, {'memory for 1' if 'plan' in name else '1 in flight'}"].chunk_s
        )
        print(table_row(name, way, base))
    if options.picture:
        plans = {f"measured, {name}": way.middle for name, way in ways.items() if name.startswith("plan")}
        save_chart(make_comparison(plans, "Chunks: copied in, worked on, copied out"), options.picture)


if __name__ == "__main__":
    main()
