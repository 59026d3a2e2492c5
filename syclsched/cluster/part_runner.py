# SPDX-License-Identifier: Apache-2.0
"""Parts of plans bound to the devices of the machine that this process is on."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from syclsched.cluster.bound_memory import BoundMemory
from syclsched.cluster.parts import MachinePart, platform_of
from syclsched.cluster.recovery.part_state import (
    EndedPart,
    HeldValue,
    KeptValue,
    PartLanes,
    PartProgress,
    PartReport,
    PartState,
)
from syclsched.costs import MemoryHistory
from syclsched.costs.history import HistoryChain
from syclsched.errors import ExecutionError, RunCancelledError
from syclsched.execution.core.progress import TASK_KINDS
from syclsched.execution.core.safeguards import Safeguards
from syclsched.execution.dispatch.turns import message_lanes, turn_of
from syclsched.execution.memory.buffers import NumpyArray
from syclsched.model.access import RowRange
from syclsched.model.plan import Plan
from syclsched.model.platform import HOST, Platform
from syclsched.model.trace import Trace

if TYPE_CHECKING:
    from syclsched.cluster.node import Node
    from syclsched.cluster.transport.mailbox import Mailbox
    from syclsched.devices import OpenDevices
    from syclsched.execution import Run, Runner
    from syclsched.execution.dynamic.dynamic_runner import DynamicRunner

#: Seconds after which the parts of a client that is lost, and has not come back, are released.
CLIENT_GONE_S = 30.0
#: A message without an array.
_NOTHING: Final = np.empty(0, np.uint8)

#: Bound parts of this process by key: the host tasks that send and receive find theirs here.
_bound: dict[str, PartRunner] = {}
#: Memory that is held for them.
_memory: Final = BoundMemory()
#: The last parts that were released while they were being bound, or before.
_released: Final[OrderedDict[str, None]] = OrderedDict()
_MOST_RELEASED: Final = 1024


def send(data: NumpyArray = _NOTHING, *, part: str, number: int, machine: str) -> None:
    """Send an array of a part to another machine; called by the part's host tasks."""
    _bound[part].send(number, machine, data)


def receive(data: NumpyArray = _NOTHING, *, part: str, number: int, machine: str) -> None:
    """Receive an array of a part from another machine; called by the part's host tasks."""
    _bound[part].receive(number, machine, data)


@dataclass(frozen=True, slots=True)
class PartPolicy:
    """A dynamic policy that decides a part while it runs."""

    name: str
    times: MemoryHistory  # of tasks, measured on one machine of each kind


@dataclass(frozen=True, slots=True)
class PartTrace:
    """Trace of a part, with the clock of its machine at the trace's time 0."""

    trace: Trace
    origin_ns: int


@dataclass(frozen=True, slots=True)
class PartStatus:
    """State of a bound part, and of its run if one is in progress."""

    graph: str
    client: str  # user, host and process that have bound it
    priority: int
    share: float | None
    memory_bytes: Mapping[str, int]  # held for its runs, by memory space
    tasks: int
    tasks_done: int = 0
    sent_bytes: int = 0
    elapsed_s: float = 0.0
    running: bool = False
    waits: bool = False  # for its turn, beside runs of higher priority or with less than their share


