# SPDX-License-Identifier: Apache-2.0
"""Processor time of first steps: commands, discovery, small plans, large graphs, one-off runs and profiles.

    python benchmarks/startup.py [--runs 5] [--only NAMES] [--python INTERPRETERS] [--tasks 10000]

Every row is measured in new processes, each with folders for data and caches of its own; where these are "warm", a
earlier process has filled them. Several interpreters, of environments with different versions installed, take turns,
and the last column is the ratio of the medians of the last to the first. Whole processes are measured by their user and
system time, steps within a process by `time.process_time`, which counts all threads. The rows of profiles take minutes
and are only measured if they are named.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from common import parser, print_table

#: Defines `graph(tasks)`: layers, in which a task reads the results of two tasks of the layer before; four devices.
_LARGE = """
import random
import syclsched as s
def never(signature):
    raise AssertionError("it is planned, never run")
READ, WRITE = s.AccessMode.READ, s.AccessMode.WRITE
combine = s.Operation(
    "combine",
    (s.Parameter("a", READ), s.Parameter("b", READ), s.Parameter("out", WRITE), s.Parameter("alpha", dtype="float64")),
    (s.Implementation("opencl-c", "opencl-c", load=never),),
    work=lambda signature: s.Work(flops=1e6, bytes=1e5),
)
def graph(tasks, width=100):
    rng, made = random.Random(0), s.TaskGraph(f"layered {tasks}")
    before = [made.array(f"input {i}", (1024,)) for i in range(width)]
    for start in range(0, tasks, width):
        layer = [made.array(f"x{i}", (1024,), "float64") for i in range(start, min(start + width, tasks))]
        for number, array in enumerate(layer, start):
            a, b = rng.sample(before, 2)
            made.kernel(combine, name=f"t{number}", a=a, b=b, out=array, alpha=0.5)
        before = layer if len(layer) > 1 else before
    return made
platform = s.describe(["xeon-8480", "max1550", "a770", "h100"])
"""

#: Measures the steps of a large graph, after a small one has loaded the needed modules; prints seconds by step.
_API = f"""
import json, sys, time
{_LARGE}
found, tasks = {{}}, int(sys.argv[1])
def timed(name, call):
    begun = time.process_time()
    made = call()
    found[name] = time.process_time() - begun
    return made
small = s.plan(graph(200), platform, policy="heft")
s.Plan.from_json(small.to_json())
large = timed("build the graph", lambda: graph(tasks))
plan = timed("plan with heft", lambda: s.plan(large, platform, policy="heft"))
text = timed("write the plan as JSON", plan.to_json)
again = timed("read it", lambda: s.Plan.from_json(text))
assert again == plan
print(json.dumps({{**found, "size of the JSON": len(text) / 1e6}}))
"""

_FEW = """
import syclsched as s
graph = s.TaskGraph("few")
x = graph.array("x", (1000,), "float32")
scale = s.Operation(
    "scale",
    (s.Parameter("x", s.AccessMode.UPDATE),),
    (s.Implementation("opencl-c", "opencl-c", load=lambda signature: None),),
    work=lambda signature: s.Work(1e6, 8e3),
)
for _ in range(3):
    graph.kernel(scale, x=x)
s.plan(graph, s.describe(["xeon-8480", "max1550"]))
"""

#: Measures a one-off run of an existing plan and a bound one, both warm: microseconds of processor time for each task.
_RUNS = """
import json, statistics, sys, time
import numpy as np
import syclsched as s
from syclsched.model.operation import OpenCLSource
source = OpenCLSource("kernel void touch(global float* x) { if (get_global_id(0) == 0) x[0] += 1; }", "touch")
touch = s.Operation(
    "touch",
    (s.Parameter("x", s.AccessMode.UPDATE, dtypes=("float32",)),),
    (s.Implementation("opencl-c", "opencl-c", load=lambda signature: source, launch=lambda *_: s.Launch((16,))),),
    work=lambda signature: s.Work(16.0, 128.0),
)
def graph(tasks):
    made = s.TaskGraph("chain")
    x = made.array("x", data=np.zeros(16, "float32"))
    for number in range(tasks):
        made.kernel(touch, name=f"t{number}", x=x)
    return made
platform = s.discover("cpu")
tasks = 1000
chain = graph(tasks)
plan = s.plan(chain, platform, policy="single:cpu")
def once():
    with s.run(chain, plan=plan) as run:
        run.wait()
        return run.result("x")
