# SPDX-License-Identifier: Apache-2.0
"""Repeated simulations of a plan: statistics, and reports of incomplete runs."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.plans import copy, launch, plan_on, platform_of

from syclsched.errors import PlanError
from syclsched.model.access import AccessMode
from syclsched.model.plan import Plan, PlannedAccess, PlannedArray, PlannedTask
from syclsched.model.platform import HOST, Link
from syclsched.simulation import Disturbance, Failure, Noise, SlowDown, Trial, Trials, makespan_s, repeat, simulate

LINKS = (Link(HOST, "a", 0.0, 1.0), Link("a", HOST, 0.0, 1.0))


def plan() -> Plan:
    """Return a plan: ``t0`` makes ``x`` on ``a``, which is copied back; ``t2`` then makes ``y`` on ``b``."""
    made = plan_on(
        platform_of("a", "b", links=LINKS), a__0=[launch(0, 1.0)], a__copy=[copy(1, 1.0, "a", HOST, 0)],
        b__0=[launch(2, 1.0), launch(3, 1.0, 0)],
    )  # fmt: skip
    writes = {"t0": "x", "t2": "y", "t3": "z"}
    return replace(
        made,
        tasks=tuple(PlannedTask(n, "kernel", n, (PlannedAccess(a, AccessMode.WRITE),)) for n, a in writes.items()),
        arrays=tuple(PlannedArray(a, (1,), "float32", 4) for a in writes.values()),
    )


def test_statistics_are_those_of_complete_runs() -> None:
    trials = Trials((Trial(4.0), Trial(1.0), Trial(9.0, ("t",)), Trial(2.0), Trial(7.0, lost=("x",))))
    assert (trials.median_s, trials.mad_s, trials.worst_s, trials.incomplete) == (2.0, 1.0, 4.0, 2)
    none = Trials((Trial(9.0, ("t",)),))
    assert (none.median_s, none.mad_s, none.worst_s, none.incomplete) == (None, None, None, 1)


def test_runs_equal_those_of_simulate() -> None:
    disturbance = Disturbance(Noise(sigma=0.3, spread=2.0), (SlowDown("a", 0.5, 3.0),))
    trials = repeat(plan(), disturbance, range(4))
    assert trials == repeat(plan(), disturbance, range(4))
    for seed, run in enumerate(trials.runs):
        trace = simulate(plan(), noise=disturbance.noise, events=disturbance.events, seed=seed)
        assert run == Trial(trace.makespan_s)
    assert len(set(trials.makespans_s)) == 4


def test_without_a_disturbance_runs_are_as_planned() -> None:
    assert Disturbance().none
    assert not Disturbance(events=(Failure("a", 1.0),)).none
    assert repeat(plan(), Disturbance(), [0]).runs == (Trial(makespan_s(plan())),)


def test_a_failure_names_tasks_and_arrays() -> None:
    def failing(at_s: float) -> Trial:
        return repeat(plan(), Disturbance(events=(Failure("a", at_s),)), [0]).runs[0]

    assert failing(0.5) == Trial(1.0, ("t0", "t3"), ("x", "z"))
    assert failing(1.5) == Trial(2.0, (), ("x",))  # made, and not copied back
    assert failing(2.0) == Trial(2.0)


def test_a_spread_is_a_factor_in_both_directions() -> None:
    many = plan_on(platform_of("a"), a__0=[launch(n, 1.0) for n in range(2000)])
    seconds = sorted(s.duration_s for s in simulate(many, noise=Noise(spread=3.0), seed=1).spans)
    assert 1 / 3 <= seconds[0] < 0.35
    assert 2.9 < seconds[-1] <= 3.0
    assert seconds[1000] == pytest.approx(1.0, abs=0.1)
    with pytest.raises(PlanError, match="spread"):
        Noise(spread=0.5)


@pytest.mark.parametrize("seed", [-1, 1.5, True, "1"])
def test_invalid_seeds_are_refused(seed: object) -> None:
    with pytest.raises(PlanError, match="whole number"):
        simulate(plan(), seed=seed)  # type: ignore[arg-type]
    with pytest.raises(PlanError, match="whole number"):
        repeat(plan(), Disturbance(), [seed])  # type: ignore[list-item]


def test_invalid_noise_and_missing_seeds_are_refused() -> None:
    with pytest.raises(PlanError, match="Noise"):
        simulate(plan(), noise=0.1)  # type: ignore[arg-type]
    with pytest.raises(PlanError, match="seeds"):
        repeat(plan(), Disturbance(), [])
