# SPDX-License-Identifier: Apache-2.0
"""Plans of graphs for the machines of a cluster, from task times that are measured there."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Collection, Mapping
from dataclasses import replace
from math import inf
from time import perf_counter
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from syclsched.cluster.measurements.network import NetworkProfile, measure_network
from syclsched.cluster.monitor.remote_steps import kept_steps, result_of
from syclsched.cluster.platforms import joined, kind_of, machine_alone, machine_names
from syclsched.cluster.workers import ConnectedWorkers
from syclsched.costs import MemoryHistory
from syclsched.costs.history import HistoryKey, history_key, in_run_key
from syclsched.errors import EmptyPlatformError, PlanError, PolicyError
from syclsched.model.graph import TaskGraph
from syclsched.model.plan import Candidate, Plan
from syclsched.model.platform import HOST, Device, Platform
from syclsched.model.platform_parts.machines import machine_of, qualified
from syclsched.model.profile import Quantity
from syclsched.progress import Progress
from syclsched.scheduling.registry import AUTO

if TYPE_CHECKING:
    from syclsched.cluster.node import Node
    from syclsched.scheduling.portfolio import PolicyResult

#: Tasks times devices of a graph whose search would take minutes with its usual effort, and the seconds it may take.
LARGE_WORK: Final = 1_000_000
LARGE_BUDGET_S: Final = 5.0
#: Seconds that measuring a graph on a machine may take.
CALIBRATION_S: Final = 600.0
#: Follows the plan of another policy, and plans the rest anew when machines deviate from it.
HYBRID: Final = "hybrid"
#: Policy for the rest of a run.
REST_POLICY: Final = "heft"
#: Memories of machines whose sizes differ by less are equal.
_GIB: Final = 1 << 30


def followed(policy: str) -> str | None:
    """Return the policy whose plan ``hybrid`` or ``hybrid:POLICY`` follows; None for another policy."""
    hybrid, _, base = policy.partition(":")
    return (base or AUTO) if hybrid == HYBRID else None


class ClusterPlanner:
    """Plans graphs for the machines of a cluster; keeps measurements made there."""

    def __init__(self, workers: ConnectedWorkers) -> None:
        self._workers = workers
        self._lock = threading.Lock()
        self._network: NetworkProfile | None = None
        self.times = MemoryHistory()  # of all tasks measured so far

    def platform(
        self,
        progress: Progress | None = None,
        left: Collection[str] | None = None,
        like: Platform | None = None,
    ) -> Platform:
        """Return the platform of the machines that are there now, or of those among them that are left.

        Libraries have as many threads there as on the machines of a platform that was used before: with another number
        the bits of their results may differ.
        """
        if progress is not None:
            progress(0, 1, "finding the devices")
        machines = {
            name: facts.platform
            for name, facts in self._workers.describe(workers=left).items()
            if facts.platform is not None
        }
        if not machines:
            raise EmptyPlatformError(
                "no worker has a device", where="the cluster", hint="`print(cluster.status())` says what each lacks"
            )
        with self._lock:
            if self._network is None or not set(machines) <= set(self._network.workers):
                self._network = measure_network(self._workers, tell=_prefixed(progress, "network, "))
        platform = joined(machines, self._network.network_paths([*machines]))
        threads = {} if like is None else {device.name: device.most_threads for device in like.devices}
        devices = (replace(d, most_threads=threads.get(d.name, d.most_threads)) for d in platform.devices)
        return replace(platform, devices=tuple(devices)) if threads else platform

    def plan(
        self,
        graph: TaskGraph,
        *,
        policy: str,
        calibrate: bool,
        budget_s: float | None = None,
        progress: Progress | None = None,
    ) -> Plan:
        """Plan a graph for all machines; by ``hybrid``, by the policy whose plan it follows."""
        policy = followed(policy) or policy
        platform = _with_data(self.platform(progress), graph)
        history = self.measure(graph, progress) if calibrate else MemoryHistory()
        return plan_on(graph, platform, history, policy=policy, budget_s=budget_s, progress=progress)

    @staticmethod
    def plan_rest(graph: TaskGraph, platform: Platform, expected: Expected) -> Plan:
        """Plan the rest of a run for some machines."""
        from syclsched.planning import build_plan, verify
        from syclsched.scheduling import to_schedule
        from syclsched.simulation import predict

        entry = _scheduled(graph, platform, expected)
        tables = entry.problem.tables
        seconds = tables.seconds[tables.kind, tables.processor_device[entry.timetable.processor]]
        durations = dict(zip(entry.problem.names, seconds.tolist(), strict=True))
        schedule = to_schedule(entry.problem, entry.timetable, entry.label)
        plan = predict(build_plan(graph, platform, schedule, durations))
        verify(plan, graph)
        return plan

    @staticmethod
    def makespan_s(graph: TaskGraph, platform: Platform, expected: Expected, stay: Mapping[str, str] | None) -> float:
        """Return the time that the rest of a run takes; with ``stay``, if each task stays on its machine."""
        return _scheduled(graph, platform, expected, stay).makespan_s

    def measure(self, graph: TaskGraph, progress: Progress | None = None) -> MemoryHistory:
        """Measure the tasks of a graph on one machine of each kind."""
        kinds: dict[tuple[object, ...], str] = {}
        for name, facts in self._workers.describe().items():
            if facts.platform is not None:
                kinds.setdefault(kind_of(facts.platform.devices), name)
        if progress is not None:
            progress(0, 1, f"measuring tasks on {', '.join(kinds.values())}")
        calls = {
            key: self._workers.start(name, f"{__name__}:times_here", graph, key)
            for key, name in ((uuid.uuid4().hex, name) for name in kinds.values())
        }
        history = MemoryHistory()
        for key, call in calls.items():
            tell = _prefixed(progress, f"tasks on {call.worker.name}, ")
            times, refusals = result_of(self._workers, call, key, tell, CALIBRATION_S)
            history.update(times)
            for each, reason in refusals.items():
                history.refuse(each, reason)
                self.times.refuse(each, reason)
        with self._lock:
            self.times.update(history)
        return history


def _with_data(platform: Platform, graph: TaskGraph) -> Platform:
    """Return a platform whose links from the process that connects send no data that the graph has: `bind` does.

    They take as much less time as the graph's data are of the bytes of all inputs.
    """
    sizes = {name: graph.arrays[name].nbytes for name in graph.inputs()}
    total = sum(sizes.values())
    sent = sum(size for name, size in sizes.items() if name not in graph.data)
    share = sent / total if total else 1.0
    links = (
        replace(
            link,
            latency_s=link.latency_s * share,
            bandwidth_bytes_per_s=link.bandwidth_bytes_per_s / share if share else inf,
        )
        if link.source == HOST
        else link
        for link in platform.links
    )
    return replace(platform, links=tuple(links))


def _prefixed(progress: Progress | None, prefix: str) -> Progress | None:
    """Return a progress that passes the steps on with a prefix, and not the end."""
    if progress is None:
        return None

    def tell(done: int, total: int, step: str, /) -> None:
        if step:
            progress(done, total, prefix + step)

    return tell


def plan_on(
    graph: TaskGraph,
    platform: Platform,
    history: MemoryHistory,
    *,
    policy: str = AUTO,
    budget_s: float | None = None,
    progress: Progress | None = None,
) -> Plan:
    """Plan a graph for a platform of several machines."""
    from syclsched.planner import plan_graph

    if budget_s is None and len(graph) * len(platform.devices) > LARGE_WORK:
        budget_s = LARGE_BUDGET_S
    alone = _kinds_alone(platform, graph) if policy == AUTO else {}
    share_s = None if budget_s is None else budget_s / (len(alone) + 1 if policy == AUTO else 1)
    clock = None if budget_s is None else perf_counter
    best = plan_graph(graph, platform, policy=policy, history=history, budget_s=share_s, clock=clock, progress=progress)
    if policy != AUTO or len(machine_names(platform)) == 1:
        return best
    candidates = list(best.candidates)
    for machine, own in alone.items():
        try:
            found = plan_graph(
                graph, own, history=history, budget_s=share_s, clock=clock, progress=_prefixed(progress, f"{machine}, ")
            )
        except (PlanError, PolicyError) as error:
            candidates.append(Candidate(f"{machine} alone", None, str(error)))
            continue
        candidates.append(Candidate(f"{machine} alone, {found.policy}", found.makespan_s))
        if found.makespan_s < best.makespan_s:
            best = found
    return replace(best, candidates=tuple(candidates))


def _kinds_alone(platform: Platform, graph: TaskGraph) -> dict[str, Platform]:
    """Return one machine of each kind, with its platform.

    Machines are of one kind if their devices and memories are equal. Of these, it is the one to which the graph's
    inputs are sent fastest.
    """
    data = sum(graph.arrays[name].nbytes for name in graph.inputs())
    devices: dict[str, list[Device]] = {}
    for device in platform.devices:
        devices.setdefault(machine_of(device.name), []).append(device)
    memory: dict[str, list[int]] = {}
    for space in platform.spaces:
        memory.setdefault(machine_of(space.name), []).append(space.capacity_bytes // _GIB)
    nearest: dict[tuple[object, ...], tuple[float, str]] = {}
    for machine, own in devices.items():
        link = platform.link(HOST, qualified(machine, HOST))
        kind = (*kind_of(own), *memory.get(machine, ()))
        sent_s = inf if link is None else link.seconds(data)
        if kind not in nearest or sent_s < nearest[kind][0]:
            nearest[kind] = sent_s, machine
    return {machine: machine_alone(platform, machine) for _, machine in nearest.values()}


class Expected(NamedTuple):
    """Times and places that the plan of a run's rest is made with."""

    times: MemoryHistory
    placed: Mapping[str, str]  # the memory in which arrays are
    slowness: Mapping[str, float]  # measured over predicted times of the tasks on each machine


