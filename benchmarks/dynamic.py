# SPDX-License-Identifier: Apache-2.0
"""Overhead of a task under a dynamic policy, compared with rivals; and the gain of hybrid scheduling with wrong costs.

    python benchmarks/dynamic.py [--tasks 2000] [--runs 9] [--part overhead|spaces|hybrid] [--width 8] [--size 30]
        [--wrong kernel|task] [--off either|up-to] [--turns 1000000] [--repeats 5]

Overhead: a stencil of empty kernels on two one-core lanes of the CPU device. The engine's share is the processor time
of its thread from the first task to the last (decisions, dependencies, polls, submission), by task; beside it the time
of the whole loop. Rivals: a replay of a plan made beforehand, Python's thread pool with futures, and Dask's threads
where Dask is installed, with functions that do nothing.

Spaces: a stencil of kernels that do nothing, on the CPU device and the FPGA emulator, which are separate contexts, so
that each column's neighbours on the other device are copied. For comparison, a replay of the plan of the last
run: the same submissions and copies, known beforehand. A device has all cores here (run this part alone).

Hybrid: stages of kernels that spin, each after all of the stage before, on two one-core lanes; the planner uses costs
that are three times too high or too low (or up to that, log-uniform), at random for each task, or for each kernel, of
which every stage has one task. A plan made with these is followed unchanged, or left by the hybrid's rule and planned
anew; for comparison, a plan from the true costs, followed unchanged. All use the same engine, one after the other,
repeated --repeats times; a graph's makespans are medians. The table also has the virtual clock's makespan of the static
plan, and the ratio of measured and predicted makespan of the plan from true costs: where that is far from 1, the
machine does not behave as plans assume, and the other numbers mean little.
"""

from __future__ import annotations

import argparse
import importlib.util
import statistics
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any

import numpy as np
from common import format_range, one_core_queues, opencl_operation, parser, seconds

from syclsched import TaskGraph, discover
from syclsched.api import with_lanes
from syclsched.costs import CostModel
from syclsched.devices import open_devices
from syclsched.execution import bind
from syclsched.execution.dynamic import execute_dynamic, policy_by_name
from syclsched.planner import plan_graph
from syclsched.scheduling import build_problem
from syclsched.scheduling.dynamic import Hybrid, run_dynamic
from syclsched.scheduling.policies.heft import Heft
from syclsched.scheduling.problem import makespan_s

WIDTH = 8
SOURCE = """
__kernel void nothing(__global double *out, __global const double *before) { }
__kernel void nothing3(__global double *out, __global const double *l, __global const double *m,
                       __global const double *r) { }
__kernel void spin(__global double *out, __global const double *left, __global const double *up, long turns) {
    double x = left[0] + up[0];
    for (long i = 0; i < turns; ++i)
        x = x * 0.999999 + 1e-6;
    out[0] = x;
}
"""


def stencil(tasks: int) -> list[list[int]]:
    """Return the predecessors of each task of a stencil."""
    found = []
    for task in range(tasks):
        step, place = divmod(task, WIDTH)
        near = (place - 1, place, place + 1)
        found.append([(step - 1) * WIDTH + p for p in near if 0 <= p < WIDTH] if step else [])
    return found


def empty_graph(before: list[list[int]]) -> Any:
    """Return the stencil as a graph of kernels that do nothing, on two arrays for each column."""
    operation = opencl_operation("nothing", SOURCE, writes="out", reads="before")
    graph = TaskGraph("stencil")
    arrays = [[graph.array(f"a{p}_{k}", data=np.zeros(1)) for k in range(2)] for p in range(WIDTH)]
    for task, waits in enumerate(before):
        step, place = divmod(task, WIDTH)
        out, source = arrays[place][step % 2], arrays[place][(step + 1) % 2]
        graph.kernel(operation, name=f"t{task}", out=out, before=source)
        for other in waits:
            if other % WIDTH != place:
                graph.edge(f"t{other}", f"t{task}")
    return graph


