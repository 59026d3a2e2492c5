# SPDX-License-Identifier: Apache-2.0
"""Balanced numbers of samples and of layers."""

from __future__ import annotations

import math
from itertools import combinations, permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from syclsched.training.splitting.balance import line_through, parts_by_speed, samples_by_speed, stage_ends

SECONDS = st.floats(1e-6, 1.0)


def test_samples_go_by_the_speed_of_devices() -> None:
    assert samples_by_speed(100, [0, 0], [1.0, 3.0]) == [75, 25]
    assert samples_by_speed(10, [0, 0, 0], [1.0, 1.0, 1.0]) == [4, 3, 3]
    # Both end after 15 s.
    assert samples_by_speed(20, [0, 10.0], [1.0, 1.0]) == [15, 5]
    # It would begin after the other has ended.
    assert samples_by_speed(20, [0, 30.0], [1.0, 1.0]) == [20, 0]
    assert samples_by_speed(20, [0, math.inf], [1.0, math.inf]) == [20, 0]


@given(st.integers(1, 300), st.lists(st.tuples(SECONDS, SECONDS), min_size=1, max_size=5))
def test_every_sample_is_given_and_all_end_together(samples: int, devices: list[tuple[float, float]]) -> None:
    fixed_s, each_s = ([each[i] for each in devices] for i in range(2))
    found = samples_by_speed(samples, fixed_s, each_s)
    assert sum(found) == samples and min(found) >= 0
    used = [d for d, number in enumerate(found) if number]
    ends_s = [fixed_s[d] + found[d] * each_s[d] for d in used]
    assert max(ends_s) - min(ends_s) <= 2 * max(each_s[d] for d in used) * (1 + 1e-9)


def test_the_fixed_time_follows_from_steps_of_two_sizes() -> None:
    assert line_through((10, 12.0), (5, 7.0)) == (2.0, 1.0)
    assert line_through((10, 7.0), (5, 7.5)) == (7.0, 0.0)
    assert line_through((10, math.inf), (5, 7.5)) == (math.inf, math.inf)


def test_the_largest_parts_go_first() -> None:
    assert parts_by_speed([1, 8, 1], [0.0, 0.0], [1.0, 2.0]) == [1, 0, 1]
    assert parts_by_speed([4, 4], [0.0, 9.0], [1.0, 1.0]) == [0, 0]


@given(st.integers(2, 3).flatmap(lambda d: st.lists(st.lists(SECONDS, min_size=4, max_size=4), min_size=d, max_size=d)))
def test_stages_are_the_best_partition(seconds: list[list[float]]) -> None:
    table = np.array(seconds)
    order, ends = stage_ends(table)
    assert sorted(order) == list(range(len(table))) and ends[-1] == 4

    def longest(order: list[int], ends: list[int]) -> float:
        return max(table[d, a:b].sum() for d, a, b in zip(order, [0, *ends[:-1]], ends, strict=True))

    best = min(
        longest([*each], [*cut, 4])
        for each in permutations(range(len(table)))
        for cut in combinations(range(1, 4), len(table) - 1)
    )
    assert longest(order, ends) == pytest.approx(best)