def _scheduled(
    graph: TaskGraph, platform: Platform, expected: Expected, stay: Mapping[str, str] | None = None
) -> PolicyResult:
    """Return the rest of a run as `REST_POLICY` schedules it."""
    from syclsched.costs import CostModel
    from syclsched.scheduling import build_problem
    from syclsched.scheduling.portfolio import run_policy

    problem = build_problem(graph, platform, CostModel(platform, expected.times), placed=expected.placed)
    machines = [machine_of(device) for device in problem.devices]
    seconds = problem.tables.task_seconds() * np.array([expected.slowness.get(machine, 1.0) for machine in machines])
    if stay is not None:
        places = np.array([[stay.get(task, machine) == machine for machine in machines] for task in problem.names])
        seconds = np.where(places, seconds, np.inf)
    return run_policy(problem.with_task_seconds(seconds), REST_POLICY)


def times_here(node: Node, graph: TaskGraph, steps: str) -> tuple[dict[HistoryKey, Quantity], Mapping[HistoryKey, str]]:
    """Measure the tasks of a graph on this machine; return the times and the refusals; called on workers."""
    from syclsched.devices import open_devices
    from syclsched.profiling import HistoryStore
    from syclsched.profiling.calibration import calibrate

    with HistoryStore() as history, open_devices(node.platform) as live, kept_steps(steps) as keep:
        calibrate(graph, node.platform, live, history, progress=keep)
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
        return times, history.refusals()
