# SPDX-License-Identifier: Apache-2.0
"""Instances at the limits of the model: every policy and the search on each, checked by the independent validator."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
import pytest

from syclsched.errors import CapabilityError
from syclsched.scheduling import Problem, candidates, makespan_s, problem_from_arrays, validate
from syclsched.scheduling.bounds import lower_bound
from syclsched.scheduling.portfolio import run_policies
from syclsched.scheduling.search import refine

Pairs = Iterable[tuple[int, int]]

#: With two hundred devices, only some have a plan alone.
SINGLES = ("single:p0", "single:p1")


def problem(costs: np.ndarray, pairs: Pairs, nbytes: float = 1.0, **more: object) -> Problem:
    ends = np.array(sorted(pairs), np.int64).reshape(-1, 2)
    return problem_from_arrays(costs, ends[:, 0], ends[:, 1], np.full(len(ends), nbytes), **more)


def costs(tasks: int, devices: int = 3) -> np.ndarray:
    return np.random.default_rng(tasks + devices).uniform(1.0, 3.0, (tasks, devices))


def layers(tasks: int, width: int) -> Pairs:
    rng = np.random.default_rng(tasks)
    return {(int(a) + (b // width - 1) * width, b) for b in range(width, tasks) for a in rng.choice(width, 3)}


def one_task_device() -> Problem:
    seconds = costs(40)
    seconds[:, 2] = np.inf
    seconds[7] = [np.inf, np.inf, 5.0]
    return problem(seconds, layers(40, 6))


CASES: dict[str, Callable[[], Problem]] = {
    "no task": lambda: problem(np.zeros((0, 2)), ()),
    "one task": lambda: problem(costs(1), ()),
    "all tasks take no time": lambda: problem(np.zeros((30, 3)), layers(30, 5)),
    "half the tasks take no time": lambda: problem(costs(30) * (np.arange(30) % 2)[:, None], layers(30, 5)),
    "edges of no bytes": lambda: problem(costs(40), layers(40, 6), 0.0),
    "a thousand sources": lambda: problem(costs(1001), [(source, 1000) for source in range(1000)]),
    "nothing depends on anything": lambda: problem(costs(300), ()),
    "a chain": lambda: problem(costs(400), [(task, task + 1) for task in range(399)]),
    "two layers, each with each": lambda: problem(costs(80), [(a, 40 + b) for a in range(40) for b in range(40)]),
    "one device": lambda: problem(costs(60, 1), layers(60, 8)),
    "two hundred devices": lambda: problem(costs(60, 200), layers(60, 8)),
    "infinite bandwidth": lambda: problem(costs(60), layers(60, 8), s_per_byte=np.zeros((3, 3))),
    "a device that can run one task only": one_task_device,
    "two layers, one port each": lambda: problem(
        costs(40), [(a, 20 + b) for a in range(20) for b in range(20)], contention="one-port"
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_every_policy_is_valid_and_the_search_is_never_worse(case: str) -> None:
    given = CASES[case]()
    names = [name for name in candidates(given) if name in SINGLES or not name.startswith("single:")]
    entries, refusals = run_policies(given, names)  # it validates each schedule
    assert not [refusal for refusal in refusals if not refusal.policy.startswith("single:")]
    best_s = min(entry.makespan_s for entry in entries)
    found = refine(given, [entry.timetable for entry in entries], steps=200)
    validate(given, found)
    assert makespan_s(given, found) <= best_s
    assert lower_bound(given, lp=False).best_s <= makespan_s(given, found) * (1 + 1e-9)


def test_a_chain_is_solved_to_the_optimum() -> None:
    seconds = costs(400)
    given = CASES["a chain"]()
    entries, _ = run_policies(given, candidates(given))
    found = refine(given, [entry.timetable for entry in entries], steps=20_000)
    finish = seconds[0]
    for row in seconds[1:]:  # by dynamic programming: a copy between devices takes a second
        finish = np.minimum(finish, finish.min() + 1.0) + row
    assert makespan_s(given, found) == pytest.approx(finish.min())


def test_a_task_that_no_device_can_run_is_refused_by_name() -> None:
    seconds = costs(5)
    seconds[3] = np.inf
    with pytest.raises(CapabilityError, match="'t3'"):
        problem(seconds, ())
