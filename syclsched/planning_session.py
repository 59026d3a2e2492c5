# SPDX-License-Identifier: Apache-2.0
"""Calibration and planning with one request, platform and history, shared by the API, models and the command line."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from functools import cache, partial
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, get_args

from syclsched.costs import CostModel
from syclsched.costs.history import HistoryKey, RunKind, history_key, stored_samples
from syclsched.errors import SyclschedError
from syclsched.model.graph import TaskGraph
from syclsched.model.operation import Implementation
from syclsched.model.plan import Plan
from syclsched.model.platform import Device, Platform
from syclsched.model.task import Task
from syclsched.model.views.printing import trials_text
from syclsched.planner.contest import (
    MOST,
    Contender,
    Contest,
    identity_of,
    makespan_key,
    with_measured_best,
)
from syclsched.planner.plan_request import PlanRequest
from syclsched.planner.reuse import ReadTimes, are_close, are_same, plan_key
from syclsched.planning import verify
from syclsched.profiling.storage.plan_store import KeptPlans, PlanStore
from syclsched.progress import Progress
from syclsched.scheduling.registry import AUTO

if TYPE_CHECKING:
    from syclsched.costs import History
    from syclsched.devices import OpenDevices
    from syclsched.profiling.calibration import Calibration, RecordingHistory

#: Plans that took less time are kept in this process only: reading their file takes as long. Those that runs try in
#: turn are written in any case. Plans of more tasks are not kept: they take much space.
_KEPT_FROM_S, _MOST_TASKS = 0.2, 5_000

#: Most seconds to wait until the times of earlier runs of this process are written.
_FLUSH_S = 0.5


@dataclass(frozen=True, slots=True)
class ChosenPlan:
    """The plan for the next run."""

    plan: Plan
    makespan_key: Callable[[RunKind], HistoryKey] | None = None  # of its makespans, if these are to be measured


@dataclass(frozen=True, slots=True)
class PlanningSession:
    """Calibrates and plans graphs for a platform."""

    request: PlanRequest
    platform: Platform
    history: RecordingHistory  # stores the measured task times that plans are based on
    progress: Progress | None = None  # called with each measurement, and each step of planning
    choices_only: bool = False  # whether to time only tasks with several implementations
    plans: PlanStore | None = None  # keeps plans of the policy ``auto``, to be used again
    tell: Callable[[str], None] | None = None  # called with a line about a plan that is used again
    again: bool = False  # whether to time known tasks again

    def calibrate(self, graph: TaskGraph, live: OpenDevices) -> tuple[Calibration, ...]:
        """Measure the tasks of a graph, and of its chunks if these may be split; warn of tasks that do not compile."""
        from syclsched.planner.rewrite_choice import graph_to_time
        from syclsched.profiling.calibration import calibrate  # it needs the packages of devices, planning does not
        from syclsched.profiling.calibration_failures import report_kernels

        def measure(timed: TaskGraph) -> Calibration:
            return calibrate(
                timed,
                self.platform,
                live,
                self.history,
                progress=self.progress,
                again=self.again,
                choices_only=self.choices_only,
            )

        policy, rewrite = self.request.policy, self.request.rewrite
        found = [measure(graph)]
        chunks = graph_to_time(graph, self.platform, policy=policy, rewrite=rewrite, history=self.history)
        if chunks is not None:
            found.append(measure(chunks))
        report_kernels((failure for each in found for failure in each.failures), self._costs())
        return tuple(found)

    def plan(self, graph: TaskGraph) -> Plan:
        """Plan a graph, or return the kept plan of an equal graph, platform, request and history.

        If runs have tried several plans, it is the fastest of them.
        """
        return self.choose(graph, tries=False).plan

    def choose(self, graph: TaskGraph, *, tries: bool = True, live: OpenDevices | None = None) -> ChosenPlan:
        """Return the plan for the next run: as `plan`, or one that has to be tried; see `syclsched.planner.contest`.

        With open devices, it uses no implementation that one of them, or a library there, refuses.
        """
        while True:
            chosen = self._choose(graph, tries=tries)
            if live is None or not self._notes_refusals(_launched(chosen.plan, graph), live):
                return chosen

    def check_choices(self, graph: TaskGraph, live: OpenDevices) -> None:
        """Note the refusals of implementations that a dynamic policy would choose, until it chooses none of them."""
        while self._notes_refusals(self._preferred(graph), live):
            pass

    def _notes_refusals(self, tasks: Iterable[tuple[Task, Implementation, Device]], live: OpenDevices) -> bool:
        from syclsched.profiling.calibration import note_refusals
        from syclsched.profiling.calibration_failures import report_kernels
        from syclsched.profiling.task_timing import TimedCase

        cases: dict[object, TimedCase] = {}
        for task, implementation, device in tasks:
            operation, signature = task.operation, task.signature
            kind = id(operation), id(signature), implementation.name, device.name
            if operation is None or signature is None or kind in cases:
                continue
            key = history_key(device.timing_key, operation, implementation, signature)
            cases[kind] = TimedCase(task, operation, signature, device, implementation, key)
        refused = note_refusals(cases.values(), live, self.history, self.progress)
        report_kernels(refused, self._costs())
        return bool(refused)

    def _preferred(self, graph: TaskGraph) -> Iterator[tuple[Task, Implementation, Device]]:
        costs = self._costs()
        for task in graph.tasks:
            for device in self.platform.compute_devices:
                best = costs.best(task, device)
                if best is not None:
                    yield task, best[0], device

    def _costs(self) -> CostModel:
        return CostModel(self.platform, self.history)

    def _choose(self, graph: TaskGraph, *, tries: bool) -> ChosenPlan:
        store, key = self.plans, None
        if store is not None and self.request.policy == AUTO and len(graph.tasks) <= _MOST_TASKS:
            key = plan_key(graph, self.platform, self.request, self.history, _version())
        if store is None or key is None:
            (plan,) = self._plan(graph, self.history, 1)
            return ChosenPlan(plan)
        if tries:
            from syclsched.execution.core.history_feed import FEED  # a contest of plans runs them

            FEED.flush(_FLUSH_S)
            refresh = getattr(self.history, "refresh", None)  # a history need not read a file
            if refresh is not None:
                refresh()
        measured = Makespans(self.history, self.platform, graph.name, key)
        kept = store.find(key)
        known = None if kept is None else measured.contest(kept)
        if kept is not None and known is not None and self._holds(kept, known):
            chosen = self._chosen(known, partial(_read_sound, kept, graph), measured, tries=tries)
            if chosen is not None:
                if self.tell is not None:
                    self.tell(f"the plan of {graph.name} was made by an earlier call and is used again")
                return chosen
        begun_s, read = perf_counter(), ReadTimes(self.history)
        plans = self._plan(graph, read, MOST)
        best = None if kept is None or known is None else _fastest(kept, known, graph)
        named = with_measured_best([(identity_of(plan), plan) for plan in plans], best)
        is_kept = (kept is not None and kept.in_file) or (tries and len(named) > 1)
        store.keep(key, named, read.times, in_file=is_kept or perf_counter() - begun_s >= _KEPT_FROM_S)
        contest = measured.of((identity, plan.policy, plan.makespan_s) for identity, plan in named)
        found = dict(named)

        def verified(identity: str) -> Plan | None:
            plan = found[identity]
            return plan if plan is plans[0] or _is_sound(plan, graph) else None

        return self._chosen(contest, verified, measured, tries=tries) or ChosenPlan(plans[0])

    def _holds(self, kept: KeptPlans, contest: Contest) -> bool:
        """Return whether kept plans need not be made again."""
        if contest.is_measured:
            return are_close(kept.times, self.history)
        return all(are_same(before, self.history.lookup(each)) for each, before in kept.times.items())

    def _chosen(
        self,
        contest: Contest,
        verified: Callable[[str], Plan | None],
        measured: Makespans,
        *,
        tries: bool,
    ) -> ChosenPlan | None:
        """Return the plan of a contest to use now; None if it is not sound."""
        tries = tries and getattr(self.history, "note", None) is None  # the history can be written
        contender = contest.next_to_run() if tries else contest.best_known()
        plan = verified(contender.identity)
        if plan is None:
            return None
        trials = contest.trials(contender)
        if trials:
            plan = replace(plan, trials=trials)
            if self.tell is not None and len(trials) > 1:
                self.tell(f"plans of {measured.name}: {trials_text(plan)}")
        return ChosenPlan(plan, partial(measured.key_of, contender.identity))

    def _plan(self, graph: TaskGraph, history: History, most: int) -> tuple[Plan, ...]:
        from syclsched.planner.graph_planner import plan_contenders  # which a kept plan does not need

        clock = None if self.request.budget_s is None else perf_counter
        return plan_contenders(
            graph,
            self.platform,
            history=history,
            clock=clock,
            progress=self.progress,
            most=most,
            **asdict(self.request),
        )


@dataclass(frozen=True, slots=True)
class Makespans:
    """The measured makespans of the plans of one graph, platform and request."""

    history: RecordingHistory
    platform: Platform
    name: str  # of the graph
    plan_key: str

    def key_of(self, identity: str, kind: RunKind) -> HistoryKey:
        """Return the history key of the runs of a plan."""
        return makespan_key(self.platform, self.name, self.plan_key, identity, kind)

    def of(self, plans: Iterable[tuple[str, str, float]]) -> Contest:
        """Return the contest of plans given by identity, policy and predicted makespan."""
        return Contest(
            tuple(
                Contender(
                    identity,
                    policy,
                    predicted_s,
                    {kind: stored_samples(self.history, self.key_of(identity, kind)) for kind in get_args(RunKind)},
                )
                for identity, policy, predicted_s in plans
            )
        )

    def contest(self, kept: KeptPlans) -> Contest:
        """Return the contest of kept plans."""
        return self.of((each.identity, each.policy, each.predicted_s) for each in kept.plans)


def _launched(plan: Plan, graph: TaskGraph) -> Iterator[tuple[Task, Implementation, Device]]:
    """Yield a task of each kind in a plan, with its implementation and device."""
    from syclsched.rewrites import planned_graph

    tasks = {task.name: task for task in planned_graph(plan, graph).tasks}
    devices = {device.name: device for device in plan.platform.compute_devices}
    seen: set[tuple[int, int, str, str]] = set()
    for assignment in plan.schedule.assignments:
        task, name, on = tasks[assignment.task], assignment.implementation, assignment.device
        if name is None or on not in devices or task.operation is None:
            continue
        kind = id(task.operation), id(task.signature), name, on
        if kind not in seen:
            seen.add(kind)
            yield task, task.operation.implementation(name), devices[on]


def _fastest(kept: KeptPlans, contest: Contest, graph: TaskGraph) -> tuple[str, Plan, float] | None:
    """Return the plan that was the fastest in runs, with its identity and makespan; None if none was."""
    winner = contest.winner()
    makespan_s = None if winner is None else contest.makespan_s(winner)
    if winner is None or makespan_s is None:
        return None
    plan = _read_sound(kept, graph, winner.identity)
    return None if plan is None else (winner.identity, plan, makespan_s)


def _read_sound(kept: KeptPlans, graph: TaskGraph, identity: str) -> Plan | None:
    """Return a kept plan; None if it is damaged, or none of this graph."""
    plan = kept.read(identity)
    return plan if plan is not None and _is_sound(plan, graph) else None


def _is_sound(plan: Plan, graph: TaskGraph) -> bool:
    """Return whether a kept plan is one of this graph, and complete."""
    try:
        verify(plan, graph)
    except SyclschedError:
        return False
    return True


@cache
def _version() -> str:
    """Return an identifier of the package's state: stored plans of another one are not used."""
    import os  # its walk takes a quarter of the time of path objects

    package, found = str(Path(__file__).parent), []
    for folder, _, names in os.walk(package):
        for name in names:
            if name.endswith(".py"):
                path = os.path.join(folder, name)
                state = os.stat(path)
                found.append((path.removeprefix(package), state.st_size, state.st_mtime_ns))
    return repr(sorted(found))
