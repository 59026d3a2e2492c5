# SPDX-License-Identifier: Apache-2.0
"""The main measurements in several environments, alternating: generations of SYCL packages, and other runtimes.

    python benchmarks/generations.py "numba-dpex = .venv/bin/python" "current = .venv-current/bin/python" [--runs 9]
    python benchmarks/generations.py "intel = .venv/bin/python" "pocl = OCL_ICD_FILENAMES=libpocl.so.2 .venv/bin/python"

An environment is a name, ``=``, variables if it needs any, and its Python. Each case is prepared in a process of each
environment; then the processes measure in turns, in both orders, while the others sleep. The first environment is the
reference of the others.

``dispatch``: microseconds a task of a bound plan, 1,000 tasks that do nothing, on one lane of the CPU device. ``metg``:
METG(50 %) of a bound plan on one one-core lane, in microseconds (see ``metg.py``). ``cholesky``: milliseconds of a
bound run, n = 2048 in tiles of 256, planned by ``auto``. Names of models: milliseconds of a call (``onnx_models.py``).
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import statistics
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MODELS = (
    *("resnet50", "vgg19", "inception_v1", "inception_v2", "densenet121", "bvlc_alexnet", "zfnet512"),
    *("squeezenet", "shufflenet", "bert"),
)
CASES = ("dispatch", "metg", "cholesky", *MODELS)
_TASKS = 1000
_WARM_UPS = 3

Measure = Callable[[], float]


def dispatch(stack: ExitStack) -> Measure:
    """Return a measurement of microseconds a task."""
    import numpy as np
    from common import seconds
    from dispatch import ITEMS, ON, edges, graph_of, plan_of

    from syclsched import discover
    from syclsched.api import with_lanes
    from syclsched.devices import open_devices
    from syclsched.execution import bind

    platform = with_lanes(discover("cpu"), 1)
    live = stack.enter_context(open_devices(platform))
    graph = graph_of(edges("random", _TASKS))
    runner = stack.enter_context(bind(plan_of(graph, platform, ON["one-lane"][3]), graph, live, trace=False))
    inputs = {"first": np.zeros(ITEMS)}
    return lambda: 1e6 * seconds(lambda: runner.run(inputs).wait()) / _TASKS


def metg(stack: ExitStack) -> Measure:
    """Return a measurement of METG(50 %) in microseconds."""
    from metg import GridBenchmark, by_plan
    from metg import metg as interpolated

    from syclsched import discover
    from syclsched.api import with_lanes
    from syclsched.devices import open_devices

    case = GridBenchmark("stencil_1d", 4, 100)
    platform = with_lanes(discover("cpu"), 1)
    timed = by_plan(case, platform, stack.enter_context(open_devices(platform)), 1, bound=True)

    def measure() -> float:
        taken_s = {turns: timed(turns) for turns in (10 * 2**k for k in range(13, -1, -1))}
        best = max(case.tasks * turns / t for turns, t in taken_s.items())
        points = [(t / case.tasks, case.tasks * turns / t / best) for turns, t in taken_s.items()]
        return 1e6 * interpolated(points)

    return measure


def cholesky(stack: ExitStack) -> Measure:
    """Return a measurement of milliseconds of a factorisation."""
    from common import seconds

    import syclsched
    from syclsched.workloads.cholesky import CholeskyOptions, build

    made = build(CholeskyOptions(n=2048, tile=256))
    runner = stack.enter_context(syclsched.bind(made.graph, syclsched.discover("cpu"), trace=False))

    def run() -> None:
        with runner.run(made.inputs) as running:
            running.wait()

    return lambda: 1e3 * seconds(run)


def model(name: str, stack: ExitStack) -> Measure:
    """Return a measurement of milliseconds of a call of a model."""
    from common import seconds
    from onnx_models import default_folder, given, ours, shapes_of

    path, (inputs, *_) = given(name, default_folder())
    compiled = stack.enter_context(ours(path, shapes_of(name)))
    return lambda: 1e3 * seconds(lambda: compiled(**inputs))


def work(case: str) -> None:
    """Prepare a case, then measure for each line of input."""
    makers = {"dispatch": dispatch, "metg": metg, "cholesky": cholesky}
    with ExitStack() as stack:
        measure = makers[case](stack) if case in makers else model(case, stack)
        for _ in range(1 if case == "metg" else _WARM_UPS):
            measure()
        print(json.dumps("ready"), flush=True)
        for _ in sys.stdin:
            print(json.dumps(measure()), flush=True)


@dataclass(frozen=True, eq=False)
class Environment:
    """A Python with packages, and its environment variables."""

    name: str
    variables: dict[str, str]
    python: str

    @classmethod
    def parsed(cls, text: str) -> Environment:
        """Return the environment of a command-line argument."""
        name, sign, rest = text.partition("=")
        *variables, python = shlex.split(rest) or [""]
        if not sign or not name.strip() or not os.access(python, os.X_OK):
            raise argparse.ArgumentTypeError(f"{text!r} is not NAME = [VARIABLE=VALUE ...] PYTHON")
        return cls(name.strip(), dict(each.split("=", 1) for each in variables), python)

    def start(self, case: str) -> subprocess.Popen[str]:
        """Return a process that measures a case on request."""
        command = [self.python, __file__, "--work", case]
        environ = {**os.environ, **self.variables}
        return subprocess.Popen(command, env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def asked(process: subprocess.Popen[str], line: str | None) -> Any:
    """Send a line, if any, and return the answer; None if the process has ended."""
    assert process.stdin is not None and process.stdout is not None
    if line is not None:
        process.stdin.write(line + "\n")
        process.stdin.flush()
    for answer in process.stdout:
        try:
            return json.loads(answer)
        except ValueError:
            continue  # other output
    return None


def measured(case: str, environments: Sequence[Environment], runs: int) -> list[list[float]]:
    """Return the measurements of each environment, made in turns; none where the case cannot be prepared."""
    processes = [each.start(case) for each in environments]
    able = [number for number, process in enumerate(processes) if asked(process, None) is not None]
    found: list[list[float]] = [[] for _ in environments]
    for turn in range(runs):
        for number in able if turn % 2 == 0 else able[::-1]:
            found[number].append(asked(processes[number], "again"))
    for process in processes:
        process.communicate()
    return found


def main() -> None:
    """Measure and print a table for documents."""
    from common import format_range

    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("environments", nargs="*", type=Environment.parsed)
    made.add_argument("--cases", nargs="*", choices=CASES, default=CASES)
    made.add_argument("--runs", type=int, default=9)
    made.add_argument("--work", choices=CASES, help=argparse.SUPPRESS)
    options = made.parse_args()
    if options.work:
        work(options.work)
        return
    if len(options.environments) < 2:
        made.error("two environments at least are compared")
    names = [each.name for each in options.environments]
    print("| case | " + " | ".join(names) + " | " + " | ".join(f"{name} / {names[0]}" for name in names[1:]) + " |")
    print("| --- |" + " ---: |" * (2 * len(names) - 1))
    for case in options.cases:
        values = measured(case, options.environments, options.runs)
        middle = [statistics.median(each) if each else float("nan") for each in values]
        cells = [format_range(each, width=0) for each in values] + [f"{each / middle[0]:.2f}" for each in middle[1:]]
        print(f"| {case} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
    main()
