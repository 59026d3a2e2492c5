# SPDX-License-Identifier: Apache-2.0
"""Contests of plans with made-up makespans: participants, the order of runs, and the plan kept."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

import syclsched
from syclsched import workloads
from syclsched.costs.history import RunKind, Sample
from syclsched.model.graph import TaskGraph
from syclsched.model.plan import Plan
from syclsched.planner import plan_contenders, plan_graph
from syclsched.planner.contest import (
    MOST,
    NEEDED,
    REACH,
    Contender,
    Contest,
    identity_of,
    is_single,
    with_measured_best,
)


def cholesky(n: int = 256) -> TaskGraph:
    kind = workloads.get("cholesky")
    return kind.build(kind.options(n=n, tile=64)).graph


def runs(*seconds: float, quiet: bool = True) -> tuple[Sample, ...]:
    return tuple(Sample(each, float(n), None, "selection", quiet) for n, each in enumerate(seconds))


def contest(**measured: Mapping[RunKind, Sequence[Sample]]) -> Contest:
    """Return a contest of plans by name, the best prediction first, with their runs."""
    return Contest(
        tuple(Contender(name, f"auto: {name}", 1.0 + n, found) for n, (name, found) in enumerate(measured.items()))
    )


def winner(held: Contest) -> str | None:
    found = held.winner()
    return None if found is None else found.identity


# --- which plans take part --------------------------------------------------------------------------


def test_plans_of_a_contest_are_close_and_differ() -> None:
    graph, platform = cholesky(), syclsched.describe(["cpu", "max1550"])
    plans = plan_contenders(graph, platform, most=MOST)
    best = plans[0]
    assert 1 < len(plans) <= MOST
    assert best == plan_graph(graph, platform)
    assert all(plan.makespan_s <= REACH * best.makespan_s for plan in plans)
    placements = {tuple((a.task, a.device, a.implementation) for a in plan.schedule.assignments) for plan in plans}
    assert len(placements) == len({identity_of(plan) for plan in plans}) == len(plans)
    for plan in plans:
        syclsched.verify(plan, graph)
        assert plan.policy.startswith("auto: ")
        # Tasks on the host take longer where kernels share its cores.
        assert (plan.options == best.options) == (plan.platform == best.platform)


def test_the_best_single_device_takes_part_if_it_is_within_reach() -> None:
    graph, platform = cholesky(), syclsched.describe(["cpu", "max1550"])
    plans = plan_contenders(graph, platform, most=MOST)
    singles = [c.makespan_s for c in plans[0].candidates if c.policy.startswith("single:") and c.makespan_s is not None]
    within = min(singles) <= REACH * plans[0].makespan_s
    assert any(is_single(plan) for plan in plans) == within


def test_a_named_policy_and_another_objective_make_one_plan() -> None:
    graph, platform = cholesky(), syclsched.describe(["cpu", "max1550"])
    assert len(plan_contenders(graph, platform, policy="heft", most=MOST)) == 1
    assert len(plan_contenders(graph, platform, minimize="memory", most=MOST)) == 1


def test_equal_plans_have_one_identity_for_all_predictions() -> None:
    graph, platform = cholesky(), syclsched.describe(["cpu", "max1550"])
    one, other = plan_graph(graph, platform, policy="heft"), plan_graph(graph, platform, policy="single:max1550")
    assert identity_of(one) == identity_of(replace(one, makespan_s=7.0, policy="another"))
    assert identity_of(one) != identity_of(other)
    assert "on max1550" in identity_of(other)


# --- the plan that is kept --------------------------------------------------------------------------


def test_plans_are_tried_in_turn_and_the_fastest_is_kept() -> None:
    true_s = {"a": 3.0, "b": 1.5, "c": 2.0}
    measured: dict[str, dict[RunKind, tuple[Sample, ...]]] = {name: {} for name in true_s}
    order = []
    while winner(contest(**measured)) is None:
        name = contest(**measured).next_to_run().identity
        kind: RunKind = "later" if "first" in measured[name] else "first"
        measured[name][kind] = runs(*(true_s[name] for _ in range(1 + len(measured[name].get(kind, ())))))
        order.append(name)
    assert order[:6] == ["a", "b", "c", "a", "b", "c"]
    assert len(order) == 3 * (1 + NEEDED)
    assert winner(contest(**measured)) == "b"
    assert contest(**measured).next_to_run().identity == "b"


def test_processes_that_run_once_each_decide_too() -> None:
    assert winner(contest(a={"first": runs(3.0)}, b={"first": runs(2.0, 2.0)})) is None
    assert winner(contest(a={"first": runs(3.0, 3.0)}, b={"first": runs(2.0, 2.0)})) == "b"


def test_runs_of_different_kinds_are_not_compared() -> None:
    held = contest(a={"first": runs(3.0, 3.0)}, b={"later": runs(1.0, 1.0), "first": runs(4.0)})
    assert winner(held) is None
    assert held.next_to_run().identity == "b"


def test_even_medians_go_to_the_better_prediction() -> None:
    assert winner(contest(a={"later": runs(1.02, 1.02)}, b={"later": runs(1.0, 1.0)})) == "a"
    assert winner(contest(a={"later": runs(1.05, 1.05)}, b={"later": runs(1.0, 1.0)})) == "b"


def test_a_clearly_slower_plan_is_tried_once() -> None:
    held = contest(a={"later": runs(1.0, 1.0)}, b={"later": runs(2.5)})
    assert winner(held) == "a"
    assert winner(contest(a={"later": runs(1.0, 1.0)}, b={"later": runs(1.5)})) is None
    # One disturbed run is no evidence, two are if the difference is large.
    assert winner(contest(a={"later": runs(1.0, 1.0)}, b={"later": runs(9.0, quiet=False)})) is None
    assert winner(contest(a={"later": runs(1.0, 1.0)}, b={"later": runs(9.0, 3.0, quiet=False)})) is None
    busy: Mapping[RunKind, Sequence[Sample]] = {"later": runs(2.0, 1.0, quiet=False)}
    assert winner(contest(a=busy, b={"later": runs(9.0, 6.0, quiet=False)})) == "a"


def test_runs_under_load_count_only_where_there_are_many() -> None:
    a: Mapping[RunKind, Sequence[Sample]] = {"later": runs(1.0, 1.0)}
    assert winner(contest(a=a, b={"later": runs(0.5, 0.5, 0.5, quiet=False)})) is None
    assert winner(contest(a=a, b={"later": runs(0.5, 0.5, 0.5, 5.0, 5.0, quiet=False)})) == "b"
    # A single trusted run outweighs them.
    assert winner(contest(a=a, b={"later": runs(*[0.5] * 4, quiet=False) + runs(3.0)})) == "a"


def test_chosen_plan_that_becomes_slow_is_compared_again() -> None:
    fast, other = runs(1.0, 1.0, 1.0, 1.0), runs(1.5, 1.5)
    assert winner(contest(a={"later": fast}, b={"later": other})) == "a"
    slowed = fast + runs(4.0)
    assert winner(contest(a={"later": slowed}, b={"later": other})) == "a"  # one run may be an accident
    assert winner(contest(a={"later": slowed + runs(4.0)}, b={"later": other})) == "b"
    # The machine as a whole became slow: the other plan's next runs show it.
    slower = contest(a={"later": slowed + runs(4.0)}, b={"later": other + runs(6.0, 6.0)})
    assert winner(slower) == "a"


def test_a_plan_that_fails_and_never_succeeds_is_given_up() -> None:
    failed = runs(0.0, 0.0, quiet=False)
    assert winner(contest(a={"failed": failed[:1]}, b={"later": runs(1.0, 1.0)})) is None
    assert winner(contest(a={"failed": failed}, b={"later": runs(1.0, 1.0)})) == "b"
    assert contest(a={"failed": failed}, b={"first": runs(1.0)}).next_to_run().identity == "b"
    assert contest(a={"failed": failed}, b={"failed": failed}).next_to_run().identity == "a"


def test_only_plan_is_taken_at_once() -> None:
    assert winner(contest(a={})) == "a"
    assert contest(a={}).trials(contest(a={}).next_to_run()) == ()


@pytest.mark.parametrize("seed", range(20))
def test_noise_does_not_hide_a_difference_of_ten_times(seed: int) -> None:
    chance = random.Random(seed)
    true_s = {"a": 1.0, "b": 0.1, "c": 1.0}
    measured: dict[str, dict[RunKind, tuple[Sample, ...]]] = {name: {} for name in true_s}
    for _ in range(40):
        name = contest(**measured).next_to_run().identity
        kind: RunKind = "later" if "first" in measured[name] else "first"
        noisy_s = true_s[name] * chance.uniform(1.0, 2.0)
        measured[name][kind] = measured[name].get(kind, ()) + runs(noisy_s, quiet=chance.random() < 0.8)
    assert winner(contest(**measured)) == "b"
    assert sum(len(found) for found in measured["b"].values()) > 25


# --- plans made again -------------------------------------------------------------------------------


def made(name: str, makespan_s: float) -> tuple[str, Plan]:
    graph, platform = cholesky(128), syclsched.describe(["max1550"])
    return name, replace(plan_graph(graph, platform, policy="heft"), makespan_s=makespan_s)


def test_the_measured_best_plan_is_kept_when_plans_are_made_again() -> None:
    _, old = made("old", 9.0)
    new, slow = made("new", 1.0), made("slow", 3.0)
    assert with_measured_best([new, slow], None) == [new, slow]
    assert with_measured_best([new, slow], ("old", old, 2.0)) == [new, ("old", old)]
    assert with_measured_best([slow], ("old", old, 2.0)) == [("old", old)]
    # The same plan made again has new predictions.
    assert with_measured_best([new, slow], ("new", old, 0.5)) == [new]


# --- messages to the user ---------------------------------------------------------------------------


def test_a_plan_lists_its_trials_and_the_reason_of_the_choice() -> None:
    held = contest(a={"later": runs(0.3, 0.3)}, b={"later": runs(0.1, 0.1)}, c={"later": runs(0.9)})
    _, plan = made("b", 0.2)
    chosen = held.next_to_run()
    plan = replace(plan, trials=held.trials(chosen))
    (line,) = [each for each in str(plan).splitlines() if each.startswith("  tried")]
    assert "auto: b 100.0 ms in 2 runs (2.000 s predicted); auto: a 300.0 ms in 2 runs" in line
    assert "auto: c 900.0 ms in 1 run" in line
    assert line.endswith("the first of them is the fastest of 3 plans and is kept")
    task = plan.tasks[0].name
    assert line.split(None, 1)[1] in plan.explain(task)
    assert Plan.from_json(plan.to_json()) == plan


def test_a_plan_under_trial_is_marked() -> None:
    held = contest(a={"first": runs(0.3)}, b={})
    _, plan = made("b", 0.2)
    plan = replace(plan, trials=held.trials(held.next_to_run()))
    (line,) = [each for each in str(plan).splitlines() if each.startswith("  tried")]
    assert line == (
        "  tried        auto: b not yet (2.000 s predicted); auto: a 300.0 ms in 1 run (1.000 s predicted): 2 plans "
        "within the uncertainty of the predictions, tried in turn until the fastest is known"
    )


def test_a_plan_is_expected_to_take_as_long_as_its_runs() -> None:
    _, plan = made("a", 0.2)
    once, twice = (contest(a={"later": runs(*[0.3] * n)}) for n in (1, 2))
    assert replace(plan, trials=once.trials(once.next_to_run())).expected_s == 0.2
    plan = replace(plan, trials=twice.trials(twice.next_to_run()))
    assert (plan.expected_s, plan.makespan_s) == (0.3, 0.2)
    assert "  predicted    300.0 ms (as in 2 runs; by simulation 200.0 ms) for" in str(plan)
    assert "tried" not in str(plan)  # nothing else was
    assert Plan.from_json(plan.to_json()) == plan
