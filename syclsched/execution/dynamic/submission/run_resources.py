# SPDX-License-Identifier: Apache-2.0
"""Resources of one run of the dynamic engine: graph, work of the tasks, buffers, queues and host lanes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from syclsched.devices.native.sycl_types import SyclQueue
from syclsched.execution.dynamic.data.indexed_graph import IndexedGraph
from syclsched.execution.dynamic.submission.submitter import Submitter
from syclsched.execution.dynamic.submission.tasks import TaskWork
from syclsched.execution.lanes.lanes import HostLane
from syclsched.execution.memory.buffers import BufferTable


@dataclass(frozen=True, slots=True)
class RunResources:
    """Data shared by the two executors of a run: `DynamicExecutor` and the compiled fast path."""

    layout: IndexedGraph
    work: TaskWork
    buffers: BufferTable
    submitter: Submitter
    #: Queues and host lanes, by lane.
    queues: Mapping[int, SyclQueue]
    hosts: Mapping[int, HostLane]
