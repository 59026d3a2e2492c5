# SPDX-License-Identifier: Apache-2.0
"""Resources of one run of the dynamic engine: graph, work of the tasks, buffers, queues, lanes and events."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from syclsched.devices.native.sycl_types import SyclQueue
from syclsched.execution.core.events import EventTable
from syclsched.execution.core.execution_records import Counts
from syclsched.execution.dynamic.data.indexed_graph import IndexedGraph
from syclsched.execution.dynamic.submission.tasks import TaskWork
from syclsched.execution.lanes.lane_set import LaneSet
from syclsched.execution.lanes.lanes import HostLane
from syclsched.execution.memory.buffers import BufferTable


@dataclass(frozen=True, slots=True)
class RunResources:
    """Data shared by the two executors of a run: `DynamicExecutor` and the compiled fast path."""

    layout: IndexedGraph
    work: TaskWork
    buffers: BufferTable
    queues: Mapping[int, SyclQueue]  # by lane
    lanes: LaneSet
    events: EventTable
    counts: Counts

    @property
    def hosts(self) -> Mapping[int, HostLane]:
        """Host lanes, by lane."""
        return self.lanes.hosts