class PartRunner:
    """A part of a plan, bound to this machine's devices for repeated runs.

    Its host tasks carry its ``key``. ``addresses`` are those of the other machines by name. Without a ``dynamic``
    policy, runs follow the schedule of the plan. ``client`` is who has bound it: user, host and process.
    """

    def __init__(
        self,
        key: str,
        part: MachinePart,
        platform: Platform,
        mailbox: Mailbox,
        addresses: Mapping[str, str],
        message_timeout_s: float,
        safeguards: Safeguards,
        dynamic: PartPolicy | None,
        client: str,
    ) -> None:
        from syclsched.devices import open_devices
        from syclsched.execution import bind
        from syclsched.planning import build_plan, verify
        from syclsched.simulation import predict

        self._key, self._mailbox, self._addresses = key, mailbox, addresses
        self._part, self._timeout_s = part, message_timeout_s
        self._given: dict[str, dict[str, NumpyArray]] = {}  # inputs of runs that have not begun, brought by Dask
        self._giving = threading.Lock()
        self._run_key = ""
        self._cancelled_key = ""
        self._last: Run | None = None
        self._running, self._begun_s, self._sent_bytes = False, 0.0, 0
        self._ended: EndedPart | None = None
        self._lanes: PartLanes | None = None
        self._report = PartReport(0.0, False)
        self._lock = threading.Lock()
        self.when_closed: Callable[[], object] = bool  # called by `close`
        used = platform_of(part, platform)
        plan = predict(build_plan(part.graph, used, part.schedule, part.durations_s))
        verify(plan, part.graph)
        self._message_lanes = {plan.lanes[number].name for number in message_lanes(plan.platform, plan.lanes)}
        self._idle = PartStatus(
            part.graph.name.removesuffix(f" on {part.machine}"),
            client,
            safeguards.priority,
            safeguards.share,
            _needed_bytes(part, plan),
            sum(
                instruction.kind in TASK_KINDS
                for lane in plan.lanes
                if lane.name not in self._message_lanes
                for instruction in lane.instructions
            ),
        )
        _memory.claim(key, f"graph {self._idle.graph!r} of {client}", self._idle.memory_bytes, used.spaces)
        try:
            devices = open_devices(used)
        except BaseException:
            _memory.release(key)
            raise
        try:
            self._runner: Runner | DynamicRunner = (
                bind(plan, part.graph, devices, owns_devices=True, safeguards=safeguards, recover=False, measure=True)
                if dynamic is None
                else _bound_dynamically(plan, part, devices, dynamic, safeguards)
            )
        except BaseException:
            devices.close()
            _memory.release(key)
            raise
        _bound[key] = self

    def run(self, run: str, inputs: Mapping[str, NumpyArray], kept: Sequence[KeptValue] = ()) -> PartReport:
        """Run the part once and wait for its end; begin with values that earlier attempts have left here, too."""
        with self._lock:
            if self._last is not None:
                self._last.close()  # its memory is not needed twice
            self._last, self._ended, self._run_key, self._sent_bytes = None, None, run, 0
            begun_s = self._begun_s = time.perf_counter()
            self._running = True
            try:
                given = {**self._part.data, **inputs, **self._given.pop(run, {})}
                self._last = self._runner.run({**given, **self._kept(kept, given)})
                if self._cancelled_key == run:
                    self._last.cancel()
                self._last.wait()
            except BaseException as error:
                self._mailbox.cancel(run, str(error))
                if isinstance(error.__cause__, RunCancelledError):  # of a task that waited for a message
                    raise error.__cause__ from None
                raise
            finally:
                self._running = False
                self._mailbox.end(run)
                self._report = PartReport(time.perf_counter() - begun_s, self._runner.replayed)
            return self._report

    def _kept(self, kept: Sequence[KeptValue], given: Mapping[str, NumpyArray]) -> dict[str, NumpyArray]:
        """Return the values of arrays that earlier attempts have left here, wholly or in part."""
        found: dict[str, NumpyArray] = {}
        for each in kept:
            value = _found(each.key).held_value(each.run, each.held)
            if each.held.rows is None:
                found[each.array] = value
                continue
            if each.array not in found:
                declared, before = self._part.graph.arrays[each.array], given.get(each.array)
                found[each.array] = np.zeros(declared.shape, declared.dtype) if before is None else before.copy()
            found[each.array][slice(*each.held.rows)] = value
        return found

    def progress(self, run: str, *, tasks: bool) -> PartProgress | None:
        """Return the progress of a run, with the completed tasks if asked for; None if it is not known."""
        from syclsched.execution import Runner

        last = self._last
        if last is None or self._run_key != run or not isinstance(self._runner, Runner):
            return None
        if self._lanes is None:
            self._lanes = PartLanes(self._runner.plan)
        return self._lanes.progress(last, tasks=tasks)

    def state(self, run: str) -> PartState:
        """Return the executed tasks and the values in memory of the last run, which has ended."""
        with self._lock:  # until it has ended
            memory = self._memory(run)
            return PartState(tuple(memory.done), memory.held(), self._report)

    def held_value(self, run: str, held: HeldValue) -> NumpyArray:
        """Return a value that the last run has left in memory."""
        return self._memory(run).value(held)

    def _memory(self, run: str) -> EndedPart:
        """Return the memory of the last run, which has ended."""
        from syclsched.execution import Runner

        last = self._last_of(run, "its memory")
        if not isinstance(self._runner, Runner):  # it follows no plan by which the versions in memory are known
            raise ExecutionError("under a dynamic policy a part does not say what it has", where="its memory")
        if self._ended is None:
            self._ended = EndedPart(last)
        return self._ended

    def give(self, run: str, array: str, value: NumpyArray) -> None:
        """Take an input of a run that will begin; drop those of runs before it, which never began."""
        with self._giving:  # Dask may bring several at once
            self._given = {run: {**self._given.get(run, {}), array: value}}

    def result(self, run: str, array: str, rows: RowRange | None) -> NumpyArray:
        """Return an array, or some of its rows, of the last run; refuse those of earlier ones."""
        last = self._last_of(run, f"array {array!r}")
        engine = last.engine
        if not (engine.completed and engine.failures.none):
            return self._memory(run).last(array, rows)
        declared = self._part.graph.arrays[array]
        found: NumpyArray = last.result(declared if rows is None else declared[slice(*rows)])
        return found

    def trace(self, run: str) -> PartTrace:
        """Return the trace of the last run."""
        last = self._last_of(run, "trace")
        return PartTrace(last.trace(), last.trace_origin_ns)

    def _last_of(self, run: str, asked: str) -> Run:
        """Return a run if it is the last one."""
        if self._last is None or self._run_key != run:
            raise ExecutionError(
                "a later run has begun, in the same memory",
                where=asked,
                hint="Read results before the next run, or let runner(inputs) return them",
            )
        return self._last

    def send(self, number: int, machine: str, data: NumpyArray) -> None:
        """Send a message of the run in progress."""
        self._mailbox.send(self._run_key, number, self._addresses[machine], data)
        self._sent_bytes += data.nbytes

    def receive(self, number: int, machine: str, into: NumpyArray) -> None:
        """Wait for a message of the run in progress, and store its array."""
        source = self._addresses[machine]
        self._mailbox.receive(self._run_key, number, into, self._timeout_s, source=source)

    def status(self, run: str | None = None) -> PartStatus:
        """Return the state of the part and of the run in progress, or of the given run."""
        last, key, running = self._last, self._run_key, self._running
        if run not in (None, key):
            return self._idle
        if not running:
            return (
                self._idle
                if run is None
                else replace(self._idle, tasks_done=self._idle.tasks, sent_bytes=self._sent_bytes)
            )
        counts = [] if last is None else last.engine.lane_counts()
        turn = None if last is None else turn_of(last.engine)
        return replace(
            self._idle,
            tasks_done=sum(each.done for each in counts if each.lane not in self._message_lanes),
            sent_bytes=self._sent_bytes,
            elapsed_s=time.perf_counter() - self._begun_s,
            running=True,
            waits=turn is not None and turn.waits,
        )

    def cancel(self, run: str, cause: str) -> None:
        """End a run that is in progress or about to begin: its tasks, and waits for messages, end with an error."""
        self._cancelled_key = run
        self._mailbox.cancel(run, cause)
        last = self._last
        if self._run_key == run and last is not None:
            last.cancel()

    def cancel_any(self, cause: str) -> None:
        """End the run that is in progress, if there is one."""
        if self._running:
            self.cancel(self._run_key, cause)

    def close(self) -> None:
        """Release the devices' memory."""
        _bound.pop(self._key, None)
        self.when_closed()
        self._runner.close()
        _memory.release(self._key)


