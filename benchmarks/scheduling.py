# SPDX-License-Identifier: Apache-2.0
"""Speed of HEFT on graphs of 1,000 to 1,000,000 tasks and 16 devices, compared with SAGA's HEFT on the same instances.

    python benchmarks/scheduling.py [--tasks 1000 10000 100000 1000000] [--devices 16] [--runs 9] [--saga PYTHON]

SAGA (the package ``anrg-saga``) needs other versions of libraries than this project, so it runs in an environment of
its own:

    python3 -m venv saga && saga/bin/pip install anrg-saga==0.0.11
    python benchmarks/scheduling.py --saga saga/bin/python

Without ``--saga`` its columns are left out. Version 0.0.11 answers for 10,000 tasks in half a minute; 2.x goes through
all tasks to find one, several times for each task and node, so that its time grows with the square (seconds at 1,000).
It is run on at most ``--saga-tasks`` (10,000 if not given). Instances are random layered graphs with about three
edges a task, in SAGA's model: a cost for each task, a speed for each node and each link. Times are processor seconds
of one core (both sides are sequential), the least of the runs after one that is not counted, with the median beside
it; building the problem from arrays is listed apart. Our schedules are entered into SAGA's own class and checked
against the definition of its model. As HEFT's makespan on one instance hangs on details (SAGA's mean link counts the
links of nodes to themselves, the paper's does not), ``--compare N`` adds the ratios of makespans over N instances of
200 tasks on 8 devices: of our policy and of ``auto`` (the best of all policies, searched on) to each of SAGA's
schedulers.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from common import parser, repeated

from syclsched.scheduling import Problem, Timetable, candidates, get, problem_from_arrays, validate
from syclsched.scheduling.portfolio import run_policies
from syclsched.scheduling.search import refine
from syclsched.scheduling.tables import Floats, Ints

#: The instances of ``--compare``.
COMPARED_TASKS, COMPARED_DEVICES = 200, 8

#: SAGA's schedulers, without those that try everything (SMT, brute force) and DPS, which does not end in time.
HEFT = ("HeftScheduler",)
SCHEDULERS = tuple(
    f"{name}Scheduler"
    for name in (
        *("Heft", "Cpop", "BIL", "Duplex", "ETF", "FCP", "FLB", "FastestNode", "GDL", "Hbmct", "MCT", "MET"),
        *("MaxMin", "MinMin", "Msbc", "OLB", "Sufferage", "WBA"),
    )
)

#: Targets: milliseconds by number of tasks on 16 devices, and the speed-up over SAGA.
TARGET_MS = {10_000: 60.0, 1_000_000: 10_000.0}
TARGET_RATIO = 200.0


@dataclass(frozen=True)
class Instance:
    """A task graph and a network in SAGA's model.

    Parameters
    ----------
    cost : ndarray, shape (T,)
        Work of each task.
    before, after : ndarray, shape (E,)
        Edges.
    size : ndarray, shape (E,)
        Data of each edge.
    speed : ndarray, shape (D,)
        Speeds of the nodes.
    link_speed : ndarray, shape (D, D)
        Speeds of the links; symmetric, infinity on the diagonal.
    """

    cost: Floats
    before: Ints
    after: Ints
    size: Floats
    speed: Floats
    link_speed: Floats

    def problem(self) -> Problem:
        """Return the instance as a scheduling problem."""
        seconds = self.cost[:, None] / self.speed[None, :]
        return problem_from_arrays(seconds, self.before, self.after, self.size, s_per_byte=1.0 / self.link_speed)


def layered(tasks: int, devices: int, seed: int, ccr: float = 1.0) -> Instance:
    """Return a random graph of about as many layers as tasks in a layer, with one source and one sink.

    Each task reads from three tasks of the layer before (fewer where the same is drawn twice). Costs, sizes and speeds
    are uniform within a factor of three; communication takes ``ccr`` times as long as computation, on average.
    """
    rng = np.random.default_rng(seed)
    width = max(2, int(tasks**0.5))
    inner = np.arange(1, tasks - 1)
    layer = (inner - 1) // width
    deep = inner[layer > 0]
    drawn = 1 + (layer[layer > 0, None] - 1) * width + rng.integers(0, width, (len(deep), 3))
    pairs = np.unique(np.stack([drawn.ravel(), np.repeat(deep, 3)], axis=1), axis=0)
    childless = np.setdiff1d(inner, pairs[:, 0])
    first = inner[layer == 0]
    before = np.concatenate([np.zeros(len(first), dtype=np.int64), pairs[:, 0], childless])
    after = np.concatenate([first, pairs[:, 1], np.full(len(childless), tasks - 1)])
    link_speed = np.triu(rng.uniform(0.5, 1.5, (devices, devices)), 1)
    link_speed = link_speed + link_speed.T + np.diag(np.full(devices, np.inf))
    return Instance(
        cost=rng.uniform(0.5, 1.5, tasks),
        before=before,
        after=after,
        size=ccr * rng.uniform(0.5, 1.5, len(before)),
        speed=rng.uniform(0.5, 1.5, devices),
        link_speed=link_speed,
    )


def least_and_median(work: Callable[[], Any], runs: int) -> tuple[float, float]:
    """Return the least and the median seconds of some runs, after one that is not counted."""
    found = repeated(work, runs)
    return min(found), statistics.median(found)


def ask_saga(
    python: str, instance: Instance, problem: Problem, timetable: Timetable, runs: int, schedulers: Sequence[str] = HEFT
) -> dict[str, Any]:
    """Return SAGA's answer on an instance, and its evaluation of this project's; see ``saga_side.py``."""
    was = problem.tables.submission
    columns = (was, timetable.processor, timetable.start_s, timetable.finish_s)
    given = {
        "cost": instance.cost.tolist(),
        "edges": list(zip(instance.before.tolist(), instance.after.tolist(), instance.size.tolist(), strict=True)),
        "speed": instance.speed.tolist(),
        "link_speed": instance.link_speed.tolist(),
        "schedule": list(zip(*[column.tolist() for column in columns], strict=True)),
        "schedulers": schedulers,
        "runs": runs,
    }
    side = Path(__file__).with_name("saga_side.py")
    asked = subprocess.run([python, str(side)], input=json.dumps(given), capture_output=True, text=True, check=True)
    answer: dict[str, Any] = json.loads(asked.stdout)
    assert answer["other_violation"] <= 1e-9 * answer["other_makespan"], "our schedule breaks SAGA's model"
    return answer


def auto(problem: Problem) -> Timetable:
    """Return the best of all policies, refined by the default number of steps."""
    entries, _ = run_policies(problem, candidates(problem))
    found = refine(problem, [entry.timetable for entry in entries])
    validate(problem, found)
    return found


def row(tasks: int, devices: int, given: argparse.Namespace) -> None:
    """Measure one size and print it."""
    instance = layered(tasks, devices, given.seed)
    runs = given.runs if tasks < 200_000 else max(1, given.runs // 4)
    build_s, _ = least_and_median(instance.problem, runs)
    problem = instance.problem()
    policy = get(given.policy)
    least_s, median_s = least_and_median(lambda: policy.schedule(problem), runs)
    timetable = policy.schedule(problem)
    validate(problem, timetable, policy=given.policy)
    edges = len(instance.before)
    text = f"{tasks:9,d} {edges:10,d} {build_s * 1e3:10.2f} {least_s * 1e3:10.2f} {median_s * 1e3:10.2f} "
    text += f"{least_s / (edges * devices) * 1e9:9.2f} {timetable.makespan_s:11.2f}"
    if given.saga and tasks <= given.saga_tasks:
        answer = ask_saga(given.saga, instance, problem, timetable, 3 if tasks <= 1000 else 1)
        its = answer["schedulers"][HEFT[0]]
        text += f" {its['seconds'] * 1e3:11.1f} {its['seconds'] / least_s:8.0f}"
        text += f" {its['makespan']:12.2f} {answer['other_makespan'] / its['makespan']:8.4f}"
        text += f" {auto(problem).makespan_s / its['makespan']:9.4f}"
    target = TARGET_MS.get(tasks) if devices == 16 else None
    if target is not None:
        text += f"  {'within' if least_s * 1e3 <= target else 'MISSES'} {target:g} ms"
    print(text, flush=True)


def compare(given: argparse.Namespace) -> None:
    """Print the ratios of makespans to those of SAGA's schedulers over some instances."""
    ratios: dict[str, list[tuple[float, float]]] = {}
    refused: dict[str, str] = {}
    for seed in range(given.compare):
        instance = layered(COMPARED_TASKS, COMPARED_DEVICES, seed, ccr=(0.1, 1.0, 5.0)[seed % 3])
        problem = instance.problem()
        timetable, best = get(given.policy).schedule(problem), auto(problem)
        answer = ask_saga(given.saga, instance, problem, best, 1, SCHEDULERS)
        for name, its in answer["schedulers"].items():
            if "refused" in its:
                refused[name] = its["refused"]
                continue
            pair = (timetable.makespan_s / its["makespan"], best.makespan_s / its["makespan"])
            ratios.setdefault(name, []).append(pair)
    print(f"our makespan over SAGA's, {given.compare} instances of {COMPARED_TASKS} tasks, {COMPARED_DEVICES} devices:")
    print(f"  {'SAGA':20s} {given.policy + ' mean':>12s} {'worst':>8s} {'auto mean':>12s} {'worst':>8s}")
    for name, pairs in ratios.items():
        mean, most = np.exp(np.log(pairs).mean(axis=0)), np.max(pairs, axis=0)
        print(f"  {name:20s} {mean[0]:12.4f} {most[0]:8.4f} {mean[1]:12.4f} {most[1]:8.4f}")
    for name, why in refused.items():
        print(f"  {name:20s} has no answer: {why}")


def main() -> None:
    """Measure and print."""
    sizes = [1_000, 10_000, 100_000, 1_000_000]
    options = parser(__doc__, tasks=sizes, devices=16, runs=9, seed=0, policy="heft", saga_tasks=10_000)
    options.add_argument("--saga", metavar="PYTHON", help="the Python of an environment with anrg-saga")
    options.add_argument("--compare", type=int, default=0, metavar="N")
    given = options.parse_args()
    head = f"{'tasks':>9} {'edges':>10} {'build ms':>10} {'least ms':>10} {'median ms':>10} {'ns/e/dev':>9}"
    head += f" {'makespan':>11}"
    if given.saga:
        head += f" {'SAGA ms':>11} {'times':>8} {'its makespan':>12} {'ours/its':>8} {'auto/its':>9}"
        print(f"aim: {TARGET_RATIO:g} times SAGA, makespan at most equal")
    print(f"{given.policy} on {given.devices} devices\n{head}")
    for tasks in given.tasks:
        row(tasks, given.devices, given)
    if given.saga and given.compare:
        compare(given)


if __name__ == "__main__":
    main()
