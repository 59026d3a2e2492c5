# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from syclsched.backoff import backoff
from syclsched.execution.dynamic.compiled.helper_loop import compiled_backoff


def test_the_share_of_the_time_waited_is_kept_within_limits():
    assert backoff(0.0, 1.0, 8.0) == 1.0
    assert backoff(32.0, 1.0, 8.0) == 2.0
    assert backoff(1000.0, 1.0, 8.0) == 8.0


def test_a_share_of_one_doubles_each_sleep():
    waited, naps = 0.0, []
    for _ in range(6):
        naps.append(backoff(waited, 1.0, 8.0, share=1.0))
        waited += naps[-1]
    assert naps == [1.0, 1.0, 2.0, 4.0, 8.0, 8.0]


@given(st.integers(0, 10**9), st.integers(1, 10**5), st.integers(10**5, 10**6))
def test_compiled_loops_sleep_as_long_as_others(waited, shortest, longest):
    assert compiled_backoff(waited, shortest, longest, 1.0) == backoff(waited, shortest, longest, 1.0)