def spread_graph(tasks: int) -> Any:
    """Return a stencil of kernels that do nothing, whose tasks read the results of their neighbours."""
    operation = opencl_operation("nothing3", SOURCE, writes="out", reads="l m r")
    graph = TaskGraph("stencil")
    arrays = [[graph.array(f"a{p}_{k}", data=np.zeros(1)) for k in range(2)] for p in range(WIDTH)]
    for task in range(tasks):
        step, place = divmod(task, WIDTH)
        left, middle, right = (arrays[min(max(place + n, 0), WIDTH - 1)][(step + 1) % 2] for n in (-1, 0, 1))
        graph.kernel(operation, name=f"t{task}", out=arrays[place][step % 2], l=left, m=middle, r=right)
    return graph


def spaces(live: Any, tasks: int, runs: int) -> None:
    """Measure and print the cost of an empty task whose data has to be copied."""
    graph = spread_graph(tasks)
    problem = build_problem(graph, live.platform, CostModel(live.platform, None))
    policies: dict[str, Any] = {name: policy_by_name(name) for name in ("eager", "priority", "dmdas", "stealing")}
    policies["hybrid"] = Hybrid(Heft().schedule(problem))
    print(f"stencil of {tasks} empty tasks on {len(live.platform.spaces) - 1} spaces, microseconds a task:", end=" ")
    print(f"median (least to most) of {runs}")
    heads = ("engine, processor", "of it submitting", "first task to last", "its replay")
    print(" " * 10, *[f"{head:>26s}" for head in heads], f"{'copies a task':>14s}")
    for name, policy in policies.items():
        engine_us, submitting_us, whole_us, replay_us, copies = [], [], [], [], []
        for turn in range(runs + 1):
            with execute_dynamic(graph, problem, live, policy, trace=False) as run:
                run.wait()
                counts, plan = run.counts, run.plan
            if turn:
                engine_us.append(counts.dispatch_ns / tasks * 1e-3)
                submitting_us.append(counts.submission_ns / tasks * 1e-3)
                whole_us.append(counts.loop_ns / tasks * 1e-3)
                copies.append(plan.counters.copies / tasks)
        with bind(plan, graph, live, trace=False) as runner:
            for turn in range(runs + 1):
                replay_us += [seconds(lambda: runner.run().wait()) / tasks * 1e6] if turn else []
        rows = " ".join([f"{format_range(each):>26s}" for each in (engine_us, submitting_us, whole_us, replay_us)])
        print(f"{name:10s} {rows} {statistics.median(copies):14.2f}")


def with_threads(before: list[list[int]]) -> float:
    """Return the seconds of a thread pool in which each task is submitted when those before it have ended."""
    left = [len(waits) for waits in before]
    after: list[list[int]] = [[] for _ in before]
    for task, waits in enumerate(before):
        for other in waits:
            after[other].append(task)
    ended: Future[None] = Future()
    done = iter(range(len(before) - 1, -1, -1))

    def run(task: int) -> None:
        for other in after[task]:
            with locks[other]:
                left[other] -= 1
                free = left[other] == 0
            if free:
                pool.submit(run, other)
        if next(done) == 0:
            ended.set_result(None)

    locks = [threading.Lock() for _ in before]
    sources = [task for task, waits in enumerate(before) if not waits]
    with ThreadPoolExecutor(2) as pool:
        begun = time.perf_counter()
        for task in sources:
            pool.submit(run, task)
        wait([ended])
        return time.perf_counter() - begun


def with_dask(before: list[list[int]]) -> float:
    """Return the seconds of Dask's threaded scheduler."""
    from dask.threaded import get

    graph = {f"t{task}": (_nothing, [f"t{w}" for w in waits]) for task, waits in enumerate(before)}
    last = [f"t{len(before) - 1 - k}" for k in range(WIDTH)]
    return seconds(lambda: get(graph, last, num_workers=2))


