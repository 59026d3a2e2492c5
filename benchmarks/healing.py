# SPDX-License-Identifier: Apache-2.0
"""Plans after measurements on a busy machine: how many quiet runs undo the harm, and how exact predictions are.

Run as ``python benchmarks/healing.py [SCENARIO ...]``; every scenario begins with an empty data folder. The command
line of syclsched is called as a user would, each run in a process of its own.

``profile``
    A profile beside two busy loops, then quiet runs; in comparison, runs with a quiet profile.
``load``
    Quiet runs, runs beside two busy loops, quiet runs again.
``accuracy``
    Predicted and measured makespans of the ready graphs, quiet.
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
from typing import Any

from common import parser

#: The ready graphs, with options.
GRAPHS = (
    ("cholesky", "--n", "2048", "--tile", "256"),
    ("mlp",),
    ("stencil",),
)


@contextmanager
def empty_data() -> Iterator[Mapping[str, str]]:
    """Yield an environment with an empty data folder; compiled code is kept in the user's cache."""
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
    """Call syclsched's command line and return what it prints."""
    command = [sys.executable, "-m", "syclsched", *arguments]
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
    """Run quietly, beside busy loops, and quietly again, with one history."""
    with empty_data() as environment:
        call(environment, "profile")
        for number in range(quiet_runs):
            show(f"before, run {number + 1}", run(environment, GRAPHS[0]))
        with busy_loops():
            for number in range(quiet_runs):
                show(f"beside two busy loops, run {number + 1}", run(environment, GRAPHS[0]))
        for number in range(quiet_runs):
            show(f"after, run {number + 1}", run(environment, GRAPHS[0]))


def check_accuracy(quiet_runs: int) -> None:
    """Predict and measure every ready graph; the last run's prediction counts."""
    errors = []
    with empty_data() as environment:
        call(environment, "profile")
        for graph in GRAPHS:
            for _ in range(quiet_runs):
                summary = run(environment, graph)
            show(" ".join(graph), summary)
            errors.append(abs(summary["predicted_makespan_s"] / summary["makespan_s"] - 1.0))
    print(f"error of the predictions: median {statistics.median(errors):.0%}, worst {max(errors):.0%}")


SCENARIOS = {"profile": compare_profiles, "load": apply_load, "accuracy": check_accuracy}


def main() -> None:
    """Print a table for each scenario."""
    options = parser(__doc__)
    options.add_argument("scenarios", nargs="*", default=[*SCENARIOS], help=f"of {', '.join(SCENARIOS)}")
    options.add_argument("--runs", type=int, default=3, help="runs of each kind, each in a process of its own")
    given = options.parse_args()
    for scenario in given.scenarios:
        print(f"\n{scenario}\n\n| run | ms, measured | ms, predicted | prediction off by |\n|---|---|---|---|")
        SCENARIOS[scenario](given.runs)


if __name__ == "__main__":
    main()
