# SPDX-License-Identifier: Apache-2.0
"""The linear fit of transfer times."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from syclsched.errors import MeasurementError
from syclsched.profiling.measure.transfers import UNLIMITED_BYTES_PER_S, fit_link

SIZES = [1 << s for s in range(10, 27, 2)]


@given(st.floats(1e-7, 1e-3), st.floats(1e8, 1e12))
def test_exact_times_are_recovered_over_decades(latency: float, bandwidth: float) -> None:
    fit = fit_link([(n, latency + n / bandwidth) for n in SIZES])
    assert fit.residual < 1e-6
    for n in SIZES:
        assert fit.seconds(n) == pytest.approx(latency + n / bandwidth, rel=1e-6)


def test_a_large_absolute_error_does_not_drown_the_latency() -> None:
    points = [(n, 1e-5 + n / 1e10) for n in SIZES]
    points[-1] = (SIZES[-1], points[-1][1] * 1.3)
    assert fit_link(points).latency_s == pytest.approx(1e-5, rel=0.1)


@given(
    st.lists(
        st.tuples(st.integers(1, 1 << 30), st.floats(1e-8, 10.0)), min_size=2, max_size=12, unique_by=lambda p: p[0]
    )
)
def test_coefficients_are_non_negative_and_optimal(points: list[tuple[int, float]]) -> None:
    fit = fit_link(points)
    assert fit.latency_s >= 0
    assert 0 < fit.bandwidth_bytes_per_s <= UNLIMITED_BYTES_PER_S
    assert math.isfinite(fit.residual)

    def misfit(alpha: float, beta: float) -> float:
        return math.sqrt(sum(((alpha + beta * n - t) / t) ** 2 for n, t in points) / len(points))

    inverse = [1 / t for _, t in points]
    only_alpha = misfit(sum(inverse) / sum(i * i for i in inverse), 0.0)
    slopes = [n / t for n, t in points]
    only_beta = misfit(0.0, sum(slopes) / sum(s * s for s in slopes))
    assert fit.residual <= min(only_alpha, only_beta) + 1e-6


def test_times_that_do_not_grow_have_no_bandwidth_limit() -> None:
    fit = fit_link([(1000, 2e-5), (2000, 2e-5), (4000, 2e-5)])
    assert fit.latency_s == pytest.approx(2e-5)
    assert fit.bandwidth_bytes_per_s == UNLIMITED_BYTES_PER_S


@pytest.mark.parametrize(
    "points", [[], [(10, 1.0)], [(10, 1.0), (10, 2.0)], [(1, 0.0), (2, 1.0)], [(1, math.nan), (2, 1)]]
)
def test_unsuitable_points_are_refused(points: list[tuple[int, float]]) -> None:
    with pytest.raises(MeasurementError):
        fit_link(points)
