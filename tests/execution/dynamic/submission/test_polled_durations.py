# SPDX-License-Identifier: Apache-2.0
"""Durations inferred from polling: never before the submission or the end of the preceding command."""

from __future__ import annotations

from syclsched.execution.dynamic.submission.polled_durations import PolledDurations


def test_commands_of_one_poll_share_the_elapsed_time() -> None:
    observed = PolledDurations(2)
    assert observed.estimate_spans(0, submit_ns=100, count=2, now_ns=300) == [(100, 200), (200, 300)]
    assert observed.estimate_spans(0, submit_ns=150, count=1, now_ns=450) == [(300, 450)]
    assert observed.estimate_spans(0, submit_ns=0, count=0, now_ns=500) == []
    assert observed.estimate_spans(0, submit_ns=460, count=1, now_ns=700) == [(500, 700)]
    assert observed.estimate_spans(1, submit_ns=650, count=1, now_ns=700) == [(650, 700)]