def _needed_bytes(part: MachinePart, plan: Plan) -> dict[str, int]:
    """Return the memory that a part and its runs need by space, with inputs, and copies of those that tasks write."""
    found = plan.needed_bytes
    written = {access.array for task in part.graph.tasks for access in task.accesses if access.mode.writes}
    begun_with = {*part.inputs, *(name for name, _ in part.kept)}
    copies = sum(part.graph.arrays[name].nbytes * (2 if name in written else 1) for name in begun_with)
    return {**found, HOST: found.get(HOST, 0) + copies}


def _bound_dynamically(
    plan: Plan, part: MachinePart, devices: OpenDevices, dynamic: PartPolicy, safeguards: Safeguards
) -> DynamicRunner:
    """Bind a part whose runs a policy decides, by the times known here or else those that came with it."""
    from syclsched.execution.dynamic.dynamic_runner import DynamicRunner
    from syclsched.profiling import HistoryStore

    with HistoryStore() as stored:
        history = HistoryChain((stored, dynamic.times))
        return DynamicRunner(plan, part.graph, devices, dynamic.name, history, safeguards)


# --- called by Dask as tasks ----------------------------------------------------------------------


def give_input(value: NumpyArray, key: str, run: str, array: str) -> None:
    """Give a bound part an input of a run that will begin."""
    _found(key).give(run, array, value)


