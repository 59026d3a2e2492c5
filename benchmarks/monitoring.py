# SPDX-License-Identifier: Apache-2.0
"""Cost of monitoring: runs of a bound plan while `syclsched top` may show them and while not, in turns in one process.

    python benchmarks/monitoring.py [--n 1024] [--tile 128] [--runs 50] [--turns 10]

A turn is a number of runs of Cholesky on the CPU device one after another, each from `Runner.run` until the run has
ended; with monitoring a thread samples the lanes eight times a second and writes the status file four times a second.
"Off again" is measured like "off": their difference is noise. The lower quartile and the processor time of the whole
process are disturbed less by other programs than the median.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Mapping
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
    states = ["off", "on", "off again"]
    seconds: dict[str, list[float]] = {state: [] for state in states}
    processor_s: dict[str, list[float]] = {state: [] for state in states}
    order = random.Random(0)
    with syclsched.bind(workload.graph, syclsched.discover("cpu"), policy="single:cpu") as runner:
        for turn in range(-1, options.turns):
            for state in order.sample(states, len(states)):
                monitored: AbstractContextManager[Any] = syclsched.monitor() if state == "on" else nullcontext()
                with monitored:
                    begun_s = time.process_time()
                    found = [_seconds_of_run(runner, workload.inputs) for _ in range(options.runs)]
                    used_s = (time.process_time() - begun_s) / options.runs
                if turn >= 0:
                    seconds[state] += found
                    processor_s[state].append(used_s)
        print(f"{len(workload.graph)} tasks, {options.turns} turns of {options.runs} runs each; ms, ratio to off")
    _show("median of a run", {state: statistics.median(times) for state, times in seconds.items()})
    _show("lower quartile of a run", {state: statistics.quantiles(times)[0] for state, times in seconds.items()})
    _show("processor time of a run", {state: statistics.median(times) for state, times in processor_s.items()})


def _show(what: str, found: Mapping[str, float]) -> None:
    print(f"{what}: " + ", ".join(f"{state} {s * 1e3:.3f} ({s / found['off']:.3f})" for state, s in found.items()))


def _seconds_of_run(runner: Any, inputs: dict[str, Any]) -> float:
    begun_s = time.perf_counter()
    with runner.run(inputs) as run:
        run.wait()
        return time.perf_counter() - begun_s


if __name__ == "__main__":
    main()