def times(call, runs):
    call()
    found = []
    for _ in range(runs):
        begun = time.process_time(), time.perf_counter()
        call()
        found.append((time.process_time() - begun[0], time.perf_counter() - begun[1]))
    return [statistics.median(each) / tasks for each in zip(*found)]
alone = times(once, 5)
with s.bind(chain, plan=plan) as runner:
    bound = times(runner, 20)
print(json.dumps({
    "one-off run, processor time a task": alone[0], "one-off run, time a task": alone[1],
    "bound plan, processor time a task": bound[0], "bound plan, time a task": bound[1],
}))
"""


@dataclass(frozen=True)
class StartupCase:
    """One measurement in a new process."""

    name: str
    arguments: tuple[str, ...]  # of the interpreter
    warm: bool = True  # whether an earlier process fills the folders
    steps: bool = False  # whether the process prints its measurements by name, as JSON
    named_only: bool = False  # whether it is measured only if it is named
    unit: str = "s"


def cases(tasks: int) -> tuple[StartupCase, ...]:
    """Return all measurements, in the order of the table."""
    command = ("-m", "syclsched")
    discover = ("-c", "import syclsched; syclsched.discover()")
    return (
        StartupCase("version", (*command, "--version")),
        StartupCase("help", (*command, "--help")),
        StartupCase("help of a command", (*command, "run", "--help")),
        StartupCase("import", ("-c", "import syclsched")),
        StartupCase("plan of 3 tasks", ("-c", _FEW)),
        StartupCase("discover, empty caches", discover, warm=False),
        StartupCase("discover", discover),
        StartupCase("large", ("-c", _API, str(tasks)), steps=True),
        StartupCase("runs", ("-c", _RUNS), steps=True, unit="us"),
        StartupCase("profile --quick", (*command, "profile", "--quick"), warm=False, named_only=True),
        StartupCase("profile", (*command, "profile"), warm=False, named_only=True),
    )


def measured(case: StartupCase, python: str, folder: Path) -> Iterator[tuple[str, float]]:
    """Run a case once; yield the name and value of each measurement: seconds, or megabytes of a size."""
    environment = {
        **os.environ,
        "XDG_DATA_HOME": str(folder / "data"),
        "XDG_CACHE_HOME": str(folder / "cache"),
        "COLUMNS": "120",
    }
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    with (folder / "printed").open("w+") as printed:
        process = subprocess.Popen(
            [python, *case.arguments], cwd=folder, env=environment, stdout=printed, stderr=subprocess.STDOUT
        )
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        printed.seek(0)
        said = printed.read()
    if process.returncode:
        raise SystemExit(f"{case.name} ended with {process.returncode}:\n{said}")
    if case.steps:
        yield from json.loads(said.splitlines()[-1]).items()
    else:
        yield case.name, usage.ru_utime + usage.ru_stime


def shown(name: str, value: float, unit: str) -> str:
    """Format a value in its unit."""
    if name.startswith("size"):
        return f"{value:.1f} MB"
    return f"{value * 1e6:.1f} us" if unit == "us" else f"{value:.2f} s"


def main() -> None:
    """Measure the cases and print the table."""
    options = parser(__doc__, runs=5, tasks=10_000, only=[""], python=[sys.executable]).parse_args()
    wanted = [name for name in options.only if name]
    rows = []
    for case in cases(options.tasks):
        if case.name not in wanted if wanted else case.named_only:
            continue
        found: dict[str, dict[str, list[float]]] = {}
        with tempfile.TemporaryDirectory() as base:
            for turn in range(-1 if case.warm else 0, options.runs):
                for number, python in enumerate(options.python):
                    folder = Path(base) / (f"{number}" if case.warm else f"{number}-{turn}")
                    folder.mkdir(exist_ok=True)
                    for name, value in measured(case, python, folder):
                        if turn >= 0:
                            found.setdefault(name, {}).setdefault(python, []).append(value)
        for name, by_python in found.items():
            medians = [statistics.median(by_python[python]) for python in options.python]
            spreads = [
                f"{shown(name, min(v), case.unit)} to {shown(name, max(v), case.unit)}" for v in by_python.values()
            ]
            cells = [c for m, s in zip(medians, spreads, strict=True) for c in (shown(name, m, case.unit), s)]
            rows.append((name, *cells, f"{medians[-1] / medians[0]:.2f}"))
    columns = ["", *(c for k in range(len(options.python)) for c in (f"median {k + 1}", "range")), "ratio"]
    print_table("Processor time of first steps", columns, rows, [""])


if __name__ == "__main__":
    main()
