# SPDX-License-Identifier: Apache-2.0
"""Plans after measurements on a busy machine: the number of idle runs until recovery, and accuracy of predictions.

Run as ``python benchmarks/healing.py [SCENARIO ...]``; every scenario begins with an empty data folder. The command
line of syclsched is called as a user would, each run in a process of its own.

``profile``
    A profile beside two busy loops, then quiet runs; in comparison, runs with a quiet profile.
``load``
    Quiet runs, runs beside two busy loops, quiet runs again.
``accuracy``
    Predicted and measured makespans of the ready graphs, of five ONNX models and of random graphs, quiet.
``rivals``
    ``cholesky --n 2048`` beside SciPy's factorisation and NumPy's product of such matrices, in turns in one process.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from common import alternating, format_range, parser

#: The ready graphs, with options.
GRAPHS = (
    ("cholesky", "--n", "2048", "--tile", "256"),
    ("mlp",),
    ("stencil",),
)
MODELS = ("resnet50", "inception_v1", "bvlc_alexnet", "squeezenet", "shufflenet")
RANDOM_GRAPHS = 5

#: Seconds between calls of rivals: the threads of BLAS libraries compete for the cores some time after each.
_PAUSE_S = 0.1


@contextmanager
def empty_data() -> Iterator[Mapping[str, str]]:
    """Yield an environment with an empty data folder; compiled code stays in the user's cache."""
    with tempfile.TemporaryDirectory() as folder:
        yield {**os.environ, "XDG_DATA_HOME": folder}


@contextmanager
def busy_loops(count: int = 2) -> Iterator[None]:
    """Keep as many cores busy while the block runs."""
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def call(environment: Mapping[str, str], *arguments: str) -> str:
    """Call syclsched's command line and return its output."""
    return python(environment, "-m", "syclsched", *arguments)


def python(environment: Mapping[str, str], *arguments: str) -> str:
    """Call Python and return its output."""
    command = [sys.executable, *arguments]
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    return done.stdout


def run(environment: Mapping[str, str], graph: tuple[str, ...], repeat: int = 5) -> dict[str, Any]:
    """Run a ready graph several times in one process, and return its summary."""
    summary = json.loads(call(environment, "run", *graph, "--repeat", str(repeat), "--json"))
    assert isinstance(summary, dict)
    return summary


def show(label: str, summary: Mapping[str, Any]) -> None:
    """Print one row: measured and predicted makespan."""
    measured_s, predicted_s = summary["makespan_s"], summary["predicted_makespan_s"]
    wrong = f"{predicted_s / measured_s - 1.0:+.0%}"
    print(f"| {label} | {measured_s * 1e3:.1f} | {predicted_s * 1e3:.1f} | {wrong} |", flush=True)


def compare_profiles(quiet_runs: int) -> None:
    """Profile beside busy loops, then run; and the same with a quiet profile."""
    for label, loops in (("busy profile", 2), ("quiet profile", 0)):
        with empty_data() as environment:
            with ExitStack() as stack:
                if loops:
                    stack.enter_context(busy_loops(loops))
                call(environment, "profile")
            for number in range(quiet_runs):
                show(f"{label}, run {number + 1}", run(environment, GRAPHS[0]))


def apply_load(quiet_runs: int) -> None:
    """Run on an idle machine, beside busy loops, and again on an idle one, with one history."""
    with empty_data() as environment:
        call(environment, "profile")
        for number in range(quiet_runs):
            show(f"before, run {number + 1}", run(environment, GRAPHS[0]))
        with busy_loops():
            for number in range(quiet_runs):
                show(f"beside two busy loops, run {number + 1}", run(environment, GRAPHS[0]))
        for number in range(quiet_runs):
            show(f"after, run {number + 1}", run(environment, GRAPHS[0]))


def random_graph(seed: int) -> Any:
    """Return a graph of 40 matrix products, sums and updates, each of the results of two earlier tasks."""
    import syclsched
    from syclsched import kernels

    rng = np.random.default_rng(seed)
    size = int(rng.choice([192, 256, 384]))
    graph = syclsched.TaskGraph(f"random {seed}")
    arrays = [graph.array(f"x{k}", data=rng.standard_normal((size, size)) / size) for k in range(6)]
    for number in range(40):
        a, b, c = (arrays[k] for k in rng.choice(len(arrays), 3, replace=False))
        match rng.choice(["gemm", "gemm", "axpy", "scale"]):
            case "gemm":
                graph.kernel(
                    kernels.get("gemm"), name=f"gemm{number}", c=c, a=a, b=b, alpha=-1.0, beta=1.0, trans_b=True
                )
            case "axpy":
                graph.kernel(kernels.get("axpy"), name=f"axpy{number}", y=c, x=a, alpha=0.5)
            case _:
                graph.kernel(kernels.get("scale"), name=f"scale{number}", x=c, alpha=0.5)
    return graph