def take_result(key: str, run: str, array: str, rows: RowRange | None) -> NumpyArray:
    """Return a result of the last run of a bound part, in memory of its own."""
    return _found(key).result(run, array, rows)


# --- called by `syclsched.cluster.runs` on each machine -----------------------------------------------


def bind_part(
    node: Node,
    key: str,
    part: MachinePart,
    addresses: Mapping[str, str],
    message_timeout_s: float,
    safeguards: Safeguards,
    dynamic: PartPolicy | None,
    client: str,
    owner: str,
) -> None:
    """Bind a part on this machine, unless it is released meanwhile; release it if its owner does not come back."""
    made = PartRunner(key, part, node.platform, node.mailbox, addresses, message_timeout_s, safeguards, dynamic, client)

    def lost(peer: str, cause: str) -> None:
        if peer == owner:
            timer = threading.Timer(CLIENT_GONE_S, _release_unless_heard, (node, key, owner, cause))
            timer.daemon = True
            timer.start()

    made.when_closed = node.mailbox.when_lost(lost)
    if key in _released:
        made.close()


def _release_unless_heard(node: Node, key: str, owner: str, cause: str) -> None:
    """Release a part of a client that is gone."""
    part = _bound.get(key)
    if part is not None and not node.mailbox.hears(owner):
        part.cancel_any(f"its client is gone: {cause}")
        part.close()


def run_part(
    node: Node, key: str, run: str, inputs: Mapping[str, NumpyArray], kept: Sequence[KeptValue] = ()
) -> PartReport:
    """Run a bound part once."""
    return _found(key).run(run, inputs, kept)


def progress_of_part(node: Node, key: str, run: str, tasks: bool) -> PartProgress | None:
    """Return the progress of a run of a bound part, with the completed tasks if asked for."""
    return _found(key).progress(run, tasks=tasks)


def state_of_part(node: Node, key: str, run: str) -> PartState:
    """Return the state of the last run of a bound part, which has ended."""
    return _found(key).state(run)


def result_of_part(node: Node, key: str, run: str, array: str, rows: RowRange | None) -> NumpyArray:
    """Return a result of the last run of a bound part."""
    return _found(key).result(run, array, rows)


def trace_of_part(node: Node, key: str, run: str) -> PartTrace:
    """Return the trace of the last run of a bound part."""
    return _found(key).trace(run)


def cancel_part(node: Node, key: str, run: str, cause: str) -> None:
    """End a run of a bound part."""
    if key in _bound:
        _bound[key].cancel(run, cause)


def release_part(node: Node, key: str) -> None:
    """Release the memory of a part that is bound or being bound."""
    _released[key] = None
    while len(_released) > _MOST_RELEASED:
        _released.popitem(last=False)
    if key in _bound:
        _bound[key].close()


def statuses_of_parts(node: Node, key: str | None = None, run: str | None = None) -> tuple[PartStatus, ...]:
    """Return the states of all bound parts and their runs, or the state of one part and one of its runs."""
    return tuple(part.status(run) for name, part in list(_bound.items()) if key in (None, name))


def _found(key: str) -> PartRunner:
    if key not in _bound:
        raise ExecutionError("the part is not bound here any more", hint="Bind the graph again")
    return _bound[key]
