# SPDX-License-Identifier: Apache-2.0
"""Lanes of a trace: display order, and the union of busy intervals. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from syclsched.model.trace import Span


def lane_order(spans: Iterable[Span]) -> list[str]:
    """Return lanes in display order: devices by appearance, their copy lanes last, host lanes at the end."""
    lanes = {s.lane: s for s in sorted(spans, key=lambda s: s.instruction)}
    devices: dict[str, int] = {}
    for span in lanes.values():
        devices.setdefault(span.device, len(devices))

    def key(name: str) -> tuple[bool, int, bool, int, str]:
        span = lanes[name]
        return span.lane_kind == "host", devices[span.device], span.lane_kind == "copy", len(name), name

    return sorted(lanes, key=key)


def merged(intervals: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return the union of intervals, as disjoint intervals in order; empty ones are left out."""
    found: list[tuple[float, float]] = []
    for start, finish in sorted(intervals):
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], finish))
        elif finish > start:
            found.append((start, finish))
    return found


def busy_seconds(intervals: Iterable[tuple[float, float]]) -> float:
    """Return the length of the union of intervals."""
    return sum((finish - start for start, finish in merged(intervals)), 0.0)
