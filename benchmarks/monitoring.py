# SPDX-License-Identifier: Apache-2.0
"""Cost of monitoring: runs of a bound plan while `syclsched top` may show them and while not, in turns in one process.

    python benchmarks/monitoring.py [--n 1024] [--tile 128] [--runs 50] [--turns 10]

A turn is so many runs of Cholesky on the CPU device one after another, from `Runner.run` until the run has ended; with
monitoring a thread samples the lanes eight times a second and writes the status file four times a second. Besides the
time of a run the processor time of the whole process is compared, which other programs of the machine disturb less.
"""

from __future__ import annotations

import statistics
import time
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from common import parser

import syclsched
from syclsched.workloads import get


def main() -> None:
    """Time both, and print medians and ratios."""
    options = parser(__doc__, n=1024, tile=128, runs=50, turns=10).parse_args()
    kind = get("cholesky")
    workload = kind.build(kind.options(n=options.n, tile=options.tile))
    seconds: dict[str, list[float]] = {"off": [], "on": []}
    processor_s: dict[str, list[float]] = {"off": [], "on": []}
    with syclsched.bind(workload.graph, syclsched.discover("cpu"), policy="single:cpu") as runner:
        for turn in range(-1, options.turns):
            for state in ("off", "on") if turn % 2 else ("on", "off"):
                monitored: AbstractContextManager[Any] = syclsched.monitor() if state == "on" else nullcontext()
                with monitored:
                    begun_s = time.process_time()
                    found = [_seconds_of_run(runner, workload.inputs) for _ in range(options.runs)]
                    used_s = (time.process_time() - begun_s) / options.runs
                if turn >= 0:
                    seconds[state] += found
                    processor_s[state].append(used_s)
        print(f"{runner.plan.policy}, {options.turns} turns of {options.runs} runs each")
    for name, times in (("time of a run", seconds), ("processor time of a run", processor_s)):
        off, on = (statistics.median(times[state]) for state in ("off", "on"))
        print(f"{name}: off {off * 1e3:.3f} ms, on {on * 1e3:.3f} ms (medians), ratio {on / off:.3f}")


def _seconds_of_run(runner: Any, inputs: dict[str, Any]) -> float:
    begun_s = time.perf_counter()
    with runner.run(inputs) as run:
        run.wait()
        return time.perf_counter() - begun_s


if __name__ == "__main__":
    main()
