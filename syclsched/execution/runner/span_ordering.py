# SPDX-License-Identifier: Apache-2.0
"""Ordering of trace spans: instances on the same in-order lane must not overlap in time. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import groupby, pairwise

from syclsched.model.trace import Span


def order_spans(spans: Iterable[Span]) -> list[Span]:
    """Return the spans of several instances, with times shifted so that instances on a lane do not overlap.

    A lane is an in-order queue. But library calls of one instance have only a common end time, and share the time since
    they could have begun. These estimates do not consider that the previous instance still occupied the lane.
    """
    lanes: dict[str, list[Span]] = {}
    for span in spans:
        lanes.setdefault(span.lane, []).append(span)
    return [span for lane in lanes.values() for span in (_order_lane(lane) if _overlap(lane) else lane)]


def _overlap(spans: list[Span]) -> bool:
    ordered = sorted(spans, key=lambda s: (s.start_s, s.finish_s))
    return any(b.start_s < a.finish_s for a, b in pairwise(ordered))


def _order_lane(spans: list[Span]) -> Iterator[Span]:
    spans.sort(key=lambda s: (s.submit_s, s.instruction))
    reached_s = float("-inf")
    for _, group in groupby(spans, lambda s: s.generation):
        instance = list(group)
        begin_s, end_s = min(s.start_s for s in instance), max(s.finish_s for s in instance)
        if begin_s < reached_s:
            new_end_s = max(reached_s, end_s)
            factor = (new_end_s - reached_s) / (end_s - begin_s) if end_s > begin_s else 0.0
            for span in instance:
                start_s = reached_s + factor * (span.start_s - begin_s)
                finish_s = min(new_end_s, reached_s + factor * (span.finish_s - begin_s))
                yield replace(span, start_s=min(start_s, finish_s), finish_s=finish_s)
            reached_s = new_end_s
        else:
            yield from instance
            reached_s = end_s
