# SPDX-License-Identifier: Apache-2.0
"""Plans of tiled Cholesky factorisations for many machines: makespans, and the planner's own time and memory.

    python benchmarks/many_machines.py [--machines 16 64 256] [--tiles 38 84] [--policies heft auto] [--runs 3]
    python benchmarks/many_machines.py --everywhere
    python benchmarks/many_machines.py --scaling --picture docs/pictures/scaling.svg

Machines are described (``--device``, hardware as of `syclsched.describe`) or, with ``--device here``, the CPU device of
this machine with its stored profile. Every two of them are joined by a network of ``--gbit`` Gbit/s and 20 us. The goal
is 100,000 tasks on 256 machines of 4 devices in 10 s and 2 GB.

``--everywhere`` compares HEFT's timetables with those of HEFT that tries every task on every machine.

``--scaling`` plans one factorisation for growing numbers of machines (strong scaling) and factorisations that grow with
the number (weak scaling: as many operations a machine), and draws both, with the planner's time. Times of the planner
are processor time: one process plans.
"""

from __future__ import annotations

import resource
import statistics
import time
from collections.abc import Sequence
from dataclasses import replace
from itertools import permutations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from common import parser, repeated

import syclsched
from syclsched.cluster import NetworkPath, joined
from syclsched.cluster.planning import plan_on
from syclsched.costs import CostModel
from syclsched.costs.history import MemoryHistory
from syclsched.kernels import get
from syclsched.scheduling import build_problem
from syclsched.scheduling.problem import makespan_s
from syclsched.scheduling.registry import get as policy_of
from syclsched.scheduling.tables import frozen

LATENCY_S = 2e-5


class Planned(NamedTuple):
    """A plan's makespan, and the planner's time."""

    machines: int
    tasks: int
    makespan_s: float
    planned_s: float


def platform_of(machines: int, device: str, gbit: float) -> syclsched.Platform:
    machine = syclsched.discover("cpu") if device == "here" else syclsched.describe(device)
    names = [f"n{number}" for number in range(machines)]
    paths = [NetworkPath(*pair, LATENCY_S, gbit * 1.25e8) for pair in permutations(["host", *names], 2)]
    return joined(dict.fromkeys(names, machine), paths)


def cholesky(tiles: int, tile: int) -> syclsched.TaskGraph:
    """Return the graph of a tiled Cholesky factorisation in single precision, without data."""
    potrf, trsm, syrk, gemm = (get(name) for name in ("potrf", "trsm", "syrk", "gemm"))
    graph = syclsched.TaskGraph("cholesky")
    a = {(i, j): graph.array(f"a{i}.{j}", (tile, tile), "float32") for i in range(tiles) for j in range(i + 1)}
    for k in range(tiles):
        graph.kernel(potrf, a=a[k, k], status=graph.array(f"status{k}", (1,), "int32"))
        for i in range(k + 1, tiles):
            graph.kernel(trsm, a=a[i, k], l=a[k, k])
        for i in range(k + 1, tiles):
            graph.kernel(syrk, c=a[i, i], a=a[i, k])
            for j in range(k + 1, i):
                graph.kernel(gemm, c=a[i, j], a=a[i, k], b=a[j, k], alpha=-1.0, beta=1.0, trans_b=1)
    return graph


def measured(platform: syclsched.Platform, tiles: int, tile: int, policy: str, runs: int) -> Planned:
    """Plan a factorisation several times."""
    graph = cholesky(tiles, tile)
    plans: list[syclsched.Plan] = []
    times_s = repeated(lambda: plans.append(plan_on(graph, platform, MemoryHistory(), policy=policy)), runs)
    used = len({each.device.split("/")[0] for each in plans[-1].schedule.assignments})
    memory_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    found = Planned(used, len(graph), plans[-1].makespan_s, statistics.median(times_s))
    cells = f"{len(platform.devices)} | {len(graph):,} | {policy} | {found.planned_s:.2f}"
    print(f"| {cells} | {1e3 * found.makespan_s:.1f} | {used} | {memory_mb:,.0f} |", flush=True)
    return found


