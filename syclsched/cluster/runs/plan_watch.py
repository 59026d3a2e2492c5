# SPDX-License-Identifier: Apache-2.0
"""Hybrid policy between machines: a run's progress against its plan, and the decision to plan its rest anew.

While the parts run, this process asks for their progress at short intervals. A lane that executes a task at that moment
is taken as busy for the interval. Busy over predicted seconds of the completed work, with a prior of some tasks that
took as long as predicted, is the slowness of a machine. The rest is considered when it deviates from that with which
the plan was made by more than the bound of the hybrid policy of one machine, or when a worker has joined. The rest is
moved only if the scheduler predicts that it then ends earlier than where it is, by more than the cost of moving, as
measured when plans were bound before.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from typing import Final, Literal, NamedTuple, Protocol

from syclsched.cluster.calls import WorkerCall
from syclsched.cluster.recovery.attempt import Binding, RunAttempt
from syclsched.cluster.recovery.part_state import PartProgress
from syclsched.cluster.recovery.remaining import RunLineage
from syclsched.errors import SyclschedError
from syclsched.model.platform import Platform
from syclsched.model.platform_parts.machines import machine_of
from syclsched.scheduling.dynamic.drift import PRIOR_TASKS
from syclsched.scheduling.dynamic.policies.hybrid import BOUND

#: Seconds between questions for the progress of the parts.
LOOK_S: Final = 0.1
#: Longest time that a machine may take to answer them.
_ANSWER_S: Final = 5.0
#: Least share of this process's time between decisions that may be spent on one: the next is put off by as much.
_REST_OF_TIME: Final = 10.0
#: The rest moves if it ends earlier by this share of its time, beside the cost of the move.
_WORTH: Final = 0.1
#: Most moves of one run.
MOST_MOVES: Final = 16


class Move(NamedTuple):
    """A decision to plan the rest of a run anew."""

    reason: Literal["late", "joined"]
    what: str
    machines: frozenset[str]  # that the rest is planned for
    slowness: Mapping[str, float]


class PlanComparer(Protocol):
    """Predicts the rest of a run where it is, and on all machines."""

    move_s: float
    """Seconds that planning and binding took, as measured last."""

    def call_part(self, binding: Binding, machine: str, function: str, *arguments: object) -> WorkerCall:
        """Begin to call a function of `syclsched.cluster.part_runner` for a part that is bound on a machine."""

    def left(self, addresses: Mapping[str, str], lost: Collection[str]) -> frozenset[str]:
        """Return the machines that are left of those at some addresses, without those that are known to be lost."""

    def platform(self) -> Platform:
        """Return the platform of the machines that are there; a new one is measured first, which takes a while."""

    def names_there(self) -> frozenset[str]:
        """Return the names of the workers that are there."""

    def predicted_s(
        self,
        lineage: RunLineage,
        done: Collection[str],
        machines: Mapping[str, str],
        platform: Platform,
        slowness: Mapping[str, float],
    ) -> tuple[float, float]:
        """Return the time that the rest takes if each task stays on its machine, and on all machines of a platform."""


class _Pace:
    """Measured and predicted seconds of a machine's work."""

    def __init__(self) -> None:
        self.busy_s = self.done_s = self.current_s = 0.0
        self._seen_s: float | None = None

    @property
    def is_known(self) -> bool:
        """Whether the machine's part has begun, and reports its progress."""
        return self._seen_s is not None

    def note(self, progress: PartProgress, now_s: float) -> None:
        """Add the time since the last look."""
        if self._seen_s is not None:
            self.busy_s += (now_s - self._seen_s) * sum(lane.runs for lane in progress.lanes)
        self._seen_s = now_s
        self.done_s = sum(lane.done_s for lane in progress.lanes)
        self.current_s = sum(lane.current_s for lane in progress.lanes)

    def slowness(self, prior_s: float) -> float:
        """Return measured over predicted seconds; the tasks in progress take at least as long as they have."""
        predicted_s = self.done_s + self.current_s
        if self.busy_s < predicted_s:  # the tasks in progress have begun somewhere in between
            predicted_s = max(self.done_s, self.busy_s)
        return (self.busy_s + prior_s) / (predicted_s + prior_s) if predicted_s + prior_s > 0.0 else 1.0


