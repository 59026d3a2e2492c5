# SPDX-License-Identifier: Apache-2.0
"""Two one-core lanes of the CPU device against one: tiled Cholesky, alternating in one process.

    python benchmarks/lanes.py [--n 2048] [--tile 256] [--runs 15]

Both plans are bound once and may use the same implementations; only the number of lanes differs. Prints medians with
their median absolute deviations, the ratio of medians, the median ratio of neighbouring runs, and predictions
with measurements.
"""

from __future__ import annotations

import statistics
from contextlib import ExitStack
from typing import Any

from common import one_core_queues, parser

from syclsched import discover, workloads
from syclsched.api import with_lanes
from syclsched.devices import open_devices
from syclsched.execution import bind
from syclsched.planner import plan_graph
from syclsched.profiling import HistoryStore, calibrate
from syclsched.profiling.statistics import median_absolute_deviation

one_core_queues()


def makespan(runner: Any, workload: Any) -> float:
    """Run a bound plan once, check its result, and return its makespan in seconds."""
    with runner.run() as run:
        run.wait()
        check = workload.check({name: run.result(name) for name in workload.results})
        assert check.ok, check.text
        return run.trace().makespan_s


def describe(name: str, plan: Any, seconds: list[float]) -> None:
    """Print one row."""
    middle = statistics.median(seconds)
    print(
        f"{name:10s} median {middle * 1e3:7.2f} ms ± {median_absolute_deviation(seconds) * 1e3:.2f}, "
        f"least {min(seconds) * 1e3:.2f}; "
        f"predicted {plan.makespan_s * 1e3:.2f} ({100 * (plan.makespan_s / middle - 1):+.1f} %)"
    )


def main() -> None:
    """Measure and print."""
    given = parser(__doc__, n=2048, tile=256, runs=15).parse_args()
    kind = workloads.get("cholesky")
    workload = kind.build(kind.options(n=given.n, tile=given.tile))
    platform = discover("cpu")
    with open_devices(with_lanes(platform, 2)) as live, HistoryStore() as history:
        calibrate(workload.graph, platform, live, history, again=True)
        plans = [
            plan_graph(workload.graph, with_lanes(platform, lanes), policy="single:cpu", history=history)
            for lanes in (1, 2)
        ]
        with ExitStack() as stack:
            runners = [stack.enter_context(bind(plan, workload.graph, live)) for plan in plans]
            for runner in runners:
                makespan(runner, workload)  # warm-up
            pairs = [[makespan(runner, workload) for runner in runners] for _ in range(given.runs)]
    one, two = ([pair[k] for pair in pairs] for k in (0, 1))
    describe("one lane", plans[0], one)
    describe("two lanes", plans[1], two)
    ratio = statistics.median(one) / statistics.median(two)
    print(f"speed-up   {ratio:.2f} (ratio of medians), {statistics.median(a / b for a, b in pairs):.2f} (of pairs)")


if __name__ == "__main__":
    main()
