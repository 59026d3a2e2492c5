# SPDX-License-Identifier: Apache-2.0
"""State of a process's runs at one moment: the content of a status file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final, Literal

from annotated_types import Le

from syclsched.model.plan import LaneKind
from syclsched.model.profile import Count, Name, NonNegative, Positive, Text
from syclsched.model.text.json_serialisation import Serialisable

#: Format of status files; a reader leaves out files of any other.
STATUS_FORMAT: Final = "syclsched-status/1"

#: How a run ended.
Ending = Literal["done", "failed", "cancelled"]


@dataclass(frozen=True, slots=True)
class LaneStatus(Serialisable):
    """One lane of a graph's plan, over all its runs in flight."""

    lane: Name
    device: Name
    kind: LaneKind
    #: Tasks that the runs in flight have completed on this lane, and all of theirs; None if that is not known
    #: beforehand, as under a dynamic policy.
    tasks_done: Count
    tasks: Count | None
    #: Share of the last ten seconds in which the lane executed instructions; None if it is not known.
    busy: NonNegative | None
    current: Text | None  # instruction that it executes or waits to execute; None if it has none
    waits_for: Text | None  # incomplete predecessor of that instruction
    #: Share of the makespan in which the lane executes instructions by the plan; None without one.
    predicted_busy: NonNegative | None = None


@dataclass(frozen=True, slots=True)
class RunStatus(Serialisable):
    """One run in flight."""

    elapsed_s: NonNegative  # since its first submission; while kernels are compiled, since its start
    is_preparing: bool  # whether its kernels are still being compiled
    tasks_done: Count
    tasks: Count
    is_call: bool = False  # whether the run is one call of compiled code, whose tasks cannot be seen
    priority: Annotated[int, Le(0)] = 0
    share: Positive | None = None
    waits: bool = False  # whether the run waits for others of higher priority or with less than their share


@dataclass(frozen=True, slots=True)
class EndedRun(Serialisable):
    """One run that has ended."""

    ended_s: NonNegative  # seconds since the epoch
    seconds: NonNegative  # from its first submission to its end, on the host's clock
    ending: Ending


@dataclass(frozen=True, slots=True)
class GraphStatus(Serialisable):
    """The runs of one plan, or of one graph under a dynamic policy."""

    name: Text
    policy: Text
    predicted_s: NonNegative | None  # makespan to expect; None without a plan
    runs: tuple[RunStatus, ...]  # runs in flight, the oldest first; at most eight
    in_flight: Count  # number of all runs in flight
    #: Number of runs that have ended since the process allowed monitoring, by how they ended, and of recoveries.
    done: Count
    failed: Count
    cancelled: Count
    recoveries: Count
    ended: tuple[EndedRun, ...]  # the latest runs that have ended, the latest last
    lanes: tuple[LaneStatus, ...]


@dataclass(frozen=True, slots=True)
class MemoryStatus(Serialisable):
    """The process's memory in one memory space, in bytes."""

    space: Name
    in_use_bytes: Count
    reserved_bytes: Count  # allocated from the runtime: in use, and kept for reuse
    peak_bytes: Count  # most bytes in use at once
    limit_bytes: Count  # capacity or memory limit; 0 if unknown


@dataclass(frozen=True, slots=True)
class ProcessStatus(Serialisable):
    """The runs and the memory of one process."""

    pid: Count
    command: Text
    allowed_s: NonNegative  # when the process allowed monitoring; seconds since the epoch
    written_s: NonNegative  # when this was written; seconds since the epoch
    graphs: tuple[GraphStatus, ...]  # the latest used first
    memory: tuple[MemoryStatus, ...]
    format: Literal["syclsched-status/1"] = STATUS_FORMAT

    @property
    def in_flight(self) -> int:
        """Number of runs in flight."""
        return sum(graph.in_flight for graph in self.graphs)
