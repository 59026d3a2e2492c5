# SPDX-License-Identifier: Apache-2.0
"""Graphs on the workers of a Dask cluster: the package's plans and Dask's own scheduler, on equal workers, in turns.

    python benchmarks/cluster.py [--workers 2] [--runs 7] [--n 2048] [--tiles 128 256 512]
        [--cases small cholesky jacobi perceptron] [--ray PYTHON] [--megabits 1000]

The workers are processes of this machine, each on a core of its own. All sides compute with NumPy and SciPy on one
thread: *small tasks* are Python functions of 100 us in as many chains as there are workers, *Cholesky* is the tiled
factorisation, *Jacobi* are sweeps over a grid in blocks of rows that exchange their outer rows, and *perceptron* is a
batch in parts through dense layers. The plan is bound once and called; the graphs of the others are built and computed
again in each run, with their inputs on the workers. Each number is the median over the runs, with the least and
largest; ratios are those of the medians. The time a task is a run's time beyond the functions themselves, for each
task. The prediction is that of the plan.

With ``--ray`` and a Python that has the package ray, Ray computes the same, with as many workers. With ``--megabits``,
each worker is on a host of its own, a network namespace whose port has this rate in each direction (root only).
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from cluster_cases import CASES, SPIN_S, TASKS, GraphCase, layer, potrf, spin, sweep_into, trsm
from common import Call, alternating, format_range, parser

import syclsched
from syclsched.cluster import Cluster, connect

HERE = Path(__file__).parent
#: Sweeps and blocks for each worker of the grid; layers and parts for each worker of the batch.
SWEEPS, BLOCKS = 20, 4
LAYERS, PARTS = 6, 4


# --- functions that write into arrays --------------------------------------------------------------


def spin_on(x: Any) -> None:
    spin()
    x += 1.0


def potrf_into(a: Any) -> None:
    a[...] = potrf(a)


def trsm_into(b: Any, a: Any) -> None:
    b[...] = trsm(b, a)


def update(c: Any, a: Any, b: Any) -> None:
    c -= a @ b.T


def sweep(new: Any, first: Any, last: Any, block: Any, above: Any, below: Any) -> None:
    sweep_into(new, block, above, below)
    first[...], last[...] = new[0], new[-1]


def layer_into(y: Any, x: Any, w: Any, b: Any) -> None:
    y[...] = layer(x, w, b)


# --- the graphs of the cases; each returns the names of its results ----------------------------------


def small(graph: syclsched.TaskGraph, a: Mapping[str, Any], workers: int) -> list[str]:
    for _ in range(TASKS // workers):
        for x in a.values():
            graph.host(spin_on, pure=True, flops=1.0, x=x.update())
    return list(a)


def cholesky(graph: syclsched.TaskGraph, a: Mapping[str, Any], n: int, tile: int) -> list[str]:
    count, flops = n // tile, float(tile**3)
    for k in range(count):
        pivot = a[f"{k}.{k}"]
        graph.host(potrf_into, pure=True, flops=flops / 3, a=pivot.update())
        for i in range(k + 1, count):
            graph.host(trsm_into, pure=True, flops=flops, b=a[f"{i}.{k}"].update(), a=pivot.read())
        for i in range(k + 1, count):
            for j in range(k + 1, i + 1):
                row, column = a[f"{i}.{k}"].read(), a[f"{j}.{k}"].read()
                graph.host(update, pure=True, flops=2 * flops, c=a[f"{i}.{j}"].update(), a=row, b=column)
    return list(a)


def jacobi(graph: syclsched.TaskGraph, a: Mapping[str, Any], n: int, blocks: int, sweeps: int) -> list[str]:
    now = {number: [a[f"block{number}"], a[f"first{number}"], a[f"last{number}"]] for number in range(blocks)}
    other = {
        (number, parity): [graph.array(f"{each.name}.{parity}", each.shape) for each in now[number]]
        for number in range(blocks)
        for parity in range(2)
    }
    for step in range(sweeps):
        new = {number: other[number, step % 2] for number in range(blocks)}
        for number in range(blocks):
            above = now[number - 1][2] if number else a["edge"]
            below = now[number + 1][1] if number + 1 < blocks else a["edge"]
            written = dict(zip(("new", "first", "last"), (each.write() for each in new[number]), strict=True))
            read = {"block": now[number][0].read(), "above": above.read(), "below": below.read()}
            graph.host(sweep, pure=True, flops=4.0 * n * n / blocks, **written, **read)
        now = new
    return [now[number][0].name for number in range(blocks)]


def perceptron(
    graph: syclsched.TaskGraph, a: Mapping[str, Any], batch: int, width: int, layers: int, parts: int
) -> list[str]:
    now = [a[f"x{number}"] for number in range(parts)]
    for step in range(layers):
        new = [
            graph.array(f"y{step}.{number}", x.shape, x.dtype, temporary=step + 1 < layers)
            for number, x in enumerate(now)
        ]
        for y, x in zip(new, now, strict=True):
            weights = {"w": a[f"w{step}"].read(), "b": a[f"b{step}"].read()}
            flops = 2.0 * batch / parts * width * width
            graph.host(layer_into, pure=True, flops=flops, y=y.write(), x=x.read(), **weights)
        now = new
    return [each.name for each in now]


GRAPHS: Mapping[str, Callable[..., list[str]]] = {each.__name__: each for each in (small, cholesky, jacobi, perceptron)}


# --- the sides --------------------------------------------------------------------------------------


class Ray:
    """Ray in a process of its own, in another Python."""

    def __init__(self, python: str, workers: int) -> None:
        self._process = subprocess.Popen(
            [python, HERE / "cluster_ray.py", str(workers)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={key: value for key, value in os.environ.items() if key != "PYTHONPATH"},
        )

    def say(self, line: str) -> str:
        """Send a command, and return the answer."""
        assert self._process.stdin is not None and self._process.stdout is not None
        print(line, file=self._process.stdin, flush=True)
        return self._process.stdout.readline().strip()

    def close(self) -> None:
        """End Ray."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(60)


