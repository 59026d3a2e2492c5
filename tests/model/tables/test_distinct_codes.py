# SPDX-License-Identifier: Apache-2.0
"""Distinct codes by marking and by sorting, compared with NumPy's."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from syclsched.model.tables.distinct_codes import distinct


@given(st.lists(st.integers(0, 40), max_size=30), st.sampled_from([41, 100_000]))
def test_distinct_codes_equal_those_of_numpy(given: list[int], bound: int) -> None:
    codes = np.array(given, np.int64)
    found, which = distinct(codes, bound)
    expected, places = np.unique(codes, return_inverse=True)
    assert found.tolist() == expected.tolist()
    assert which.tolist() == places.tolist()
