# SPDX-License-Identifier: Apache-2.0
"""Noise, slow-downs and failures in simulations: by hand, by seed, and in report and chart."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.plans import copy, launch, plan_on, platform_of, random_plans

from syclsched.errors import DeviceNotFoundError, IncompletePlanError, PlanError
from syclsched.model.plan import Plan
from syclsched.model.platform import HOST, Link
from syclsched.model.trace import Trace
from syclsched.simulation import Failure, Noise, SlowDown, predict, simulate, time_plan

A, B = "a", "b"
LINKS = (Link(HOST, A, 0.0, 1.0), Link(A, HOST, 0.0, 1.0), Link(HOST, B, 0.0, 1.0), Link(B, HOST, 0.0, 1.0))


def outcomes(trace: Trace) -> dict[int, tuple[str, float, float]]:
    return {s.instruction: (s.outcome, s.start_s, s.finish_s) for s in trace.spans}


def two_lanes() -> Plan:
    """Return a plan: ``a`` runs for 4 s and then 1 s; ``b`` waits for the first and takes 2 s."""
    return plan_on(
        platform_of(A, B, links=LINKS),
        a__0=[launch(0, 4.0), launch(1, 1.0)], b__0=[launch(2, 2.0, 0), launch(3, 1.0)],
    )  # fmt: skip


def test_a_slow_down_holds_from_its_time_until_the_next() -> None:
    trace = simulate(two_lanes(), events=(SlowDown(A, 3.0, 2.0), SlowDown(A, 6.5, 1.0)))
    # Number 0 has 1 s left at 3 s and takes 2; number 1 then does 0.75 s of its work until 6.5 s, when a recovers.
    assert outcomes(trace) == {
        0: ("done", 0.0, 5.0), 1: ("done", 5.0, 6.75), 2: ("done", 5.0, 7.0), 3: ("done", 7.0, 8.0),
    }  # fmt: skip


def test_a_slow_down_does_not_affect_copies() -> None:
    plan = plan_on(platform_of(A, links=LINKS[:2]), a__copy=[copy(0, 2.0, HOST, A)], a__0=[launch(1, 2.0)])
    assert {s.instruction: s.finish_s for s in simulate(plan, events=[SlowDown(A, 0.0, 3.0)]).spans} == {0: 2.0, 1: 6.0}


def test_a_failure_gives_outcomes_of_finished_and_lost_tasks() -> None:
    trace = simulate(two_lanes(), events=(Failure(A, 4.5),))
    assert outcomes(trace) == {
        0: ("done", 0.0, 4.0), 1: ("failed", 4.0, 4.5), 2: ("done", 4.0, 6.0), 3: ("done", 6.0, 7.0),
    }  # fmt: skip
    lost = simulate(two_lanes(), events=(Failure(A, 3.0),))
    assert outcomes(lost) == {
        0: ("failed", 0.0, 3.0), 1: ("cancelled", 3.0, 3.0), 2: ("cancelled", 3.0, 3.0), 3: ("cancelled", 3.0, 3.0),
    }  # fmt: skip
    assert lost.makespan_s == 3.0


def test_a_task_that_ends_as_its_device_fails_is_finished() -> None:
    assert outcomes(simulate(two_lanes(), events=(Failure(A, 4.0),)))[0] == ("done", 0.0, 4.0)
    assert outcomes(simulate(two_lanes(), events=(Failure(A, 4.0),)))[1][0] == "cancelled"


def test_the_memory_of_a_lost_device_is_lost_too() -> None:
    plan = plan_on(
        platform_of(A, B, links=LINKS),
        a__0=[launch(0, 1.0)], b__copy=[copy(1, 4.0, A, HOST, 0), copy(2, 1.0, HOST, B)], b__0=[launch(3, 1.0)],
    )  # fmt: skip
    trace = simulate(plan, events=(Failure(A, 2.0),))
    assert {n: o for n, (o, _, _) in outcomes(trace).items()} == {0: "done", 1: "failed", 2: "cancelled", 3: "done"}


def test_a_lost_copy_frees_its_channels() -> None:
    plan = plan_on(
        platform_of(A, B, links=(*LINKS[:2], Link(HOST, B, 0.0, 1.0, channel="host->a")), contention="one-port"),
        a__copy=[copy(0, 4.0, HOST, A)], a__0=[copy(1, 1.0, HOST, A)], b__copy=[copy(2, 1.0, HOST, B)],
    )  # fmt: skip
    trace = simulate(plan, events=(Failure(A, 2.0),))
    assert outcomes(trace) == {0: ("failed", 0.0, 2.0), 1: ("cancelled", 2.0, 2.0), 2: ("done", 2.0, 3.0)}


def test_a_circle_of_waits_is_an_error_after_a_failure_too() -> None:
    plan = plan_on(platform_of(A, B), a__0=[launch(0, 1.0, 1)], b__0=[launch(1, 1.0, 0)])
    with pytest.raises(IncompletePlanError, match="never starts"):
        simulate(plan, events=(Failure(B, 5.0),))


@pytest.mark.parametrize(
    ("event", "error", "text"),
    [
        (Failure("c", 1.0), DeviceNotFoundError, "failure of 'c'.*It has a, b, host"),
        (Failure(A, -1.0), PlanError, "the time is -1.0"),
        (SlowDown(A, math.inf, 2.0), PlanError, "the time is inf"),
        (SlowDown(A, 1.0, 0.0), PlanError, "slow-down of 'a': the factor is 0.0"),
    ],
)
def test_impossible_events_are_refused(event: SlowDown | Failure, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        simulate(two_lanes(), events=(event,))


@pytest.mark.parametrize("wrong", [{"sigma": -1.0}, {"family_sigma": math.nan}, {"families": {"gemm": 0.0}}])
def test_impossible_noise_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(PlanError, match="noise"):
        Noise(**wrong)  # type: ignore[arg-type]


def test_systematic_errors_are_factors_of_families() -> None:
    trace = simulate(two_lanes(), noise=Noise(families={"family of t0": 0.5, "family of t2": 3.0}))
    assert outcomes(trace) == {
        0: ("done", 0.0, 2.0), 1: ("done", 2.0, 3.0), 2: ("done", 2.0, 8.0), 3: ("done", 8.0, 9.0),
    }  # fmt: skip


def durations(plan: Plan, noise: Noise, seed: int) -> np.ndarray:
    spans = sorted(simulate(plan, noise=noise, seed=seed).spans, key=lambda s: s.instruction)
    return np.array([s.duration_s for s in spans])


def test_lognormal_factors_have_mean_1_and_the_given_spread() -> None:
    count = 4000
    plan = plan_on(platform_of(A), a__0=[launch(n, 1.0) for n in range(count)])
    drawn = durations(plan, Noise(sigma=0.5), 1)
    assert drawn.mean() == pytest.approx(1.0, abs=4 * math.sqrt((math.exp(0.25) - 1) / count))
    assert np.log(drawn).std() == pytest.approx(0.5, abs=4 * 0.5 / math.sqrt(2 * count))
    assert len(set(np.round(drawn, 9).tolist())) > count - 10


def test_seeds_decide_and_tasks_keep_their_factor_in_every_plan() -> None:
    noise = Noise(sigma=0.3, family_sigma=0.5)
    assert np.array_equal(durations(two_lanes(), noise, 7), durations(two_lanes(), noise, 7))
    assert not np.allclose(durations(two_lanes(), noise, 7), durations(two_lanes(), noise, 8))
    other = plan_on(platform_of(A, B), b__0=[launch(n, s) for n, s in ((0, 4.0), (1, 1.0), (2, 2.0), (3, 1.0))])
    assert durations(other, noise, 7) == pytest.approx(durations(two_lanes(), noise, 7))


@given(random_plans(), st.integers(0, 3), st.floats(0.0, 20.0))
def test_disturbed_traces_are_consistent_and_repeatable(plan: Plan, seed: int, at_s: float) -> None:
    try:
        time_plan(plan)
    except IncompletePlanError:
        return
    noise, events = Noise(sigma=0.4), (SlowDown("d0", at_s / 2, 2.5), Failure("d0", at_s))
    trace = simulate(plan, noise=noise, events=events, seed=seed)
    assert trace == simulate(plan, noise=noise, events=events, seed=seed)
    by_number = {s.instruction: s for s in trace.spans}
    assert len(by_number) == sum(1 for _, i in plan.instructions() if i.kind not in ("alloc", "free"))
    for span in trace.spans:
        if span.device == "d0":
            assert span.finish_s <= at_s
        if span.outcome != "cancelled":
            waited = [by_number[w] for w in span.waits if w in by_number]
            assert all(s.outcome == "done" and s.finish_s <= span.start_s for s in waited)


def test_a_disturbed_trace_reports_and_draws(tmp_path: Path) -> None:
    from syclsched.tracing import draw_gantt, make_report, to_perfetto

    plan = predict(two_lanes())
    trace = simulate(plan, noise=Noise(sigma=0.2), events=(SlowDown(B, 1.0, 2.0), Failure(A, 4.5)), seed=3)
    report = make_report(trace, plan)
    assert (report.failed, report.cancelled) == (
        sum(s.outcome == "failed" for s in trace.spans), sum(s.outcome == "cancelled" for s in trace.spans),
    )  # fmt: skip
    assert report.failed + report.cancelled > 0
    draw_gantt(trace, tmp_path / "disturbed.svg")
    assert "<svg" in (tmp_path / "disturbed.svg").read_text()
    assert to_perfetto(trace)["traceEvents"]
