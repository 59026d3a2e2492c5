# SPDX-License-Identifier: Apache-2.0
"""Plans of graphs for the machines of a cluster, from task times that are measured there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import permutations
from time import perf_counter
from typing import TYPE_CHECKING, Final

from syclsched.cluster.platforms import NetworkPath, joined, machine_names, machine_of
from syclsched.costs import MemoryHistory
from syclsched.costs.history import HistoryKey
from syclsched.errors import PlanError, PolicyError
from syclsched.model.graph import TaskGraph
from syclsched.model.plan import Candidate, Plan
from syclsched.model.platform import HOST, Platform
from syclsched.model.profile import Quantity
from syclsched.scheduling.registry import AUTO

if TYPE_CHECKING:
    from syclsched.cluster.connection import Cluster
    from syclsched.cluster.node import Node

#: Seconds for planning beyond which a graph is planned no better.
BUDGET_S: Final = 5.0
#: Seconds that measuring a graph on a machine may take.
_CALIBRATION_S: Final = 600.0


def cluster_platform(cluster: Cluster) -> Platform:
    """Return the platform of all machines of a cluster."""
    machines = {name: facts.platform for name, facts in cluster.describe().items() if facts.platform is not None}
    if not machines:
        raise PlanError("no worker has a device", where="the cluster", hint="`cluster.status()` says what each lacks")
    return joined(machines, [NetworkPath(*pair, 2e-4, 1e9, measured=False) for pair in permutations([HOST, *machines], 2)])


def plan_for(
    cluster: Cluster, graph: TaskGraph, *, policy: str = AUTO, calibrate: bool = True, budget_s: float = BUDGET_S
) -> Plan:
    """Plan a graph for all machines of a cluster; by ``auto`` also for each of them alone, and return the best plan."""
    platform = cluster_platform(cluster)
    history = measured_times(cluster, graph) if calibrate else MemoryHistory()
    return plan_on(graph, platform, history, policy=policy, budget_s=budget_s)


def plan_on(
    graph: TaskGraph,
    platform: Platform,
    history: MemoryHistory,
    *,
    policy: str = AUTO,
    budget_s: float | None = None,
) -> Plan:
    """Plan a graph for a platform of several machines."""
    from syclsched.planner import plan_graph

    names = machine_names(platform)
    share_s = None if budget_s is None else budget_s / (len(names) + 1 if policy == AUTO else 1)
    clock = None if budget_s is None else perf_counter
    best = plan_graph(graph, platform, policy=policy, history=history, budget_s=share_s, clock=clock)
    if policy != AUTO or len(names) == 1:
        return best
    candidates = list(best.candidates)
    for machine in names:
        alone = platform.select([d.name for d in platform.devices if machine_of(d.name) == machine])
        try:
            found = plan_graph(graph, alone, history=history, budget_s=share_s, clock=clock)
        except (PlanError, PolicyError) as error:
            candidates.append(Candidate(f"{machine} alone", None, str(error)))
            continue
        candidates.append(Candidate(f"{machine} alone, {found.policy}", found.makespan_s))
        if found.makespan_s < best.makespan_s:
            best = found
    return replace(best, candidates=tuple(candidates))


def measured_times(cluster: Cluster, graph: TaskGraph) -> MemoryHistory:
    """Measure the tasks of a graph on one machine of each kind."""
    kinds: dict[tuple[str, ...], str] = {}
    for name, facts in cluster.describe().items():
        if facts.platform is not None:
            kinds.setdefault(tuple(device.timing_key for device in facts.platform.devices), name)
    calls = [cluster.start(name, f"{__name__}:times_here", graph) for name in kinds.values()]
    history = MemoryHistory()
    for call in calls:
        times, refusals = call.result(_CALIBRATION_S)
        history.update(times)
        for key, reason in refusals.items():
            history.refuse(key, reason)
    return history


def times_here(node: Node, graph: TaskGraph) -> tuple[dict[HistoryKey, Quantity], Mapping[HistoryKey, str]]:
    """Measure the tasks of a graph on this machine; return the times and the refusals; called on workers."""
    from syclsched.costs.history import history_key, in_run_key
    from syclsched.devices import open_devices
    from syclsched.profiling import HistoryStore
    from syclsched.profiling.calibration import calibrate

    with HistoryStore() as history, open_devices(node.platform) as live:
        calibrate(graph, node.platform, live, history)
        times: dict[HistoryKey, Quantity] = {}
        for task in graph.tasks:
            if task.operation is None or task.signature is None:
                continue
            for device in node.platform.devices:
                for implementation in task.operation.implementations:
                    key = history_key(device.timing_key, task.operation, implementation, task.signature)
                    for each in (key, in_run_key(key)):
                        found = history.lookup(each) if each not in times else None
                        if found is not None:
                            times[each] = found
        return times, {key: reason for key, reason in history.refusals().items() if key in times or True}
