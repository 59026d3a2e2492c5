# SPDX-License-Identifier: Apache-2.0
"""Least-squares fit of transfer times: latency plus bytes over bandwidth."""

from __future__ import annotations

import math
from collections.abc import Sequence

from syclsched.errors import MeasurementError
from syclsched.model.profile import LinkFit

#: Bandwidth where times do not grow with the size: above any memory's, so that bytes cost nothing.
UNLIMITED_BYTES_PER_S = 1e15


def fit_link(points: Sequence[tuple[int, float]], *, source: str | None = None) -> LinkFit:
    """Fit ``seconds = alpha + beta * bytes`` with alpha, beta >= 0, minimising the relative errors.

    Weighted linear least squares with weights ``1 / seconds**2``: sizes span decades, and unweighted the
    largest alone would decide, leaving the latency to chance. Where the free optimum has a negative
    coefficient, the optimum lies on the boundary and the other coefficient is fitted alone (the
    two-variable case of Lawson and Hanson's NNLS).
    """
    if len({size for size, _ in points}) < 2:
        raise MeasurementError("a fit needs at least two different sizes")
    if any(not math.isfinite(t) or t <= 0 for _, t in points):
        raise MeasurementError("a measured time is not positive and finite")
    alpha, beta = _non_negative(points)
    errors = [(alpha + beta * n - t) / t for n, t in points]
    residual = math.sqrt(sum(e * e for e in errors) / len(errors))
    bandwidth = UNLIMITED_BYTES_PER_S if beta <= 1 / UNLIMITED_BYTES_PER_S else 1 / beta
    return LinkFit(alpha, bandwidth, residual, tuple((int(n), float(t)) for n, t in points), source)


def _non_negative(points: Sequence[tuple[int, float]]) -> tuple[float, float]:
    # Dividing alpha + beta*n = t by t: minimise |alpha*u + beta*v - 1|^2 with u = 1/t, v = n/t.
    u = [1 / t for _, t in points]
    v = [n / t for n, t in points]
    uu, uv, vv = _dot(u, u), _dot(u, v), _dot(v, v)
    su, sv = sum(u), sum(v)
    determinant = uu * vv - uv * uv
    if determinant > 1e-12 * uu * vv:
        alpha = (su * vv - sv * uv) / determinant
        beta = (sv * uu - su * uv) / determinant
        if alpha >= 0 and beta >= 0:
            return alpha, beta
    only_alpha, only_beta = (su / uu, 0.0), (0.0, sv / vv if vv > 0 else 0.0)

    def squared_error(coefficients: tuple[float, float]) -> float:
        return sum((coefficients[0] * a + coefficients[1] * b - 1) ** 2 for a, b in zip(u, v, strict=True))

    return min(only_alpha, only_beta, key=squared_error)


def _dot(a: Sequence[float], b: Sequence[float]) -> float:
    return math.fsum(x * y for x, y in zip(a, b, strict=True))
