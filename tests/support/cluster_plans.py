# SPDX-License-Identifier: Apache-2.0
"""Plans for clusters with each task on a given device."""

from __future__ import annotations

from collections.abc import Callable

from syclsched.cluster import Cluster
from syclsched.model.graph import TaskGraph
from syclsched.model.plan import Plan
from syclsched.model.schedule import Assignment, Schedule
from syclsched.planning import build_plan
from syclsched.simulation import predict


def fixed(cluster: Cluster, graph: TaskGraph, place: Callable[[str], str]) -> Plan:
    """Plan a graph with each task on the device, such as ``node0/cpu``, that ``place`` gives for its name."""
    assignments = []
    for position, task in enumerate(graph.tasks):
        device = place(task.name)
        assert task.operation is not None
        kinds = ("host",) if device.endswith("/host") else ("opencl-c", "python")
        chosen = next(i.name for kind in kinds for i in task.operation.implementations if i.kind == kind)
        assignments.append(Assignment(task.name, device, 0, chosen, float(position), position + 1.0))
    schedule = Schedule("by hand", tuple(assignments))
    durations = dict.fromkeys((task.name for task in graph.tasks), 1e-4)
    return predict(build_plan(graph, cluster.platform(), schedule, durations))