def _nothing(_: Any) -> int:
    return 0


def overhead(live: Any, tasks: int, runs: int) -> None:
    """Measure and print the cost of an empty task."""
    before = stencil(tasks)
    graph = empty_graph(before)
    problem = build_problem(graph, live.platform, CostModel(live.platform, None))
    plan = Heft().schedule(problem)
    policies: dict[str, Any] = {name: policy_by_name(name) for name in ("eager", "priority", "dmdas", "stealing")}
    policies["hybrid"] = Hybrid(plan)
    engine_us: dict[str, list[float]] = {name: [] for name in policies}
    whole_us: dict[str, list[float]] = {name: [] for name in (*policies, "replay", "thread pool", "Dask threads")}
    dask = importlib.util.find_spec("dask") is not None
    with bind(plan_graph(graph, live.platform, policy="heft"), graph, live, trace=False) as runner:
        for turn in range(runs + 1):
            for name, policy in policies.items():
                with execute_dynamic(graph, problem, live, policy, trace=False) as run:
                    run.wait()
                    counts = run.counts
                if turn:
                    engine_us[name].append(counts.dispatch_ns / tasks * 1e-3)
                    whole_us[name].append(counts.loop_ns / tasks * 1e-3)
            rivals = {"replay": seconds(lambda: runner.run().wait()), "thread pool": with_threads(before)}
            if dask:
                rivals["Dask threads"] = with_dask(before)
            for name, taken_s in rivals.items():
                if turn:
                    whole_us[name].append(taken_s / tasks * 1e6)
    print(f"stencil of {tasks} empty tasks, microseconds a task: median (least to most) of {runs}")
    print(f"{'':14s} {'engine, processor':>26s} {'first task to last':>26s}")
    for name, values in whole_us.items():
        if values:
            print(f"{name:14s} {format_range(engine_us.get(name, [])):>26s} {format_range(values):>26s}")


