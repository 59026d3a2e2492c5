# SPDX-License-Identifier: Apache-2.0
"""Graphs on the workers of a Dask cluster: our plans beside Dask's own scheduler, on the same workers, in turns.

    python benchmarks/cluster.py [--workers 2] [--runs 7] [--n 2048] [--tiles 128 256 512]

The workers are processes of this machine, each on a core of its own. Both sides compute with NumPy and SciPy on one
thread: *small tasks* are Python functions of 100 us in as many chains as there are workers, *Cholesky* is the tiled
factorisation. Ours is bound once and called; Dask's graph is built and computed anew in each run, with its inputs on
the workers. Each number is the median over the runs, with the least and the largest; ratios are those of the medians.
The time a task is what a run takes beyond the functions themselves, for each task.
"""

from __future__ import annotations

import statistics
import time
from typing import Any

import numpy as np
from common import Call, alternating, median_and_range, parser
from scipy.linalg import cholesky as factor
from scipy.linalg import solve_triangular

import syclsched

#: Length of a small task, and number of all of them.
SPIN_S = 1e-4
TASKS = 2000


def spin(x: Any) -> None:
    """Compute for the length of a small task, and count it."""
    end = time.perf_counter() + SPIN_S
    while time.perf_counter() < end:
        pass
    x += 1.0


def spun(x: Any) -> Any:
    """Do the same for Dask, which passes values on."""
    end = time.perf_counter() + SPIN_S
    while time.perf_counter() < end:
        pass
    return x + 1.0


def potrf(a: Any) -> None:
    a[...] = factor(a, lower=True, check_finite=False)


def trsm(b: Any, a: Any) -> None:
    b[...] = solve_triangular(a, b.T, lower=True, check_finite=False).T


def update(c: Any, a: Any, b: Any) -> None:
    c -= a @ b.T


def potrf_of(a: Any) -> Any:
    return factor(a, lower=True, check_finite=False)


def trsm_of(b: Any, a: Any) -> Any:
    return solve_triangular(a, b.T, lower=True, check_finite=False).T


def updated(c: Any, a: Any, b: Any) -> Any:
    return c - a @ b.T


def row(title: str, calls: dict[str, Call], runs: int, alone_s: float = 0.0, tasks: int = 0) -> None:
    """Measure two calls in turns, and print one line of the table."""
    times = alternating(calls, runs)
    middle = {name: statistics.median(found) for name, found in times.items()}
    cells = [median_and_range([1e3 * each for each in found], 1, 0) for found in times.values()]
    each = [f"{(middle[name] - alone_s) / tasks * 1e6:.0f}" for name in times if tasks]
    print(f"| {title} | {' | '.join(cells)} | {middle['ours'] / middle['Dask']:.2f} | {' / '.join(each)} |")


def small_tasks(cluster: syclsched.cluster.Cluster, workers: int, runs: int) -> None:
    """Measure chains of small tasks."""
    from dask import delayed

    graph = syclsched.TaskGraph("small")
    chains = [graph.array(f"x{c}", data=np.zeros(1)) for c in range(workers)]
    for step in range(TASKS // workers):
        for c, x in enumerate(chains):
            graph.host(spin, name=f"t{c}.{step}", pure=True, flops=1.0, x=x.update())
    step_of = delayed(spun, pure=False)

    def dask() -> Any:
        values = [delayed(np.zeros(1)) for _ in chains]
        for _ in range(TASKS // workers):
            values = [step_of(value) for value in values]
        return cluster.client.gather(cluster.client.compute(values))

    with cluster.bind(graph) as runner:
        found = runner()
        assert all(found[f"x{c}"][0] == TASKS // workers for c in range(workers))
        used = len({a.device.split("/")[0] for a in runner.plan.schedule.assignments})
        title = f"{TASKS} tasks of 100 us ({used} of {workers} workers)"
        row(title, {"ours": lambda: runner(), "Dask": dask}, runs, SPIN_S * TASKS / workers, TASKS)


def tiled(cluster: syclsched.cluster.Cluster, workers: int, n: int, tile: int, runs: int) -> None:
    """Measure the tiled Cholesky factorisation."""
    from dask import delayed
    from distributed import wait

    rng = np.random.default_rng(0)
    root = rng.standard_normal((n, n))
    matrix, count = root @ root.T + n * np.eye(n), n // tile
    tiles = {
        (i, j): np.ascontiguousarray(matrix[i * tile : (i + 1) * tile, j * tile : (j + 1) * tile])
        for i in range(count)
        for j in range(i + 1)
    }
    graph = syclsched.TaskGraph(f"cholesky{tile}")
    a = {at: graph.array(f"a{at[0]}.{at[1]}", data=value) for at, value in tiles.items()}
    for k in range(count):
        graph.host(potrf, pure=True, flops=tile**3 / 3, a=a[k, k].update())
        for i in range(k + 1, count):
            graph.host(trsm, pure=True, flops=tile**3, b=a[i, k].update(), a=a[k, k].read())
        for i in range(k + 1, count):
            for j in range(k + 1, i + 1):
                graph.host(update, pure=True, flops=2 * tile**3, c=a[i, j].update(), a=a[i, k].read(), b=a[j, k].read())
    held = cluster.client.scatter(tiles)
    chol, solve, subtract = (delayed(each, pure=False) for each in (potrf_of, trsm_of, updated))

    def dask() -> Any:
        t = {at: delayed(value) for at, value in held.items()}
        for k in range(count):
            t[k, k] = chol(t[k, k])
            for i in range(k + 1, count):
                t[i, k] = solve(t[i, k], t[k, k])
            for i in range(k + 1, count):
                for j in range(k + 1, i + 1):
                    t[i, j] = subtract(t[i, j], t[i, k], t[j, k])
        with cluster.client.as_current():
            return wait(cluster.client.compute(list(t.values())))

    with cluster.bind(graph) as runner:
        run = runner.run()
        low = np.zeros((n, n))
        for i, j in tiles:
            low[i * tile : (i + 1) * tile, j * tile : (j + 1) * tile] = run.result(a[i, j])
        low = np.tril(low)
        assert np.allclose(low @ low.T, matrix)
        used = len({each.device.split("/")[0] for each in runner.plan.schedule.assignments})
        predicted = f"predicted {runner.plan.makespan_s * 1e3:.0f}"
        title = f"Cholesky, n={n}, tile {tile} ({len(graph)} tasks, {used} of {workers} workers, {predicted})"
        row(title, {"ours": lambda: runner.run().wait(), "Dask": dask}, runs)


def main() -> None:
    given = parser(__doc__, workers=2, runs=7, n=2048, tiles=[128, 256, 512]).parse_args()
    with syclsched.connect(workers=given.workers) as cluster:
        print(f"\n| {given.workers} workers | ours, ms | Dask, ms | ours / Dask | us a task, ours / Dask |")
        print("|---|---:|---:|---:|---:|")
        small_tasks(cluster, given.workers, given.runs)
        for tile in given.tiles:
            tiled(cluster, given.workers, given.n, tile, given.runs)


if __name__ == "__main__":
    main()