def everywhere(options: Any) -> None:
    """Compare HEFT on many machines with HEFT that tries each task on all devices."""
    print("| machines | tasks | HEFT, ms | s | on all machines, ms | s | ratio |\n|---:|---:|---:|---:|---:|---:|---:|")
    for machines in options.machines:
        platform = platform_of(machines, options.device, options.gbit)
        for tiles in options.tiles:
            graph = cholesky(tiles, options.tile)
            problem = build_problem(graph, platform, CostModel(platform, MemoryHistory()))
            one_machine = np.array([0, len(problem.devices)])
            whole = replace(problem, tables=frozen(problem.tables._replace(machine_start=one_machine)))
            found_ms, took_s = [], []
            for each in (problem, whole):
                begun_s = time.process_time()
                timetable = policy_of("heft").schedule(each)
                took_s.append(time.process_time() - begun_s)
                found_ms.append(1e3 * makespan_s(each, timetable))
            times = f"{found_ms[0]:.1f} | {took_s[0]:.2f} | {found_ms[1]:.1f} | {took_s[1]:.2f}"
            print(f"| {machines} | {len(graph):,} | {times} | {found_ms[0] / found_ms[1]:.3f} |", flush=True)


def scaling(options: Any) -> None:
    """Plan for growing numbers of machines, and draw the makespans and the planner's times."""
    strong: list[Planned] = []
    weak: list[Planned] = []
    for machines in options.machines:
        platform = platform_of(machines, options.device, options.gbit)
        strong.append(measured(platform, options.tiles[0], options.tile, options.policies[0], options.runs))
        grown = round(options.weak_tiles * machines ** (1 / 3))
        weak.append(measured(platform, grown, options.tile, options.policies[0], options.runs))
    if options.picture:
        draw(options.machines, strong, weak, options.picture)


def draw(machines: Sequence[int], strong: Sequence[Planned], weak: Sequence[Planned], path: str) -> None:
    """Draw the makespans and the planner's times over the number of machines."""
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(9, 3.4), constrained_layout=True)
    first = strong[0].makespan_s * machines[0]
    left.loglog(machines, [1e3 * first / m for m in machines], ":", color="0.6", label="strong, ideal")
    for label, found, mark in (("strong", strong, "o-"), ("weak", weak, "s-")):
        sizes = f"{found[0].tasks:,}" if found is strong else f"{found[0].tasks:,} to {found[-1].tasks:,}"
        left.loglog(machines, [1e3 * each.makespan_s for each in found], mark, label=f"{label}: {sizes} tasks")
        right.loglog(machines, [each.planned_s for each in found], mark, label=label)
    left.set(xlabel="machines", ylabel="makespan of the plan, ms")
    right.set(xlabel="machines", ylabel="processor time of the planner, s")
    for axes in (left, right):
        axes.set_xticks(machines, [str(m) for m in machines])
        axes.minorticks_off()
        axes.grid(alpha=0.3)
        axes.legend(frameon=False)
    figure.savefig(Path(path), metadata={"Date": None})


def main() -> None:
    options = parser(
        __doc__,
        machines=[16, 64, 256],
        tiles=[38, 84],
        tile=512,
        weak_tiles=8,
        policies=["heft", "auto"],
        device="xeon-8480,max1550,a770",
        gbit=100.0,
        runs=3,
        scaling=False,
        everywhere=False,
        picture="",
    ).parse_args()
    if options.everywhere:
        everywhere(options)
        return
    print("| devices | tasks | policy | planner, s | makespan, ms | machines used | peak so far, MB |")
    print("|---:|---:|---|---:|---:|---:|---:|")
    if options.scaling:
        scaling(options)
        return
    for machines in options.machines:
        platform = platform_of(machines, options.device, options.gbit)
        for tiles in options.tiles:
            for policy in options.policies:
                measured(platform, tiles, options.tile, policy, options.runs)


if __name__ == "__main__":
    main()
