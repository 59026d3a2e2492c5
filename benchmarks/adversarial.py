# SPDX-License-Identifier: Apache-2.0
"""Adversarial instances: a search in the manner of PISA for instances on which a scheduler does badly.

    python benchmarks/adversarial.py [--searches 5] [--rounds 300] [--tasks 12] [--devices 3] [--seed 0]

Simulated annealing over small instances with the moves of PISA (Coleman and Krishnamachari 2024): add or delete a
dependency, change the weight of a task, of a dependency, the speed of a device or of a link, all between bounds. Two
searches: for the largest ratio of HEFT to the best known makespan, and for the largest ratio of the project's own
answer (the best of the textbook policies, refined by default steps, as ``auto`` does) to it. Best known is a search
with many more steps, and at last the optimum by CP-SAT where the extra ``exact`` is installed.
"""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from common import parser

from syclsched.errors import PolicyError, SyclschedError
from syclsched.scheduling import Problem, Timetable, candidates, get, makespan_s, problem_from_arrays, validate
from syclsched.scheduling.exact import solve
from syclsched.scheduling.search import refine

#: Weights and speeds are between these, as in PISA's.
LEAST, MOST = 0.1, 1.0

#: Steps of the search for the best known makespan, during the search over instances.
STEPS = 3_000

Edges = dict[tuple[int, int], float]


@dataclass(frozen=True, slots=True)
class Candidate:
    """An instance on related machines: time is weight over speed.

    Parameters
    ----------
    weights, speeds : tuple of float
        Of the tasks, and of the devices.
    edges : dict of (int, int) to float
        Data between tasks; the first number is the smaller.
    links : dict of (int, int) to float
        Speed between two devices, both ways; the first number is the smaller.
    """

    weights: tuple[float, ...]
    speeds: tuple[float, ...]
    edges: Edges
    links: Edges

    def problem(self) -> Problem:
        """Return it as a scheduling problem."""
        devices = len(self.speeds)
        per_byte = np.zeros((devices, devices))
        for (a, b), speed in self.links.items():
            per_byte[a, b] = per_byte[b, a] = 1.0 / speed
        ends = np.array(list(self.edges), np.int64).reshape(-1, 2)
        costs = np.array(self.weights)[:, None] / np.array(self.speeds)[None, :]
        return problem_from_arrays(costs, ends[:, 0], ends[:, 1], list(self.edges.values()), s_per_byte=per_byte)


def random_candidate(tasks: int, devices: int, rng: random.Random) -> Candidate:
    """Return a sparse random graph on random devices."""
    pairs = [(a, b) for a in range(tasks) for b in range(a + 1, tasks)]
    return Candidate(
        tuple(rng.uniform(LEAST, MOST) for _ in range(tasks)),
        tuple(rng.uniform(LEAST, MOST) for _ in range(devices)),
        {pair: rng.uniform(LEAST, MOST) for pair in rng.sample(pairs, min(len(pairs), 2 * tasks))},
        {(a, b): rng.uniform(LEAST, MOST) for a in range(devices) for b in range(a + 1, devices)},
    )


def neighbour(candidate: Candidate, rng: random.Random) -> Candidate:
    """Return the candidate after one of PISA's moves."""

    def changed(value: float) -> float:
        return min(MOST, max(LEAST, value + rng.uniform(-0.25, 0.25) * (MOST - LEAST)))

    def one_changed(values: tuple[float, ...]) -> tuple[float, ...]:
        at = rng.randrange(len(values))
        return (*values[:at], changed(values[at]), *values[at + 1 :])

    def one_weight(values: Edges) -> Edges:
        if not values:
            return values
        key = rng.choice(list(values))
        return {**values, key: changed(values[key])}

    def added() -> Edges:
        a, b = sorted(rng.sample(range(len(candidate.weights)), 2))
        return {(a, b): rng.uniform(LEAST, MOST), **candidate.edges}

    def deleted() -> Edges:
        gone = rng.choice([*candidate.edges, None])
        return {pair: size for pair, size in candidate.edges.items() if pair != gone}

    moves: list[Callable[[], Candidate]] = [
        lambda: replace(candidate, edges=added()),
        lambda: replace(candidate, edges=deleted()),
        lambda: replace(candidate, weights=one_changed(candidate.weights)),
        lambda: replace(candidate, edges=one_weight(candidate.edges)),
        lambda: replace(candidate, speeds=one_changed(candidate.speeds)),
        lambda: replace(candidate, links=one_weight(candidate.links)),
    ]
    return rng.choice(moves)()


