# SPDX-License-Identifier: Apache-2.0
"""What recording costs: replays of a bound plan with and without a trace, alternating in one process.

    python benchmarks/tracing.py [--tasks 2000] [--runs 31]

Empty kernels of 16 work-items on one lane of the CPU device, the graphs of ``dispatch.py``. The time is from
`Runner.run` until the run has ended, which is when a traced run has read the times of its events. A third runner has
lanes that do not even keep times (queues without profiling).
"""

from __future__ import annotations

import argparse
import statistics
import time
from typing import Any

from dispatch import edges, graph_of, plan_of


def main() -> None:
    """Time the three, and print what the trace costs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=2000)
    parser.add_argument("--runs", type=int, default=31)
    parser.add_argument("--shapes", nargs="*", default=["chain", "independent", "stencil", "random"])
    options = parser.parse_args()

    import numpy as np

    from syclsched.api import with_lanes
    from syclsched.devices import discover, open_devices
    from syclsched.devices.native import fences
    from syclsched.execution import bind
    from syclsched.execution.lanes import lanes

    platform = with_lanes(discover().select(["cpu"]), 2)
    live = open_devices(platform)

    def without_profiling(queue: Any) -> Any:
        import dpctl

        return dpctl.SyclQueue(queue.sycl_context, queue.sycl_device, property=["in_order"])

    print(f"{options.tasks} tasks, {options.runs} runs; ms a run, median (least); cost, of medians (of pairs)")
    for shape in options.shapes:
        graph = graph_of(edges(shape, options.tasks))
        plan = plan_of(graph, platform, 1)
        inputs = {"first": np.zeros(16)}
        lanes.lane_queue = without_profiling  # type: ignore[attr-defined]
        bare = bind(plan, graph, live, trace=False)
        lanes.lane_queue = fences.lane_queue  # type: ignore[attr-defined]
        runners = {"traced": bind(plan, graph, live), "not traced": bind(plan, graph, live, trace=False), "bare": bare}
        times: dict[str, list[float]] = {name: [] for name in runners}
        for turn in range(options.runs + 2):
            names = list(runners) if turn % 2 else list(runners)[::-1]
            for name in names:
                begun = time.perf_counter()
                runners[name].run(inputs).wait()
                if turn > 1:
                    times[name].append((time.perf_counter() - begun) * 1e3)
        for runner in runners.values():
            runner.close()
        said = ", ".join(f"{name} {statistics.median(t):.2f} ({min(t):.2f})" for name, t in times.items())
        costs = []
        for base in ("not traced", "bare"):
            pairs = [a / b - 1.0 for a, b in zip(times["traced"], times[base], strict=True)]
            cost = statistics.median(times["traced"]) / statistics.median(times[base]) - 1.0
            spread = statistics.median(abs(p - statistics.median(pairs)) for p in pairs)
            of_pairs = f"{100 * statistics.median(pairs):+.1f} ± {100 * spread:.1f}"
            costs.append(f"over {base} {100 * cost:+.1f} % ({of_pairs})")
        print(f"{shape:12} {said}; {', '.join(costs)}")
    live.close()


if __name__ == "__main__":
    main()
