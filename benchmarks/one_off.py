# SPDX-License-Identifier: Apache-2.0
"""Time of one-off runs of small tasks by step: new graphs in a warm process, with a given plan, and whole calls.

    python benchmarks/one_off.py [--tasks 1000] [--runs 9] [--kinds kernels hosts]
    python benchmarks/one_off.py --whole [--tasks 1000] [--runs 9] [--kinds kernels hosts]

Kernels do nothing, with 16 work-items and 3 arrays, on one lane of the CPU device, in a random graph; host functions do
nothing, on two lanes. The graph and its plan are new in each run; kernels were compiled by an earlier one. Microseconds
of processor time a task, medians: building the graph; ``start``, the call that verifies the plan and returns at once;
``end``, until all results are available, which includes the work of the device and other threads; ``again``, both for
the same graph and plan. ``bind`` and ``replay`` are the same run as the first one of a bound plan.

With ``--whole``, calls of `syclsched.run` until their results are available, with calibration, planning and the writes
to the history, from an empty data folder: the ``first`` of a graph, after other sizes of it, later calls of the
``same`` graph, and calls of an ``equal`` new one.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from typing import Any
from unittest import mock

import numpy as np
from common import parser, plan_by_hand, print_table
from dispatch import ITEMS, edges, graph_of

import syclsched
from syclsched import TaskGraph, discover
from syclsched.api import with_lanes
from syclsched.devices import open_devices
from syclsched.execution import bind, execute
from syclsched.execution.core.history_feed import FEED

STEPS = ("build", "start", "end", "again", "bind", "replay")
CALLS = ("first", "same", "equal")


def do_nothing(x: Any, y: Any) -> None:
    """Do nothing, as a task of the host."""


def host_graph(tasks: int) -> TaskGraph:
    """Return independent tasks of the host."""
    graph = TaskGraph("hosts")
    first = graph.array("first", (ITEMS,), "float64")
    for n in range(tasks):
        graph.host(do_nothing, name=f"t{n}", x=first.read(), y=graph.array(f"a{n}", (ITEMS,), "float64").write())
    return graph


def _run_once(plan: Any, graph: Any, devices: Any, inputs: Any) -> None:
    with execute(plan, graph, devices, inputs) as run:
        run.wait()


def _replayed(runner: Any, inputs: Any) -> None:
    runner.run(inputs).wait()


def measured(kind: str, tasks: int, runs: int, platform: Any, devices: Any) -> dict[str, list[float]]:
    """Return microseconds a task of each step, by run."""
    inputs = {"first": np.zeros(ITEMS)}
    before = edges("random", tasks)
    found: dict[str, list[float]] = {step: [] for step in STEPS}

    def timed(step: str, call: Callable[[], Any]) -> Any:
        begun_s = time.process_time()
        result = call()
        found[step].append((time.process_time() - begun_s) / tasks * 1e6)
        return result

    def new_graph() -> tuple[Any, Any]:
        graph = timed("build", lambda: graph_of(before) if kind == "kernels" else host_graph(tasks))
        places = [("cpu", 0)] if kind == "kernels" else [("host", 0), ("host", 1)]
        return plan_by_hand(graph, platform, lambda position, _: places[position % len(places)]), graph

    for _ in range(runs + 1):
        given = new_graph()
        with timed("start", partial(execute, *given, devices, inputs)) as run:
            timed("end", run.wait)
        timed("again", partial(_run_once, *given, devices, inputs))
        with timed("bind", partial(bind, *new_graph(), devices)) as runner:
            timed("replay", partial(_replayed, runner, inputs))
    return found


def whole_calls(kind: str, tasks: int, runs: int, platform: Any) -> dict[str, list[float]]:
    """Return microseconds a task of calls of `syclsched.run`, by call."""
    inputs = {"first": np.zeros(ITEMS)}
    found: dict[str, list[float]] = {call: [] for call in CALLS}

    def new_graph(count: int) -> Any:
        return graph_of(edges("random", count)) if kind == "kernels" else host_graph(count)

    def timed(call: str, graph: Any) -> None:
        begun_s = time.process_time()
        with syclsched.run(graph, platform, inputs=inputs) as run:
            run.wait()
        FEED.flush()
        found[call].append((time.process_time() - begun_s) / tasks * 1e6)

    for size in (tasks // 10, tasks // 5):
        for _ in range(3):
            timed("first", new_graph(size))
    found["first"].clear()
    graph = new_graph(tasks)
    timed("first", graph)
    for _ in range(runs):
        timed("same", graph)
        timed("equal", new_graph(tasks))
    return found


def show_whole_calls(options: Any) -> None:
    """Measure whole calls in a data folder of their own, and print."""
    rows = []
    with tempfile.TemporaryDirectory() as folder, mock.patch.dict(os.environ, XDG_DATA_HOME=folder):
        for kind in options.kinds:
            lanes = {"cpu": 1} if kind == "kernels" else {"host": 2}
            found = whole_calls(kind, options.tasks, options.runs, with_lanes(discover("cpu"), lanes))
            rows.append((kind, *(f"{statistics.median(found[call]):.1f}" for call in CALLS)))
    print_table("Microseconds of processor time a task, whole calls", ("tasks", *CALLS), rows, ("tasks",))


def main() -> None:
    """Measure and print."""
    options = parser(__doc__, tasks=1000, runs=9, kinds=["kernels", "hosts"], whole=False).parse_args()
    if options.whole:
        show_whole_calls(options)
        return
    platform = with_lanes(discover("cpu"), {"host": 2})
    with open_devices(platform) as devices:
        rows = []
        for kind in options.kinds:
            found = measured(kind, options.tasks, options.runs, platform, devices)
            rows.append((kind, *(f"{statistics.median(found[step][1:]):.1f}" for step in STEPS)))
    print_table("Microseconds of processor time a task", ("tasks", *STEPS), rows, ("tasks",))


if __name__ == "__main__":
    main()
