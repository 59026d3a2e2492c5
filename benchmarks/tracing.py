# SPDX-License-Identifier: Apache-2.0
"""Overhead of tracing: replays of a bound plan with and without a trace, alternating in one process.

    python benchmarks/tracing.py [--tasks 2000] [--runs 31]

Empty kernels of 16 work-items on one lane of the CPU device, the graphs of ``dispatch.py``. The time is from
`Runner.run` until the run has ended, which is when a traced run has read the times of its events. A third runner has
lanes without timestamps (queues without profiling).
"""

from __future__ import annotations

import statistics
from functools import partial
from typing import Any

import numpy as np
from common import alternating, parser
from dispatch import edges, graph_of, plan_of

from syclsched.api import with_lanes
from syclsched.devices import discover, open_devices
from syclsched.devices.native import fences
from syclsched.execution import bind
from syclsched.execution.lanes import lanes
from syclsched.profiling.statistics import median_absolute_deviation


def run_once(runner: Any, inputs: dict[str, Any]) -> None:
    """Run a bound plan and wait for its end."""
    runner.run(inputs).wait()


def main() -> None:
    """Time the three, and print the cost of the trace."""
    shapes = ["chain", "independent", "stencil", "random"]
    options = parser(__doc__, tasks=2000, runs=31, shapes=shapes).parse_args()
    platform = with_lanes(discover().select(["cpu"]), 2)
    live = open_devices(platform)

    def without_profiling(queue: Any) -> Any:
        import dpctl

        return dpctl.SyclQueue(queue.sycl_context, queue.sycl_device, property=["in_order"])

    print(f"{options.tasks} tasks, {options.runs} runs; ms a run, median (least); cost, of medians (of pairs)")
    for shape in options.shapes:
        graph = graph_of(edges(shape, options.tasks))
        plan = plan_of(graph, platform, (("cpu", 0),))
        inputs = {"first": np.zeros(16)}
        lanes.lane_queue = without_profiling  # type: ignore[attr-defined]
        bare = bind(plan, graph, live, trace=False)
        lanes.lane_queue = fences.lane_queue  # type: ignore[attr-defined]
        runners = {"traced": bind(plan, graph, live), "not traced": bind(plan, graph, live, trace=False), "bare": bare}
        calls = {name: partial(run_once, runner, inputs) for name, runner in runners.items()}
        times = {name: [s * 1e3 for s in found] for name, found in alternating(calls, options.runs, 2).items()}
        for runner in runners.values():
            runner.close()
        said = ", ".join(f"{name} {statistics.median(t):.2f} ({min(t):.2f})" for name, t in times.items())
        costs = []
        for base in ("not traced", "bare"):
            pairs = [a / b - 1.0 for a, b in zip(times["traced"], times[base], strict=True)]
            cost = statistics.median(times["traced"]) / statistics.median(times[base]) - 1.0
            of_pairs = f"{100 * statistics.median(pairs):+.1f} ± {100 * median_absolute_deviation(pairs):.1f}"
            costs.append(f"over {base} {100 * cost:+.1f} % ({of_pairs})")
        print(f"{shape:12} {said}; {', '.join(costs)}")
    live.close()


if __name__ == "__main__":
    main()