def hybrid(live: Any, given: argparse.Namespace) -> None:
    """Measure and print makespans with wrong costs."""
    operation = opencl_operation("spin", SOURCE, writes="out", reads="left up", scalars="turns")

    def graph_of(works: Any) -> Any:
        graph = TaskGraph("stages")
        edges = [graph.array(name, data=np.zeros(1)) for name in ("west", "north")]
        for i, row in enumerate(works):
            if i:
                graph.barrier(name=f"stage{i}")
            for j, each in enumerate(row):
                out = graph.array(f"c{i}_{j}", (1,), "float64")
                graph.kernel(operation, name=f"t{i}_{j}", out=out, left=edges[0], up=edges[1], turns=int(each))
        return graph

    size, width = given.size, given.width
    per_turn_s = _seconds_of_a_turn(graph_of, live, size, given.turns)
    ratios: dict[str, list[float]] = {name: [] for name in ("truth/predicted", "static/truth", "hybrid/truth")}
    simulated: list[float] = []
    replanned = []
    for seed in range(given.runs):
        generator = np.random.default_rng(seed)
        shape = (1 if given.wrong == "kernel" else size, width)
        works = given.turns * generator.uniform(0.3, 1.7, shape) * np.ones((size, 1))
        either = given.off == "either"
        power = generator.choice([-1.0, 1.0], shape) if either else generator.uniform(-1.0, 1.0, shape)
        off = 3.0**power * np.ones((size, 1))
        graph = graph_of(works)
        problem = build_problem(graph, live.platform, CostModel(live.platform, None))
        places = {f"t{i}_{j}": (i, j) for i in range(size) for j in range(width)}
        order = np.array([works[places[name]] if name in places else 0.0 for name in problem.names])
        factor = np.array([off[places[name]] if name in places else 1.0 for name in problem.names])
        true_s = np.where(np.isfinite(problem.tables.task_seconds()), order[:, None] * per_turn_s, np.inf)
        true = problem.with_task_seconds(true_s)
        wrong_s = true_s * factor[:, None]
        wrong = problem.with_task_seconds(wrong_s)
        known, mistaken = Heft().schedule(true), Heft().schedule(wrong)
        ways = {
            "truth": (true, Hybrid(known, bound=np.inf)),
            "static": (wrong, Hybrid(mistaken, bound=np.inf)),
            "hybrid": (wrong, Hybrid(mistaken)),
        }
        taken: dict[str, list[float]] = {name: [] for name in ways}
        for turn in range(given.repeats + 1):
            for name, (believed, policy) in ways.items():
                with execute_dynamic(graph, believed, live, policy, trace=False) as run:
                    run.wait()
                    if turn:
                        taken[name].append(run.counts.loop_ns * 1e-9)
                        replanned += [run.counts.replanned] if name == "hybrid" else []
        taken_s = {name: statistics.median(values) for name, values in taken.items()}
        predicted_s = makespan_s(true, known)
        ratios["truth/predicted"].append(taken_s["truth"] / predicted_s)
        ratios["static/truth"].append(taken_s["static"] / taken_s["truth"])
        ratios["hybrid/truth"].append(taken_s["hybrid"] / taken_s["truth"])
        followed = run_dynamic(true, ways["static"][1], estimated_s=wrong_s).timetable
        simulated.append(makespan_s(true, followed) / predicted_s)
    print(
        f"{size} stages of {width} tasks, costs of each {given.wrong} wrong; {given.runs} graphs, {given.repeats} runs"
    )
    print(f"{'':28s} median   quartiles      least to most; by seed")
    for name, values in {**ratios, "static/truth, virtual clock": simulated}.items():
        low, _, high = statistics.quantiles(values, n=4)
        spread = f"{low:.2f} to {high:.2f}   {min(values):.2f} to {max(values):.2f}"
        print(f"{name:28s} {statistics.median(values):6.2f}   {spread}; {' '.join(f'{v:.2f}' for v in values)}")
    print(f"planned anew {statistics.median(replanned):g} times a run ({min(replanned)} to {max(replanned)})")


def _seconds_of_a_turn(graph_of: Callable[..., Any], live: Any, size: int, turns: int) -> float:
    """Return the time of one turn of the kernel's loop on one lane, alone."""
    graph = graph_of(np.full((size, 4), turns))
    problem = build_problem(graph, live.platform, CostModel(live.platform, None))
    with execute_dynamic(graph, problem, live, policy_by_name("eager")) as run:
        run.wait()
        spans = [s.duration_s for s in run.trace().spans if s.kind == "launch"]
    return statistics.median(spans) / turns


def main() -> None:
    """Measure and print."""
    options = parser(__doc__, tasks=2000, runs=9)
    options.add_argument("--size", type=int, default=30, help="Number of stages.")
    options.add_argument("--width", type=int, default=8, help="Tasks of a stage.")
    options.add_argument("--wrong", choices=("kernel", "task"), default="kernel", help="Of what costs are wrong.")
    options.add_argument("--off", choices=("either", "up-to"), default="either", help="Three times, or up to that.")
    options.add_argument("--turns", type=int, default=2_000_000, help="Of the loop in the hybrid's kernels.")
    options.add_argument("--repeats", type=int, default=5, help="Runs of each way on each of the hybrid's graphs.")
    options.add_argument("--part", choices=("overhead", "spaces", "hybrid"))
    given = options.parse_args()
    if given.part != "spaces":
        one_core_queues()
    if given.part == "spaces":
        with open_devices(discover()) as live:
            spaces(live, given.tasks, given.runs)
        return
    with open_devices(with_lanes(discover("cpu"), 2)) as live:
        if given.part != "hybrid":
            overhead(live, given.tasks, given.runs)
        if given.part != "overhead":
            hybrid(live, given)


if __name__ == "__main__":
    main()
