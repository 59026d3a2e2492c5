# SPDX-License-Identifier: Apache-2.0
"""A fault at every point of a run, one after another; each result is compared with the sequential one, bit for bit.

Usage: ``python benchmarks/recovery.py [--tasks 200] [--every 1] [--dynamic dmdas]``. Ends with 1 if a run failed, or a
bit was wrong.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from common import parser

import syclsched
from syclsched.devices import open_devices
from syclsched.execution import Run, execute
from syclsched.execution.dynamic import run_dynamically
from syclsched.kernels import get
from syclsched.testing import faults


def coupled_updates(tasks: int, width: int = 8) -> syclsched.TaskGraph:
    """Return arrays written in place that read each other, on integers in floating point: all bits must be equal."""
    graph = syclsched.TaskGraph("coupled updates")
    arrays = [graph.array(f"x{n}", data=np.arange(64.0) + n) for n in range(width)]
    for index in range(tasks):
        mine, other = arrays[index % width], arrays[(index * 3 + 1) % width]
        if mine is other:
            other = arrays[(index + 1) % width]
        graph.kernel(get("axpy"), name=f"t{index}", alpha=float(index % 3 - 1), x=other, y=mine)
    return graph


def expected(graph: syclsched.TaskGraph) -> dict[str, Any]:
    values = {name: np.array(value) for name, value in graph.data.items()}
    for task in graph.tasks:
        alpha = task.signature.scalars["alpha"]
        values[task.arguments["y"]] += alpha * values[task.arguments["x"]]
    return values


def main() -> None:
    options = parser(__doc__, tasks=200)
    options.add_argument("--every", type=int, default=1, help="fail only every n-th point")
    options.add_argument("--dynamic", help="decide while tasks run, under this policy, instead of following a plan")
    arguments = options.parse_args()
    graph = coupled_updates(arguments.tasks)
    right = expected(graph)
    platform = syclsched.discover(sub_devices=2, lanes=1)
    plan = syclsched.plan(graph, platform, policy="round-robin")
    kinds: dict[str, tuple[Any, Callable[[int], faults.Fault]]] = {
        "submission refused": ("submission", faults.fail_submission),
        "failed on its device": ("submission", faults.fail_on_device),
        "failed, though done": ("submission", lambda n: faults.fail_on_device(n, done=True)),
        "copy refused": ("copy", faults.fail_copy),
        "no memory": ("allocation", faults.fail_allocation),
        **{
            f"{device.name} lost": ("submission", lambda n, name=device.name: faults.lose(name, after=n - 1))
            for device in platform.compute_devices
        },
    }
    print(f"{arguments.tasks} tasks on {', '.join(d.name for d in platform.compute_devices)}")
    wrong: list[str] = []

    def start(recover: bool) -> Run:
        if arguments.dynamic is None:
            return execute(plan, graph, live, recover=recover)
        followed = plan if arguments.dynamic == "hybrid" else None
        return run_dynamically(graph, live, arguments.dynamic, plan=followed, learn=False, recover=recover)

    with open_devices(platform) as live:
        with faults.inject() as seen, start(False) as run:
            run.wait(60)
        heads = ("points", "same bits", "recovered", "redone", "median ms", "most ms")
        print(f"{'fault':24}", *(f"{head:>9}" for head in heads))
        for kind, (point, make) in kinds.items():
            device = kind.removesuffix(" lost") if kind.endswith(" lost") else None
            numbers = range(1, seen.passed(point, device) + 1, arguments.every)
            same = recovered = redone = 0
            took = []
            for number in numbers:
                begun = time.perf_counter()
                try:
                    with faults.inject(make(number)), start(True) as run:
                        run.wait(120)
                        took.append(1e3 * (time.perf_counter() - begun))
                        if all(np.array_equal(run.result(name), value) for name, value in right.items()):
                            same += 1
                        else:
                            wrong.append(f"{kind} {number}: wrong bits")
                        recovered += bool(run.recoveries)
                        redone += sum(len(recovery.redone) for recovery in run.recoveries)
                except syclsched.SyclschedError as error:
                    wrong.append(f"{kind} {number}: {error}")
            print(
                f"{kind:24} {len(numbers):9} {same:9} {recovered:9} {redone:9} "
                f"{statistics.median(took or [0.0]):9.1f} {max(took, default=0.0):9.1f}"
            )
    print(*wrong, sep="\n")
    raise SystemExit(bool(wrong))


if __name__ == "__main__":
    main()