def dask_call(cluster: Cluster, case: GraphCase) -> Callable[[], list[Any]]:
    """Return a function that computes a case with Dask, and returns futures; the inputs are on the workers."""
    from dask import delayed
    from distributed import wait

    client = cluster.client
    held = {name: client.scatter(value, hash=False) for name, value in case.inputs.items()}
    made: dict[Any, Any] = {}

    def later(function: Callable[..., Any], *values: Any, outputs: int = 1) -> Any:
        if function not in made:
            made[function] = delayed(function, pure=False, nout=None if outputs == 1 else outputs)
        return made[function](*values)

    def run() -> list[Any]:
        with client.as_current():
            found = case.program(later, {name: delayed(value) for name, value in held.items()})
            futures: list[Any] = client.compute(found)
            wait(futures)
        return futures

    return run


def measured(
    name: str, title: str, cluster: Cluster, ray: Ray | None, runs: int, count: int, arguments: Mapping[str, int]
) -> None:
    """Measure a case on all sides in turns, and print one line of the table."""
    case = CASES[name](**arguments)
    graph = syclsched.TaskGraph(name)
    results = GRAPHS[name](
        graph, {each: graph.array(each, data=value) for each, value in case.inputs.items()}, **arguments
    )
    dask = dask_call(cluster, case)
    with cluster.bind(graph) as runner:
        found = runner.run().read_results(results)
        assert case.check([found[each] for each in results])
        assert case.check(cluster.client.gather(dask()))
        calls: dict[str, Call] = {"ours": lambda: runner.run().wait(), "Dask": dask}
        if ray is not None:
            assert ray.say(json.dumps([name, arguments])) == "right"
            calls["Ray"] = lambda: ray.say("run")
        times = alternating(calls, runs)
        used = len({each.device.split("/")[0] for each in runner.plan.schedule.assignments})
        predicted_s = runner.plan.makespan_s
    middle = {side: statistics.median(found) for side, found in times.items()}
    cells = [format_range([1e3 * each for each in found], 1, 0) for found in times.values()]
    ratios = [f"{middle['ours'] / middle[side]:.2f}" for side in times if side != "ours"]
    beyond = [f"{(middle[side] - SPIN_S * TASKS / count) / TASKS * 1e6:.0f}" for side in times]
    print(
        f"| {title}, {len(graph)} tasks on {used} | {1e3 * predicted_s:.1f} ({predicted_s / middle['ours']:.2f}) | "
        f"{' | '.join(cells)} | {' | '.join(ratios)} |{' ' + ' / '.join(beyond) if name == 'small' else ''} |",
        flush=True,
    )