class PlanWatch:
    """Watches one run, attempt after attempt."""

    def __init__(self, comparer: PlanComparer) -> None:
        self._comparer = comparer
        self._attempt: RunAttempt | None = None
        self._paces: dict[str, _Pace] = {}
        #: Slowness of the machines that the plan of the attempt was made with.
        self._assumed: dict[str, float] = {}
        self._machines: dict[str, str] = {}  # of each task, in its last attempt
        self._prior_s = 0.0
        self._moves = 0
        self._next_s = 0.0
        self._platform: Platform | None = None  # with workers that have joined
        self._joining: threading.Thread | None = None

    def look(self, attempt: RunAttempt, running: Collection[str], lineage: Callable[[], RunLineage]) -> Move | None:
        """Ask for the progress of the parts that are running; return whether and why the rest is to move."""
        self._begin(attempt)
        if self._moves >= MOST_MOVES:
            return None
        self._ask(attempt, running, tasks=False)
        joined = self._joined(attempt)
        now_s = time.perf_counter()
        ratios = {name: pace.slowness(self._prior_s) for name, pace in self._paces.items()}
        late = any(abs(ratio - 1.0) > BOUND for ratio in ratios.values())
        if not all(self._paces[name].is_known for name in running):
            return None
        is_alone = joined is None and len(attempt.binding.addresses) == 1
        if now_s < self._next_s or is_alone or not (joined or late):
            return None
        slowness = {name: self._assumed.get(name, 1.0) * ratio for name, ratio in ratios.items()}
        move = None
        with suppress(SyclschedError):  # nothing can be planned now: the run continues where it is
            move = self._decided(attempt, running, lineage(), {**self._assumed, **slowness}, joined)
        took_s = time.perf_counter() - now_s
        self._next_s = time.perf_counter() + _REST_OF_TIME * took_s
        if move is not None:
            self._moves += 1
            self._assumed = dict(move.slowness)
        return move

    # --- inside -----------------------------------------------------------------------------------

    def _begin(self, attempt: RunAttempt) -> None:
        """Begin to measure an attempt, unless it is being measured."""
        if self._attempt is attempt:
            return
        self._attempt = attempt
        self._paces = {name: _Pace() for name in attempt.binding.divided.parts}
        seconds = [a.finish_s - a.start_s for a in attempt.binding.plan.schedule.assignments]
        self._prior_s = PRIOR_TASKS * sum(seconds) / max(1, len(seconds))

    def _ask(self, attempt: RunAttempt, running: Collection[str], *, tasks: bool) -> set[str]:
        """Note the progress of the parts that are running; return the tasks that they have completed, if asked for."""
        calls, done = {}, set[str]()
        for name in running:
            with suppress(SyclschedError):
                calls[name] = self._comparer.call_part(attempt.binding, name, "progress_of_part", attempt.run, tasks)
        for name, call in calls.items():
            with suppress(SyclschedError):  # of a worker that is lost the run itself learns
                progress: PartProgress | None = call.result(_ANSWER_S)
                if progress is not None:
                    self._paces[name].note(progress, time.perf_counter())
                    done.update(progress.done)
        return done

    def _joined(self, attempt: RunAttempt) -> Platform | None:
        """Return a platform with workers that have joined, once they have been measured."""
        there = self._comparer.names_there()
        found, machines = self._platform, frozenset[str]()
        if found is not None:
            machines = frozenset(machine_of(device.name) for device in found.devices)
            if machines <= there and machines - attempt.binding.addresses.keys():
                return found
        if self._joining is None and there - machines - attempt.binding.addresses.keys():

            def measure() -> None:
                with suppress(SyclschedError):
                    self._platform = self._comparer.platform()
                self._joining = None

            self._joining = threading.Thread(target=measure, name="syclsched joined workers", daemon=True)
            self._joining.start()
        return None

    def _decided(
        self,
        attempt: RunAttempt,
        running: Collection[str],
        lineage: RunLineage,
        slowness: dict[str, float],
        joined: Platform | None,
    ) -> Move | None:
        plan, begun_s = attempt.binding.plan, time.perf_counter()
        machines = {a.task: machine_of(a.device) for a in plan.schedule.assignments}
        done = self._ask(attempt, running, tasks=True)
        done |= {task for task, machine in machines.items() if machine not in running}
        done |= lineage.tasks - machines.keys()
        self._machines.update(machines)
        if len(done) == len(lineage.tasks):
            return None
        if joined is not None:
            known = sorted(slowness.values())  # tasks that take longer than predicted everywhere do so there
            new = {machine_of(device.name) for device in joined.devices} - set(attempt.binding.addresses)
            slowness.update(dict.fromkeys(new, known[0] if known else 1.0))
        platform = joined or plan.platform
        stay_s, move_s = self._comparer.predicted_s(lineage, done, self._machines, platform, slowness)
        in_flight_s = max((p.current_s * slowness[n] / self._assumed.get(n, 1.0) for n, p in self._paces.items()))
        costs_s = self._comparer.move_s + in_flight_s + time.perf_counter() - begun_s
        if move_s + costs_s > (1.0 - _WORTH) * stay_s:
            return None
        used = frozenset(machine_of(device.name) for device in platform.devices)
        if joined is not None:
            return Move("joined", f"{', '.join(sorted(new))} joined the cluster", used, slowness)
        slowest = max(self._paces, key=lambda name: slowness[name] / self._assumed.get(name, 1.0))
        what = f"{slowest} takes {slowness[slowest]:.3g} times as long as predicted"
        return Move("late", what, used, slowness)
