# SPDX-License-Identifier: Apache-2.0
"""Generations of a plan take turns on a lane: their times are made to say so where they are shared out. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import groupby, pairwise

from syclsched.model.trace import Span


def in_turn(spans: Iterable[Span]) -> list[Span]:
    """Return the spans of several generations so that none begins before what came before it on its lane has ended.

    A lane is an in-order queue. But of calls of libraries only all together are known to have ended: they share the
    time since they could have begun, and a generation alone does not know that the one before was still on the lane.
    """
    lanes: dict[str, list[Span]] = {}
    for span in spans:
        lanes.setdefault(span.lane, []).append(span)
    return [span for lane in lanes.values() for span in (_on_a_lane(lane) if _overlap(lane) else lane)]


def _overlap(spans: list[Span]) -> bool:
    ordered = sorted(spans, key=lambda s: (s.start_s, s.finish_s))
    return any(b.start_s < a.finish_s for a, b in pairwise(ordered))


def _on_a_lane(spans: list[Span]) -> Iterator[Span]:
    spans.sort(key=lambda s: (s.submit_s, s.instruction))
    reached_s = float("-inf")
    for _, same in groupby(spans, lambda s: s.generation):
        turn = list(same)
        begin_s, end_s = min(s.start_s for s in turn), max(s.finish_s for s in turn)
        if begin_s < reached_s:
            later_s = max(reached_s, end_s)
            factor = (later_s - reached_s) / (end_s - begin_s) if end_s > begin_s else 0.0
            for span in turn:
                start_s = reached_s + factor * (span.start_s - begin_s)
                finish_s = min(later_s, reached_s + factor * (span.finish_s - begin_s))
                yield replace(span, start_s=min(start_s, finish_s), finish_s=finish_s)
            reached_s = later_s
        else:
            yield from turn
            reached_s = end_s
