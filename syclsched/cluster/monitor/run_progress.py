# SPDX-License-Identifier: Apache-2.0
"""Progress of a run on several machines: tasks done, time left and bytes sent, from reports of the parts.

The process that started the run asks the workers by messages, some times a second, only while a caller requests
progress.
"""

from __future__ import annotations

import threading
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Protocol

from syclsched.cluster.calls import WorkerCall
from syclsched.cluster.monitor.remote_steps import EVERY_S
from syclsched.cluster.part_runner import PartStatus
from syclsched.errors import SyclschedError
from syclsched.model.plan import Plan
from syclsched.model.text.units import format_bytes
from syclsched.progress import Progress, reported

if TYPE_CHECKING:
    from collections.abc import Iterable


class WatchedRun(Protocol):
    """A run on several machines as seen by its progress report."""

    @property
    def plan_in_progress(self) -> Plan:
        """The plan of the run; after a loss or a move, of the remaining tasks."""

    def ask_parts(self) -> dict[str, WorkerCall]:
        """Begin to ask the machines for the states of their parts; return the calls."""

    def cancel(self) -> None:
        """End the run early."""


class RunProgress:
    """Reports the progress of a run from `start` until `end`; without effect if there is no callback."""

    def __init__(self, run: WatchedRun, what: str, progress: Progress | bool | None) -> None:
        self._run, self._what, self._wanted = run, what, progress
        self._ended = threading.Event()
        self._shown, self._ending = ExitStack(), threading.Lock()
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None

    def start(self) -> None:
        """Begin to tell."""
        if self._wanted is False:
            return
        tell = self._shown.enter_context(reported(self._what, self._wanted))
        if tell is not None:
            self._thread = threading.Thread(
                target=self._watch, args=(tell,), name="syclsched cluster progress", daemon=True
            )
            self._thread.start()

    def end(self) -> BaseException | None:
        """Tell nothing more; return the error that the progress has raised, if any."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join()
        with self._ending:
            self._shown.close()
        return self._error

    def _watch(self, tell: Progress) -> None:
        try:
            plan, states = self._run.plan_in_progress, dict[str, PartStatus]()
            left, calls = _TimeLeft(plan), dict[str, WorkerCall]()
            tell(*left.described(()))
            while not self._ended.wait(EVERY_S):
                if plan is not self._run.plan_in_progress:  # it continues after the loss of a worker
                    plan, states, calls = self._run.plan_in_progress, {}, {}
                    left = _TimeLeft(plan)
                for name, call in calls.items():
                    if call.done:
                        with suppress(SyclschedError):  # the run itself fails, too, if a worker is lost
                            states.update((name, state) for state in call.result())
                if states:
                    tell(*left.described(states.values()))
                if all(call.done for call in calls.values()):
                    calls = self._run.ask_parts()
            tell(left.tasks, left.tasks, "")
        except BaseException as error:
            self._error = error
            self._run.cancel()


class _TimeLeft:
    """The remaining time of a run: the prediction for the remaining tasks, at the pace so far."""

    def __init__(self, plan: Plan) -> None:
        barriers = {task.name for task in plan.tasks if task.kind == "barrier"}
        self._finishes_s = sorted(each.finish_s for each in plan.schedule.assignments if each.task not in barriers)
        self.tasks = len(self._finishes_s)

    def described(self, states: Iterable[PartStatus]) -> tuple[int, int, str]:
        """Return the number of tasks done and of all, and the time left and the bytes sent in words."""
        found = list(states)
        done = min(sum(each.tasks_done for each in found), self.tasks)
        elapsed_s = max((each.elapsed_s for each in found), default=0.0)
        text = f"some {float(f'{self.seconds(done, elapsed_s):.2g}'):g} s left"
        sent = sum(each.sent_bytes for each in found)
        return done, self.tasks, f"{text}, {format_bytes(sent)} sent" if sent else text

    def seconds(self, done: int, elapsed_s: float) -> float:
        """Return the time left."""
        makespan_s = self._finishes_s[-1] if self._finishes_s else 0.0
        reached_s = self._finishes_s[done - 1] if done else 0.0
        if reached_s <= 0.0:
            return max(0.0, makespan_s - elapsed_s)
        return (makespan_s - reached_s) * elapsed_s / reached_s
