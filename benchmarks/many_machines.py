# SPDX-License-Identifier: Apache-2.0
"""Plans tiled Cholesky factorisations on many machines, each a GPU and its host, over a network.

Usage: ``python benchmarks/many_machines.py [--machines 16 64] [--tiles 20 38] [--policies heft auto]``. The goal is
100,000 tasks on 256 machines of 4 devices in 10 s and 2 GB.
"""

from __future__ import annotations

import resource
import statistics
import time
from itertools import permutations

from common import parser, repeated

import syclsched
from syclsched.cluster import NetworkPath, joined
from syclsched.cluster.planning import plan_on
from syclsched.costs.history import MemoryHistory
from syclsched.workloads import get

TILE = 64


def platform_of(machines: int) -> syclsched.Platform:
    names = [f"n{number}" for number in range(machines)]
    pairs = permutations(["host", *names], 2)
    paths = [NetworkPath(*pair, latency_s=1e-4, bandwidth_bytes_per_s=1.2e9) for pair in pairs]
    return joined(dict.fromkeys(names, syclsched.describe("max1550")), paths)


def measured(graph: syclsched.TaskGraph, platform: syclsched.Platform, policy: str, runs: int) -> tuple[float, float]:
    """Return the median seconds of planning, and the makespan in milliseconds."""
    plans: list[syclsched.Plan] = []
    times_s = repeated(
        lambda: plans.append(plan_on(graph, platform, MemoryHistory(), policy=policy)), runs, time.perf_counter
    )
    return statistics.median(times_s), 1e3 * plans[-1].makespan_s


def main() -> None:
    options = parser(__doc__, machines=[16, 64, 128], tiles=[20, 38], policies=["heft", "auto"], runs=3).parse_args()
    kind = get("cholesky")
    print("| machines | devices | tasks | policy | platform, s | plan, s | makespan, ms | peak so far, MB |")
    print("|---:" * 3 + "|---" + "|---:" * 4 + "|")
    for machines in options.machines:
        begun_s = time.perf_counter()
        platform = platform_of(machines)
        made_s = time.perf_counter() - begun_s
        for tiles in options.tiles:
            graph = kind.build(kind.options(n=tiles * TILE, tile=TILE)).graph
            for policy in options.policies:
                planned_s, makespan_ms = measured(graph, platform, policy, options.runs)
                memory_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
                what = f"{machines} | {len(platform.devices)} | {len(graph):,} | {policy} | {made_s:.2f}"
                print(f"| {what} | {planned_s:.2f} | {makespan_ms:.1f} | {memory_mb:,.0f} |", flush=True)


if __name__ == "__main__":
    main()