@contextmanager
def on_hosts(workers: int, megabits: int) -> Iterator[Cluster]:
    """Yield a cluster whose workers are each on a host and a core of its own, with ports of a limited rate."""
    sys.path.insert(0, str(HERE.parent / "tests"))
    from support.network_hosts import NetworkHosts, why_not

    reason = why_not()
    if reason is not None:
        sys.exit(reason)
    quiet: dict[str, Any] = {
        "stdout": subprocess.DEVNULL,
        "stderr": subprocess.DEVNULL,
        "env": {**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])},
    }
    dask = [sys.executable, "-m", "dask"]
    with NetworkHosts(1 + workers) as hosts:
        address = f"tcp://{hosts.address(0)}:8786"
        hosts.start(0, [*dask, "scheduler", "--host", hosts.address(0), "--port", "8786", "--no-dashboard"], **quiet)
        cores = sorted(os.sched_getaffinity(0))
        for host in range(1, 1 + workers):
            core = ["taskset", "-c", str(cores[(host - 1) % len(cores)])]
            where = ["--host", hosts.address(host), "--nthreads", "1", "--no-nanny", "--no-dashboard"]
            hosts.start(host, [*core, *dask, "worker", address, *where, "--name", str(host)], **quiet)
        with hosts.inside(0), connect(address, timeout_s=60.0) as cluster:
            while len(cluster.workers) < workers:
                time.sleep(0.1)
            for host in range(1 + workers):
                hosts.limit(host, megabits)
            yield cluster


def main() -> None:
    given = parser(
        __doc__, workers=2, runs=7, n=2048, tiles=[128, 256, 512], cases=[*CASES], ray="", megabits=0
    ).parse_args()
    workers = given.workers
    with ExitStack() as stack:
        where = on_hosts(workers, given.megabits) if given.megabits else connect(workers=workers)
        cluster = stack.enter_context(where)
        ray = Ray(given.ray, workers) if given.ray else None
        if ray is not None:
            stack.callback(ray.close)
        sides = ["ours, ms", "Dask, ms", *(["Ray, ms"] if ray else [])]
        ratios = ["ours / Dask", *(["ours / Ray"] if ray else [])]
        print(f"\nload {os.getloadavg()[0]:.1f} at the beginning\n")
        print(f"| {workers} workers | predicted, ms (/ ours) | {' | '.join([*sides, *ratios])} | us a task |")
        print(f"|---|{'---:|' * (2 + len(sides) + len(ratios))}")
        rows = given.n - given.n % (BLOCKS * workers)
        grid = {"n": rows, "blocks": BLOCKS * workers, "sweeps": SWEEPS}
        batch = {"batch": 128 * PARTS * workers, "width": 1024, "layers": LAYERS, "parts": PARTS * workers}
        cases = [
            ("small", "small tasks of 100 us", {"workers": workers}),
            *(
                ("cholesky", f"Cholesky, n={given.n}, tile {tile}", {"n": given.n, "tile": tile})
                for tile in given.tiles
            ),
            ("jacobi", f"Jacobi, {rows} x {rows}, {SWEEPS} sweeps", grid),
            ("perceptron", f"perceptron, batch {batch['batch']}", batch),
        ]
        for name, title, arguments in cases:
            if name in given.cases:
                measured(name, title, cluster, ray, given.runs, workers, arguments)
        print(f"\nload {os.getloadavg()[0]:.1f} at the end")


if __name__ == "__main__":
    main()
