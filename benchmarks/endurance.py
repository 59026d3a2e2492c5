# SPDX-License-Identifier: Apache-2.0
"""Runs of a bound plan with new data, many times: growth of the memory of the process and the runtime.

``python benchmarks/endurance.py`` does 10,000 runs of a graph of 200 tasks on two lanes of each device and prints, at
ten points, resident memory, USM bytes in use and reserved, threads and open files. Anything that grows with the runs
leaks. The slope is that of a straight line through the second half of the points (least squares).
"""

from __future__ import annotations

import gc
import json
import os
import statistics
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
from common import parser, resident_bytes

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from support.running import DTYPE, MIX, plan_by, sequential

from syclsched.api import with_lanes
from syclsched.devices import discover, open_devices
from syclsched.execution import bind
from syclsched.execution.runner import bound_plan
from syclsched.model.graph import TaskGraph


def make_graph(tasks: int, size: int) -> TaskGraph:
    """Return a graph of crossing chains."""
    graph = TaskGraph("endurance")
    arrays = [graph.array(f"a{i}", (size,), DTYPE) for i in range(8)]
    for index in range(tasks):
        x, y = arrays[index % 8], arrays[(index * 3 + 1) % 8]
        if x is y:
            y = arrays[(index + 1) % 8]
        graph.kernel(MIX, name=f"t{index}", x=x, y=y, a=index % 5 - 2)
    return graph


def sample(live: Any) -> dict[str, float]:
    """Return the resources in use."""
    gc.collect()
    pools = list(live.memory().values())
    return {
        "resident_bytes": resident_bytes(),
        "usm_in_use_bytes": sum(p.in_use_bytes for p in pools),
        "usm_reserved_bytes": sum(p.reserved_bytes for p in pools),
        "threads": threading.active_count(),
        "files": len(os.listdir("/proc/self/fd")),
    }


def main() -> None:
    """Run, and print the resources in use."""
    options = parser(__doc__, runs=10_000, tasks=200, json=False)
    options.add_argument("--size", type=int, default=256, help="elements of each array")
    options.add_argument("--devices", default="cpu", help="which, as for `syclsched run`")
    options.add_argument("--hosted", action="store_true", help="with a task on the host")
    options.add_argument("--dispatched", action="store_true", help="with a task on the host, and not replayed")
    given = options.parse_args()

    graph = make_graph(given.tasks, given.size)
    if given.hosted or given.dispatched:
        first = graph.arrays["a0"]
        graph.host(lambda a0: None, a0=first.update(), name="on the host")
    platform = with_lanes(discover(selector=given.devices), 2)
    names = [d.name for d in platform.compute_devices]

    def place(name: str) -> tuple[str, int, str | None]:
        if not name.startswith("t"):
            return "host", 0, graph.find_task(name).operation.implementations[0].name  # type: ignore[union-attr]
        index = int(name[1:])
        return names[index % len(names)], index // len(names) % 2, "opencl-c"

    if given.dispatched:
        bound_plan.why_not_replayed = lambda *_: "not in this benchmark"  # type: ignore[assignment]
    random = np.random.default_rng(0)
    samples: list[dict[str, float]] = []
    with open_devices(platform) as live, bind(plan_by(graph, platform, place), graph, live) as runner:
        begun_s = time.perf_counter()
        for number in range(given.runs):
            inputs = {name: random.integers(-9, 9, given.size, dtype=DTYPE) for name in graph.inputs()}
            results = runner(inputs)
            if number % max(1, given.runs // 20) == 0:
                expected = sequential(graph, inputs)
                for name, value in results.items():
                    np.testing.assert_array_equal(value, expected[name])
                samples.append({"run": number, "seconds": time.perf_counter() - begun_s, **sample(live)})
        samples.append({"run": given.runs, "seconds": time.perf_counter() - begun_s, **sample(live)})
        replayed = runner.replayed
    late = samples[len(samples) // 2 :]
    slope = statistics.linear_regression([s["run"] for s in late], [s["resident_bytes"] for s in late]).slope
    summary = {"replayed": replayed, "resident_bytes_per_run": slope, "samples": samples}
    if given.json:
        print(json.dumps(summary, indent=1))
        return
    print(f"{given.runs} runs of {given.tasks} tasks on {', '.join(names)}, {'replayed' if replayed else 'dispatched'}")
    print(f"{'run':>8} {'s':>8} {'resident MiB':>13} {'USM MiB':>9} {'reserved MiB':>13} {'threads':>8} {'files':>6}")
    for s in samples[::2]:
        print(
            f"{s['run']:8.0f} {s['seconds']:8.1f} {s['resident_bytes'] / 2**20:13.2f} "
            f"{s['usm_in_use_bytes'] / 2**20:9.3f} {s['usm_reserved_bytes'] / 2**20:13.3f} {s['threads']:8.0f} "
            f"{s['files']:6.0f}"
        )
    print(f"growth of resident memory in the second half: {slope:.1f} bytes a run")


if __name__ == "__main__":
    main()
