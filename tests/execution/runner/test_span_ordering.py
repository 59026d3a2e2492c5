# SPDX-License-Identifier: Apache-2.0
"""Order of the spans of generations on one lane in traces."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.synthetic import span

from syclsched.execution.runner.span_ordering import order_spans
from syclsched.model.trace import Span


def call(number: int, generation: int, submit_s: float, start_s: float, finish_s: float, lane: str = "cpu:0") -> Span:
    return replace(span(number, lane, start_s, finish_s), submit_s=submit_s, generation=generation)


def test_a_generation_begins_when_the_one_before_has_ended() -> None:
    first = (call(0, 0, 0.0, 0.0, 2.0), call(1, 0, 0.1, 2.0, 4.0))
    second = (call(2, 1, 1.0, 1.0, 3.0), call(3, 1, 1.1, 3.0, 7.0))
    beside = call(4, 1, 1.0, 1.0, 2.0, "cpu:copy")
    found = {s.instruction: (s.start_s, s.finish_s) for s in order_spans((*second, beside, *first))}
    assert found[0] == (0.0, 2.0) and found[1] == (2.0, 4.0) and found[4] == (1.0, 2.0)
    assert found[2] == pytest.approx((4.0, 5.0)) and found[3] == pytest.approx((5.0, 7.0))


def test_spans_that_end_before_their_predecessor_have_no_length() -> None:
    found = order_spans((call(0, 0, 0.0, 0.0, 4.0), call(1, 1, 1.0, 1.0, 3.0)))
    assert [(s.start_s, s.finish_s) for s in found] == [(0.0, 4.0), (4.0, 4.0)]


TIMES = st.tuples(st.integers(0, 3), st.floats(0, 5), st.floats(0, 5), st.floats(0, 5))


def test_spans_without_overlap_are_unchanged() -> None:
    spans = [call(0, 0, 1.0, 1.0, 2.0), call(1, 1, 0.0, 3.0, 4.0)]
    assert order_spans(spans) == spans


@given(st.lists(TIMES, max_size=12))
def test_turns_never_overlap_and_nothing_is_lost(drawn: list[tuple[int, float, float, float]]) -> None:
    spans = [call(n, g, submit, submit + wait, submit + wait + run) for n, (g, submit, wait, run) in enumerate(drawn)]
    found = order_spans(spans)
    assert sorted(s.instruction for s in found) == list(range(len(spans)))
    assert all(s.start_s <= s.finish_s for s in found)
    ordered = sorted(spans, key=lambda s: (s.start_s, s.finish_s))
    if all(a.finish_s <= b.start_s for a, b in pairwise(ordered)):
        assert found == spans
        return
    turns: list[list[Span]] = []
    for s in found:
        if not turns or turns[-1][-1].generation != s.generation:
            turns.append([])
        turns[-1].append(s)
    assert all(max(s.finish_s for s in a) <= min(s.start_s for s in b) + 1e-12 for a, b in pairwise(turns))