def own(problem: Problem) -> Timetable:
    """Return the project's own answer: the best of the textbook policies, refined by default steps."""
    made: list[Timetable] = []
    for name in candidates(problem):
        try:
            made.append(get(name).schedule(problem))
        except SyclschedError as error:
            print(f"  ({name}: {error})")
    return refine(problem, made)


def heft_ratio(problem: Problem) -> float:
    """Return HEFT's makespan over that of a short search."""
    start = get("heft").schedule(problem)
    best_s = makespan_s(problem, refine(problem, [start], steps=STEPS))
    return makespan_s(problem, start) / best_s if best_s > 0.0 else 1.0


def own_ratio(problem: Problem) -> float:
    """Return the makespan of the project's own answer over that of a longer search with another seed."""
    found = own(problem)
    found_s = makespan_s(problem, found)
    best_s = makespan_s(problem, refine(problem, [found], steps=20 * STEPS, seed=99))
    return found_s / best_s if best_s > 0.0 else 1.0


def worst(ratio: Callable[[Problem], float], start: Candidate, rounds: int, rng: random.Random) -> Candidate:
    """Return the candidate of the largest ratio that simulated annealing finds."""
    current, value = start, ratio(start.problem())
    best, best_value = current, value
    for step in range(rounds):
        temperature = 0.2 * 0.02 ** (step / rounds)
        tried = neighbour(current, rng)
        tried_value = ratio(tried.problem())
        if tried_value > value + temperature * math.log(1.0 - rng.random()):
            current, value = tried, tried_value
            if value > best_value:
                best, best_value = current, value
    return best


def judge(candidate: Candidate, prove_s: float) -> tuple[float, float, bool]:
    """Return the makespans of HEFT and of the project over the best known one, and whether that is proved optimal."""
    problem = candidate.problem()
    found = own(problem)
    validate(problem, found)
    heft_s, own_s = makespan_s(problem, get("heft").schedule(problem)), makespan_s(problem, found)
    best = refine(problem, [found], steps=100 * STEPS, seed=7)
    best_s, proved = makespan_s(problem, best), False
    try:
        exact = solve(problem, best, limit_s=prove_s)
        best_s, proved = exact.makespan_s, exact.optimal
    except PolicyError as error:
        print(f"  (no proof: {error})")
    return heft_s / best_s, own_s / best_s, proved


def main() -> None:
    """Search, judge and print."""
    given = parser(__doc__, searches=5, rounds=300, tasks=12, devices=3, prove_s=20.0, seed=0).parse_args()
    # The second search evaluates its costly ratio twice a round: it gets fewer rounds.
    aims: list[tuple[str, Callable[[Problem], float], int]] = [
        ("HEFT", heft_ratio, given.rounds),
        ("own", own_ratio, max(1, given.rounds // 10)),
    ]
    print(f"{'against':8s} {'seed':>4s} {'tasks':>5s} {'edges':>5s} {'HEFT':>8s} {'own':>8s}  (best known = 1)")
    for name, ratio, rounds in aims:
        results: list[tuple[float, float]] = []
        for seed in range(given.seed, given.seed + given.searches):
            rng = random.Random(f"{name}-{seed}")
            found = worst(ratio, random_candidate(given.tasks, given.devices, rng), rounds, rng)
            heft, mine, proved = judge(found, given.prove_s)
            results.append((heft, mine))
            note = "proved optimal" if proved else "best found"
            print(
                f"{name:8s} {seed:4d} {given.tasks:5d} {len(found.edges):5d} {heft:8.4f} {mine:8.4f}  {note}",
                flush=True,
            )
        print(
            f"against {name}: HEFT mean {statistics.mean(h for h, _ in results):.3f}, worst {max(results)[0]:.3f}; "
            f"own mean {statistics.mean(m for _, m in results):.4f}, worst {max(m for _, m in results):.4f}"
        )


if __name__ == "__main__":
    main()
