# SPDX-License-Identifier: Apache-2.0
"""Recovery planning after an engine has failed: remaining tasks, usable devices, and surviving values."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Final

from syclsched.errors import DeviceError, MemoryLimitError, SyclschedError
from syclsched.execution.core.failures import FailureReason, InstructionFailure
from syclsched.execution.core.program import Buffer
from syclsched.execution.core.safeguards import DEFAULT_SAFEGUARDS, Safeguards
from syclsched.execution.dispatch.prepared import PreparedPlan, prepare
from syclsched.execution.dispatch.start import make_engine
from syclsched.execution.handle.engine import EndedEngine, Engine
from syclsched.execution.memory.buffers import NumpyArray
from syclsched.execution.recovery.degraded import devices_in, platform_without
from syclsched.execution.recovery.engine_state import engine_state
from syclsched.execution.recovery.health import DeviceHealth
from syclsched.execution.recovery.lineage import RemainingWork, find_remaining_work
from syclsched.execution.recovery.subgraphs import SubgraphBuilder
from syclsched.execution.recovery.surviving_values import UnreachableValueError, collect_surviving_values, reachable
from syclsched.execution.recovery.versions import GIVEN
from syclsched.model.access import RowRange
from syclsched.model.plan import Instruction, PlannedArray
from syclsched.model.platform import HOST, Platform
from syclsched.model.recovery import Recovery

if TYPE_CHECKING:
    from syclsched.devices.opened_devices import OpenDevices

#: Most recoveries of one run; later failures are final.
MOST_RECOVERIES: Final = 8

#: Failures of the device or the runtime, as opposed to those of a task itself.
_OF_THE_RUNTIME: Final[frozenset[FailureReason]] = frozenset({"submission", "copy", "memory", "device"})


@dataclass(frozen=True, slots=True)
class _LostRows:
    """Rows of an array (None: all rows) whose value cannot be computed, and the cause."""

    rows: RowRange | None
    error: SyclschedError


@dataclass(slots=True)
class _Failure:
    """The failures with which an engine ended."""

    runtime: list[InstructionFailure]
    own: list[InstructionFailure]
    error: SyclschedError | None
    devices: tuple[str, ...]
    reason: FailureReason = "device"
    first: SyclschedError = field(default_factory=lambda: SyclschedError("nothing failed"))


class RecoveryPlanner:
    """Plans the recoveries of one run, and makes the engines that execute its remaining tasks.

    Implements `syclsched.execution.handle.engine.RunRecovery`. Of a dynamic run, `conclude` returns the first engine as
    it has ended, with the plan that it executed.
    """

    def __init__(
        self,
        prepared: PreparedPlan,
        devices: OpenDevices,
        values: dict[str, NumpyArray],
        health: DeviceHealth | None = None,
        recoveries: tuple[Recovery, ...] = (),
        conclude: Callable[[], tuple[EndedEngine, PreparedPlan]] | None = None,
        safeguards: Safeguards = DEFAULT_SAFEGUARDS,
    ) -> None:
        #: The recoveries so far, including those before the run.
        self.recoveries = recoveries
        #: Deadlines of tasks, by instruction number in the latest engine.
        self.deadlines_s: Mapping[int, float] = {}
        self._first = self._latest = prepared
        self._devices = devices
        self._values = values
        self._health = DeviceHealth(devices) if health is None else health
        self._conclude, self._safeguards = conclude, safeguards
        self._left = MOST_RECOVERIES
        self._tried: Counter[str] = Counter()
        #: Errors of tasks that failed permanently, by task name, in the order of failure.
        self._failed: dict[str, SyclschedError] = {}
        #: Values that cannot be computed, by array.
        self._lost: dict[str, list[_LostRows]] = {}

    # Cached: most runs never fail and need none of these.

    @cached_property
    def _remains(self) -> SubgraphBuilder:
        return SubgraphBuilder(self._first.graph, self._first.plan)

    @cached_property
    def _repeatable(self) -> frozenset[str]:
        return self._remains.repeatable()

    @cached_property
    def _retries(self) -> dict[str, int]:
        return {t.name: t.retries for t in self._first.graph.tasks if t.retries}

    def halts(self, instruction: Instruction, reason: FailureReason) -> bool:
        """Return whether a failure will be recovered from: the engine then stops submitting other tasks."""
        return self._left > 0 and (reason in _OF_THE_RUNTIME or self._may_retry(instruction.task, reason))

    @property
    def error(self) -> SyclschedError | None:
        """Error of the first task that failed permanently."""
        return next(iter(self._failed.values()), None)

    def check_not_lost(self, array: str, rows: RowRange | None) -> None:
        """Raise the first cause if an array, or one of the given rows, will never have a value."""
        for lost in self._lost.get(array, ()):
            if rows is None or lost.rows is None or (lost.rows[0] < rows[1] and rows[0] < lost.rows[1]):
                raise lost.error

    def successor(self, engine: Engine) -> Engine | None:
        """Return an engine for the remaining tasks after one has ended; None without failures or recovery."""
        ended: EndedEngine = engine
        conclude, self._conclude = self._conclude, None
        if conclude is not None:
            if engine.failures.first is None and engine.error is None:
                return None
            ended, self._latest = conclude()
            self._first = self._latest
        begun_s = time.perf_counter()
        failure = self._recoverable_failure(ended)
        if failure is None:
            return None
        self._left -= 1
        before = self._health.lost
        self._health.record_failures(failure.devices)
        for last_resort in (False, True) if self._left else (True,):
            try:
                prepared, values, report = self._attempt(ended, failure, last_resort=last_resort)
            except SyclschedError:  # no plan exists without the excluded devices or within the memory
                continue
            lost = tuple(device for device in self._health.lost if device not in before)
            report = replace(report, lost=lost, took_s=time.perf_counter() - begun_s)
            self._values.update(values)
            self._latest, self.deadlines_s = prepared, prepared.deadlines_s
            self.recoveries = (*self.recoveries, report)
            return make_engine(
                prepared, self._devices, self._values, record=engine.recording, safeguards=self._safeguards
            )
        self._failed.setdefault("", failure.first)
        return None

    # --- inside -----------------------------------------------------------------------------------

    def _recoverable_failure(self, engine: EndedEngine) -> _Failure | None:
        """Return the failures to recover from; None if there are none, or they are not recoverable."""
        if engine.cancelled or self._left <= 0:
            return None
        found = engine.failures.all
        runtime = [f for f in found if f.reason in _OF_THE_RUNTIME]
        own = [f for f in found if f.reason not in _OF_THE_RUNTIME]
        retried = [f for f in own if self._may_retry(f.instruction.task, f.reason)]
        error = engine.error
        if error is not None and not isinstance(error, (DeviceError, MemoryLimitError)):
            return None
        if not runtime and not retried and error is None:
            return None
        lanes = {i.id: lane.device for lane in engine.program.plan.lanes for i in lane.instructions}
        devices = tuple(dict.fromkeys(d for f in runtime if (d := lanes[f.instruction.id]) != HOST))
        if not devices and isinstance(error, MemoryLimitError):  # before any instruction, maybe as a device is lost
            devices = devices_in(engine.program.plan, error.space)
        failure = _Failure(runtime, own, error, devices)
        first = min([*runtime, *retried], key=lambda f: f.instruction.id, default=None)
        if first is not None:
            failure.first, failure.reason = first.error, first.reason
        elif error is not None:
            failure.first, failure.reason = error, "memory" if isinstance(error, MemoryLimitError) else "device"
        return failure

    def _may_retry(self, task: str | None, reason: FailureReason) -> bool:
        """Return whether a task is retried; the engine itself has already retried a host function that raised."""
        return reason != "raised" and task is not None and self._tried[task] < self._retries.get(task, 0)

    def _attempt(
        self, engine: EndedEngine, failure: _Failure, *, last_resort: bool
    ) -> tuple[PreparedPlan, dict[str, NumpyArray], Recovery]:
        """Return a plan of the remaining tasks, its inputs with the results so far, and the report.

        As a last resort the failed tasks are left out, and all responding devices are used.
        """
        prepared = self._latest
        failed: dict[str, SyclschedError] = {}
        retried = []
        for task_failure in failure.own:
            task = task_failure.instruction.task or ""
            if self._may_retry(task, task_failure.reason) and not last_resort:
                retried.append(task)
            else:
                failed[task] = task_failure.error
        if last_resort:
            failed |= {f.instruction.task or "": f.error for f in failure.runtime}
        excluded = self._health.lost if last_resort else self._health.left_out
        platform = platform_without(prepared.plan.platform, self._devices, excluded)
        unreachable: set[Buffer] = set()
        while True:
            left, contents = self._remaining_work(engine, platform, failed, unreachable)
            impossible = self._remains.unrunnable(left.tasks, platform)
            if impossible:
                failed |= dict.fromkeys(impossible, failure.first)
                continue
            try:
                arrays = {array.name: array for array in prepared.plan.arrays}
                values = collect_surviving_values(left.start, contents, engine.buffers, self._values, arrays)
                break
            except UnreachableValueError as error:
                unreachable.add(error.buffer)
        if left.lost or left.dead:
            # Values that cannot be recomputed are attributed to the current failure if no other cause is known.
            failed |= dict.fromkeys(
                sorted(left.dead - failed.keys()) or [""], next(iter(failed.values()), failure.first)
            )
        replanned = self._plan(left, platform)
        self._note_lost(left, failed, failure.first, arrays)
        for task in retried:
            self._tried[task] += 1
        self._failed |= {task: error for task, error in failed.items() if task not in self._failed}
        return replanned, values, self._report(failure, left, replanned)

    def _remaining_work(
        self,
        engine: EndedEngine,
        platform: Platform,
        failed: Mapping[str, SyclschedError],
        unreachable: set[Buffer],
    ) -> tuple[RemainingWork, dict[Buffer, int]]:
        """Return the remaining work, and the array version in each reachable buffer."""
        plan = self._latest.plan
        state = engine_state(engine, plan)
        versions, tasks = state.versions, {task.name: task for task in plan.tasks}
        spaces = {device.space for device in platform.devices}
        contents = {b: v for b, v in reachable(state.contents, spaces).items() if b not in unreachable}
        arrays = {array.name: array for array in plan.arrays}
        whole: dict[str, set[int]] = {}
        for name, array in arrays.items():
            if array.is_input and (name if array.rows is None else array.rows.array) in self._values:
                whole[name] = {GIVEN}
        for (name, _), version in contents.items():
            maker = versions.writer(name, version) if name in versions.writers else None
            if maker is None or maker not in failed:
                whole.setdefault(name, set()).add(version)
        wanted = [name for name in versions.writers if not arrays[name].temporary]
        left = find_remaining_work(
            tasks,
            versions,
            whole,
            state.done,
            set(failed) & set(tasks),
            wanted,
            self._repeatable,
        )
        return left, contents

    def _plan(self, left: RemainingWork, platform: Platform) -> PreparedPlan:
        from syclsched.planner import plan_graph

        graph = self._remains.of(frozenset(left.tasks), platform)
        plan = plan_graph(graph, platform, policy="heft", history=self._remains.times, rewrite="none")
        return prepare(plan, graph)

    def _note_lost(
        self,
        left: RemainingWork,
        failed: Mapping[str, SyclschedError],
        first: SyclschedError,
        arrays: Mapping[str, PlannedArray],
    ) -> None:
        error = next(iter({**self._failed, **failed}.values()), first)
        for name in left.lost:
            rows = arrays[name].rows
            whole, range_ = (name, None) if rows is None else (rows.array, (rows.start, rows.stop))
            self._lost.setdefault(whole, []).append(_LostRows(range_, error))

    def _report(self, failure: _Failure, left: RemainingWork, after: PreparedPlan) -> Recovery:
        old_device = {a.task: a.device for a in self._latest.plan.schedule.assignments}
        new_device = {a.task: a.device for a in after.plan.schedule.assignments}
        first = failure.first
        return Recovery(
            reason=failure.reason,
            what=str(first),
            task=getattr(first, "task", None),
            device=failure.devices[0] if failure.devices else None,
            failures=max(1, len(failure.runtime) + len(failure.own)),
            left_out=self._health.left_out,
            planned=len(left.tasks),
            redone=left.redone,
            moved=sum(1 for task, device in new_device.items() if old_device.get(task) not in (None, device)),
            given_up=tuple(sorted(left.dead)),
        )
