# SPDX-License-Identifier: Apache-2.0
"""What was given to a lane, and what has completed."""

from __future__ import annotations

from dataclasses import dataclass

from syclsched.execution.live.coherence import Stamp
from syclsched.execution.live.happened import Entry
from syclsched.execution.live.submitter import Order
from syclsched.execution.records import Record


@dataclass(slots=True)
class Given:
    """Something that was given to a lane."""

    task: int  # which, or for whose sake
    place: int  # its place in what was given to the lane
    entry: Entry  # what the log has of it
    order: Order | None = None  # how it was submitted; None for what the host does
    ended: bool = False  # whether what the host does has ended
    #: Of what the host is not to do, as it was left out: what must have completed before it counts as done.
    behind: tuple[Stamp, ...] = ()


@dataclass(frozen=True, slots=True)
class Ended:
    """A task that has completed."""

    #: What, where.
    task: int
    processor: int
    seconds: float | None  # how long it took; None if it failed or was left out


def measured_s(record: Record | None) -> float | None:
    """Return how long something took that was done; None if that is not known."""
    if record is None or record.outcome != "done" or record.start_ns is None or record.finish_ns is None:
        return None
    return (record.finish_ns - record.start_ns) * 1e-9
