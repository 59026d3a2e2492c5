# SPDX-License-Identifier: Apache-2.0
"""Display order of lanes."""

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