def run_random(seed: int, repeat: int = 5) -> dict[str, float]:
    """Run a random graph several times in this process, and return a summary like the command line's."""
    import syclsched

    graph = random_graph(seed)
    found = []
    for _ in range(repeat):
        with syclsched.run(graph) as done:
            done.wait()
            trace = done.trace()
            found.append((trace.makespan_s, trace.predicted_makespan_s))
    measured, predicted = zip(*found[1:], strict=True)
    return {"makespan_s": statistics.median(measured), "predicted_makespan_s": statistics.median(predicted)}


def check_accuracy(quiet_runs: int) -> None:
    """Predict and measure every graph in several processes; the last one's prediction counts."""
    from onnx_models import default_folder

    from syclsched.testing.models import cached

    errors = []
    models = [(str(cached(name, default_folder())),) for name in MODELS]
    with empty_data() as environment:
        call(environment, "profile")
        for graph in [*GRAPHS, *models, *range(RANDOM_GRAPHS)]:
            for _ in range(quiet_runs):
                if isinstance(graph, int):
                    summary = json.loads(python(environment, __file__, "--random", str(graph)))
                else:
                    summary = run(environment, graph)
            show(f"random graph {graph}" if isinstance(graph, int) else Path(graph[0]).stem, summary)
            errors.append(abs(summary["predicted_makespan_s"] / summary["makespan_s"] - 1.0))
    print(f"error of the predictions: median {statistics.median(errors):.0%}, worst {max(errors):.0%}")


def compare_rivals(quiet_runs: int) -> None:
    """Compare the factorisation with SciPy's and the product with NumPy's, with the user's profile and history."""
    import scipy.linalg

    import syclsched
    from syclsched import workloads

    n = 2048
    kind = workloads.get("cholesky")
    workload = kind.build(kind.options(n=n, tile=256))
    matrix = workloads.cholesky.random_spd(n, np.dtype("float64"), 0)
    for _ in range(quiet_runs):
        with syclsched.run(workload.graph) as done:
            done.wait()
    with syclsched.bind(workload.graph) as runner:

        def factorise() -> None:
            with runner.run() as run:
                run.wait()

        calls = {
            "syclsched, cholesky": factorise,
            "scipy.linalg.cholesky": lambda: scipy.linalg.cholesky(matrix, lower=True),
            "numpy, a @ b": lambda: matrix @ matrix,
        }
        found = alternating(calls, 5 * quiet_runs, warm_ups=3, pause_s=_PAUSE_S)
    flops = {name: 2 * n**3 if "@" in name else n**3 / 3 for name in calls}
    print("| call | ms, median and range | GFLOP/s |\n|---|---|---|")
    for name, times in found.items():
        rate = flops[name] / statistics.median(times) / 1e9
        print(f"| {name} | {format_range([t * 1e3 for t in times], 1)} | {rate:.1f} |")


SCENARIOS = {"profile": compare_profiles, "load": apply_load, "accuracy": check_accuracy, "rivals": compare_rivals}


def main() -> None:
    """Print a table for each scenario."""
    options = parser(__doc__)
    options.add_argument("scenarios", nargs="*", default=[*SCENARIOS], help=f"of {', '.join(SCENARIOS)}")
    options.add_argument("--runs", type=int, default=3, help="runs of each kind, each in a process of its own")
    options.add_argument("--random", type=int, help="run only this random graph, in this process; print its summary")
    given = options.parse_args()
    if given.random is not None:
        print(json.dumps(run_random(given.random)))
        return
    for scenario in given.scenarios:
        print(f"\n{scenario}\n")
        if scenario != "rivals":
            print("| run | ms, measured | ms, predicted | prediction off by |\n|---|---|---|---|")
        SCENARIOS[scenario](given.runs)


if __name__ == "__main__":
    main()
