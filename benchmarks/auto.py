# SPDX-License-Identifier: Apache-2.0
"""Time of planning with policy ``auto`` and no budget: policies, search, rewriting and simulation.

    python benchmarks/auto.py [--tasks 100 1000 10000] [--runs 5] [--devices xeon-8480,max1550,a770,h100]

The layered graphs of planning.py, about three dependencies a task, on described devices. Prints the wall-clock seconds
of the first call in the process, and the median and least of further ones.
"""

from __future__ import annotations

import statistics
import time

from common import parser
from planning import layered

import syclsched


def main() -> None:
    """Measure and print."""
    given = parser(__doc__, tasks=[100, 1000, 10000], runs=5, devices="xeon-8480,max1550,a770,h100").parse_args()
    platform = syclsched.describe(given.devices.split(","))
    for tasks in given.tasks:
        graph = layered(tasks)
        plan, times = None, []
        for _ in range(given.runs + 1):
            begun = time.perf_counter()
            plan = syclsched.plan(graph, platform)
            times.append(time.perf_counter() - begun)
        assert plan is not None
        first, *others = times
        then = f"then {statistics.median(others):.2f} s, least {min(others):.2f} s"
        print(f"{tasks:7,d} tasks: first {first:.2f} s, {then}; {plan.policy}, {plan.makespan_s:.6f} s")


if __name__ == "__main__":
    main()
