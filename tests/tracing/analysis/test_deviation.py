# SPDX-License-Identifier: Apache-2.0
"""Significance of the difference between a simulated run and its prediction."""

from __future__ import annotations

from dataclasses import replace

from support.synthetic import two_devices

from syclsched.simulation import Failure, Noise, SlowDown, predict, simulate
from syclsched.tracing import make_report
from syclsched.tracing.analysis.deviation import deviates
from syclsched.tracing.report_content import family_table


def test_a_simulation_deviates_if_and_only_if_something_happened() -> None:
    plan = predict(two_devices())
    assert not deviates(simulate(plan))
    assert deviates(simulate(plan, noise=Noise(sigma=0.2), seed=1))
    assert deviates(simulate(plan, events=(SlowDown("gpu", 0.0, 2.0),)))
    assert deviates(simulate(plan, events=(Failure("gpu", 0.0),)))


def test_without_predicted_times_nothing_deviates() -> None:
    trace = simulate(predict(two_devices()), noise=Noise(sigma=0.2), seed=1)
    assert not deviates(replace(trace, predicted_makespan_s=0.0))


def test_rounding_is_no_deviation() -> None:
    trace = simulate(predict(two_devices()))
    rounded = tuple(replace(s, finish_s=s.finish_s + 1e-9 * trace.makespan_s) for s in trace.spans)
    assert not deviates(replace(trace, spans=rounded))


def test_tables_compare_disturbed_times_only() -> None:
    plan = predict(two_devices())
    noisy = simulate(plan, noise=Noise(sigma=0.2), seed=1)
    assert family_table(make_report(noisy, plan)).numbers == ("tasks", "predicted", "simulated", "ratio")
    assert family_table(make_report(simulate(plan), plan)).numbers == ("tasks", "predicted")
    assert "measured" in family_table(make_report(replace(simulate(plan), simulated=False), plan)).numbers
