# SPDX-License-Identifier: Apache-2.0
"""Extents observed in calls: bounds by powers of two, with few changes of plans."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from syclsched.frontends.onnx.observed_extents import Observed, ObservedExtents


@given(st.integers(0, 1 << 40))
def test_the_bound_is_the_least_power_of_two(most: int) -> None:
    bound = Observed(0, most).bound
    assert bound >= max(most, 2)
    assert bound & (bound - 1) == 0
    assert bound == 2 or bound // 2 < most


@given(st.lists(st.integers(0, 1000), min_size=1))
def test_plans_change_once_a_doubling(values: list[int]) -> None:
    observed = ObservedExtents()
    for value in values:
        before, seen = observed.version, observed.get("n")
        observed.record("n", value)
        now = observed.get("n")
        assert now is not None and now.least <= value <= now.most
        if seen is not None and seen.least < seen.most and value <= seen.bound:
            assert observed.version == before
    assert observed.version <= 12
    changed = observed.version
    for value in values:
        observed.record("n", value)
    assert observed.version == changed


def test_plans_change_once_when_a_number_is_a_marker() -> None:
    observed = ObservedExtents()
    for value, version in ((3, 1), (4, 2), (2, 2), (-1, 3), (0, 3), (4, 3)):
        observed.record("n", value, marks=True)
        assert observed.version == version
