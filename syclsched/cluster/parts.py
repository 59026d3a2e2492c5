# SPDX-License-Identifier: Apache-2.0
"""Parts of a plan, one for each machine, and the messages between them.

A part is an ordinary task graph with a schedule: the tasks that the plan places on its machine, in the order of the
plan, and host tasks that send an array to another machine or receive one. Each value of an array is sent to a machine
at most once. Every machine has memory of its own, so that the values of an array need no order across machines beyond
that of the messages.

Messages have one order on all machines: by the start of the plan's copy, between the finish of the task that made the
value and the start of the first that uses it. Each machine sends in this order, receives in this order, and receives
nothing before it has sent what comes earlier. A value is made after what it depends on, and used after it has
come, so machines never wait for each other in a circle, whatever copies a plan makes early.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from typing import Any

from syclsched.cluster.platforms import machine_names
from syclsched.errors import PlanError
from syclsched.execution.memory.buffers import NumpyArray
from syclsched.model.access import Access, RowRange, row_range_name
from syclsched.model.graph import TaskGraph
from syclsched.model.plan import Plan
from syclsched.model.platform import HOST, Platform
from syclsched.model.platform_parts.machines import local_name, machine_of
from syclsched.model.schedule import Assignment, Schedule
from syclsched.model.task import LogicalArray, Task

#: Lanes of a part's host, beside those that compute, on which it sends and receives.
MESSAGE_LANES = 2

#: Called by a part's host tasks with the number of the message, the other machine and the array.
Exchange = Callable[..., None]


@dataclass(frozen=True, slots=True)
class Message:
    """A value that one machine sends to another; without an array it only signals the end of a task."""

    number: int
    source: str
    destination: str
    array: str = ""
    rows: RowRange | None = None
    nbytes: int = 0
    segment: str = ""  # name of the rows in the plan, if they are not all
    maker: str | None = None  # task that has made the value; None for one with which the run begins

    @property
    def sender(self) -> str:
        """Name of the host task that sends it."""
        return f"send {self.number} to {self.destination}"

    @property
    def receiver(self) -> str:
        """Name of the host task that receives it."""
        return f"receive {self.number} from {self.source}"


@dataclass(frozen=True, slots=True)
class Piece:
    """Some rows of a result, or all of it, and the machine that has them; the empty string if no task wrote them."""

    machine: str
    rows: RowRange | None = None


@dataclass(frozen=True, slots=True)
class HeldRows:
    """Rows of an array, or all, whose initial value machines have in memory; the user gives it if none has."""

    rows: RowRange | None
    machines: tuple[str, ...]

    def __contains__(self, rows: RowRange | None) -> bool:
        return self.rows is None or rows is None or rows[0] <= self.rows[0] < rows[1]


@dataclass(frozen=True, slots=True)
class MachinePart:
    """The tasks and messages of one machine."""

    machine: str
    graph: TaskGraph
    schedule: Schedule
    durations_s: Mapping[str, float]
    host_lanes: int  # of the plan, without those for messages
    host_threads: int  # `Device.most_threads` of its host
    inputs: tuple[str, ...]  # arrays whose initial values it needs
    data: Mapping[str, NumpyArray]  # those of them that the graph gives
    #: Arrays, or rows of them, whose initial values its machine has in memory.
    kept: tuple[tuple[str, RowRange | None], ...] = ()


@dataclass(frozen=True, slots=True)
class DividedPlan:
    """A plan divided among machines."""

    parts: Mapping[str, MachinePart]  # by machine; machines without work have none
    messages: tuple[Message, ...]
    results: Mapping[str, tuple[Piece, ...]]  # places of the final values of each array that is not temporary


#: Initial values that machines have in memory, by array; segments of the plan consist of such rows.
Held = Mapping[str, Sequence[HeldRows]]
_NOTHING_HELD: Held = {}


def divide(plan: Plan, graph: TaskGraph, send: Exchange, receive: Exchange, held: Held = _NOTHING_HELD) -> DividedPlan:
    """Return the parts of a plan, which was made for a platform of `joined`.

    ``send`` and ``receive`` are functions of modules, called by the parts' host tasks as ``send(data, number=...,
    machine=...)``. ``held`` are initial values that machines have in memory; they go from machine to machine.
    """
    return _Division(plan, graph, send, receive, held).divided()


def platform_of(part: MachinePart, platform: Platform) -> Platform:
    """Return a machine's platform as a part's plan needs it: with lanes of the host that send and receive."""
    host = platform.host
    changed = replace(
        host,
        lanes=part.host_lanes + MESSAGE_LANES,
        message_lanes=MESSAGE_LANES,
        most_threads=part.host_threads,
    )
    return replace(platform, devices=tuple(changed if device is host else device for device in platform.devices))


# --- inside ---------------------------------------------------------------------------------------


#: Place of a message in the order of all: number of barriers before it, start of the plan's copy or finish of its task,
#: the task's place in a topological order, its own number.
_Place = tuple[int, float, int, int]


#: A value that goes to a machine: its array or segment, the task that made it, the machine.
_Sending = tuple[str, str, str]


@dataclass(slots=True)
class _Draft:
    """A part that is being made."""

    graph: TaskGraph
    assignments: list[Assignment] = field(default_factory=list)
    initial: dict[str, None] = field(default_factory=dict)  # arrays whose initial values it is given
    kept: dict[tuple[str, RowRange | None], None] = field(default_factory=dict)  # as in `MachinePart`
    #: Its tasks that send, and those that receive, with their place in the order of all messages.
    sends: list[tuple[_Place, str]] = field(default_factory=list)
    receives: list[tuple[_Place, str]] = field(default_factory=list)


class _Division:
    def __init__(self, plan: Plan, graph: TaskGraph, send: Exchange, receive: Exchange, held: Held) -> None:
        self._plan, self._graph, self._send, self._receive, self._held = plan, graph, send, receive, held
        self._placed = {each.task: each for each in plan.schedule.assignments}
        self._sent_s = self._sending_times(_first_copies(plan))
        self._hosts = {machine_of(d.name): d for d in plan.platform.devices if d.is_host}
        self._messages: list[Message] = []
        self._drafts: dict[str, _Draft] = {}
        for task in graph.tasks:
            self._draft(self._machine(task.name))
        self._has: dict[str, set[str]] = {}  # machines that have the current value of each array or segment
        self._has_rows: dict[tuple[str, HeldRows], set[str]] = {}  # machines that have an initial value
        self._begun: set[tuple[str, str]] = set()  # arrays or segments, and machines that have their initial values
        self._maker: dict[str, tuple[str, str]] = {}  # machine and task that made it; none for an input
        self._segments = {s.name: s for found in graph.segments().values() for s in found}
        self._away: dict[str, list[str]] = {}  # predecessors on other machines, by explicit edges
        self._position = {name: position for position, name in enumerate(graph.order())}
        self._barriers = 0  # so far; each is two where several machines have tasks
        self._barrier_s = 0.0  # finish of the last one
        self._added: set[str] = set()  # tasks that are in their parts
        self._unsent: dict[str, list[Message]] = {}  # signals of tasks that are added later

    def divided(self) -> DividedPlan:
        for before, after in self._ordered_edges():
            if self._machine(before) != self._machine(after):
                self._away.setdefault(after, []).append(before)
        for machine, draft in self._drafts.items():
            self._declare(machine, draft)
        for task, accesses in zip(self._graph.tasks, self._graph.touched(), strict=True):
            if task.kind == "barrier":
                self._barrier(task)
            else:
                self._task(task, accesses)
        for before, after in self._ordered_edges():
            if self._machine(before) == self._machine(after):
                self._drafts[self._machine(before)].graph.edge(before, after)
        for draft in self._drafts.values():
            _order_messages(draft)
        results = self._results()
        return DividedPlan(
            {machine: self._part(machine, draft) for machine, draft in self._drafts.items()},
            tuple(self._messages),
            results,
        )

    def _ordered_edges(self) -> Iterator[tuple[str, str]]:
        """Yield the explicit edges, without those of barriers: they order tasks in any case."""
        barriers = {task.name for task in self._graph.tasks if task.kind == "barrier"}
        for edge in self._graph.edges:
            if barriers.isdisjoint(edge):
                yield edge

    def _sending_times(self, copied_s: Mapping[_Sending, float]) -> dict[_Sending, float]:
        """Return when values are sent: when the plan copies them, but after they are made and before their use.

        These are times of the schedule, which orders all tasks that depend on each other; a plan's copies may not.
        """
        makers: dict[str, str] = {}
        used_s: dict[_Sending, float] = {}
        for task, accesses in zip(self._graph.tasks, self._graph.touched(), strict=True):
            placed = self._placed[task.name]
            for access in accesses:
                if access.array in makers:
                    key = access.array, makers[access.array], machine_of(placed.device)
                    used_s[key] = min(used_s.get(key, placed.start_s), placed.start_s)
            makers |= {access.array: task.name for access in accesses if access.mode.writes}
        return {
            key: max(self._placed[key[1]].finish_s, min(at_s, used_s[key]))
            for key, at_s in copied_s.items()
            if key in used_s
        }

    def _machine(self, task: str) -> str:
        return machine_of(self._placed[task].device)

    def _draft(self, machine: str) -> _Draft:
        """Return the part of a machine, which is made if it has none."""
        if machine not in self._drafts:
            self._drafts[machine] = _Draft(TaskGraph(f"{self._graph.name} on {machine}"))
        return self._drafts[machine]

    def _declare(self, machine: str, draft: _Draft) -> None:
        used = {
            access.array
            for task in self._graph.tasks
            if self._machine(task.name) == machine
            for access in task.accesses
        }
        for array in self._graph.arrays.values():
            if array.name in used:
                draft.graph.array(array.name, array.shape, array.dtype, temporary=array.temporary, usm=array.usm)

    def _task(self, task: Task, accesses: tuple[Access, ...]) -> None:
        placed = self._placed[task.name]
        machine = machine_of(placed.device)
        draft = self._drafts[machine]
        for access in accesses:
            if access.mode.reads:
                self._bring(access.array, machine)
        # Signals are added where their tasks are, since barriers separate earlier tasks from later ones.
        signals = [self._awaited(before, machine) for before in self._away.get(task.name, ())]
        draft.graph.insert(task)
        draft.assignments.append(replace(placed, device=local_name(placed.device)))
        for signal in signals:
            draft.graph.edge(signal, task)
        self._added.add(task.name)
        for message in self._unsent.pop(task.name, ()):
            self._add_end_signal(task.name, message)
        for access in accesses:
            if access.mode.writes:
                self._has[access.array] = {machine}
                self._maker[access.array] = machine, task.name

    def _bring(self, name: str, machine: str) -> None:
        """Let a machine have the current value of an array or segment."""
        array, rows = self._whole(name), self._segments[name].rows if name in self._segments else None
        if name not in self._has:
            if (name, machine) not in self._begun:
                self._begun.add((name, machine))
                self._bring_initial(array, rows, machine)
            return
        if machine in self._has[name]:
            return
        source, maker = self._maker[name]
        self._copy(array, rows, source, machine, maker)
        self._has[name].add(machine)

    def _bring_initial(self, array: str, rows: RowRange | None, machine: str) -> None:
        """Let a machine have the initial value of an array, or of some of its rows."""
        held = [each for each in self._held.get(array, ()) if rows in each]
        if not held or not all(each.machines for each in held):  # every machine is given it that needs it
            self._drafts[machine].initial[array] = None
        for each in held:
            has = self._has_rows.setdefault((array, each), set())
            if machine in has or not each.machines:
                continue
            if machine in each.machines:
                self._keep(array, each.rows, machine)
            else:
                source = each.machines[0]
                self._keep(array, each.rows, source)
                self._copy(array, each.rows, source, machine, None)
            has.add(machine)

    def _keep(self, array: str, rows: RowRange | None, machine: str) -> None:
        """Let a machine's part begin with a value that its memory has."""
        draft, declared = self._draft(machine), self._graph.arrays[array]
        draft.kept[array, rows] = None
        if array not in draft.graph.arrays:
            draft.graph.array(array, declared.shape, declared.dtype, temporary=declared.temporary, usm=declared.usm)

    def _copy(self, array: str, rows: RowRange | None, source: str, destination: str, maker: str | None) -> None:
        """Let one machine send a value to another."""
        given = self._array(source, array), self._array(destination, array)
        sent, received = (each if rows is None else each[slice(*rows)] for each in given)
        segment = "" if rows is None else row_range_name(array, rows)
        message = Message(len(self._messages), source, destination, array, rows, sent.nbytes, segment, maker)
        self._messages.append(message)
        at_s = None if maker is None else self._sent_s.get((segment or array, maker, destination))
        self._exchange(message, self._send, maker, at_s, data=sent.read())
        self._exchange(message, self._receive, maker, at_s, data=received.write())

    def _awaited(self, before: str, machine: str) -> Task:
        """Return a machine's task that ends after a task of another one."""
        message = Message(len(self._messages), self._machine(before), machine)
        self._messages.append(message)
        if before in self._added:
            self._add_end_signal(before, message)
        else:
            self._unsent.setdefault(before, []).append(message)
        return self._exchange(message, self._receive, before)

    def _add_end_signal(self, task: str, message: Message) -> None:
        """Add the host task that signals the end of a task to a machine."""
        self._drafts[message.source].graph.edge(task, self._exchange(message, self._send, task))

    def _signal(self, source: str, destination: str, task: str) -> None:
        """Let one machine tell another that it has come as far as a task."""
        message = Message(len(self._messages), source, destination)
        self._messages.append(message)
        self._exchange(message, self._send, task)
        self._exchange(message, self._receive, task)

    def _exchange(
        self, message: Message, function: Exchange, maker: str | None, at_s: float | None = None, **data: Any
    ) -> Task:
        """Add the host task that sends or receives the message with a task's value, or an initial one.

        It is at the task's finish or later.
        """
        sends, ends = function is self._send, (message.source, message.destination)
        machine, other = ends if sends else ends[::-1]
        draft, name = self._drafts[machine], message.sender if sends else message.receiver
        call = partial(function, number=message.number, machine=other)
        task = draft.graph.host(call, name=name, **data)
        assert task.operation is not None
        if at_s is None:
            at_s = 0.0 if maker is None else self._placed[maker].finish_s
        lane_s = max(at_s, self._barrier_s)  # a value may be sent long after it was made
        self._assign(draft, machine, name, lane_s, 0 if sends else 1, task.operation.implementations[0].name)
        place = self._barriers, at_s, -1 if maker is None else self._position[maker], message.number
        (draft.sends if sends else draft.receives).append((place, name))
        return task

    def _assign(self, draft: _Draft, machine: str, task: str, at_s: float, lane: int, named: str | None) -> None:
        lanes = self._hosts[machine].lanes
        draft.assignments.append(Assignment(task, HOST, lanes + lane, named, at_s, at_s))

    def _barrier(self, task: Task) -> None:
        """Let all machines wait for each other."""
        at_s = self._barrier_s = self._placed[task.name].finish_s
        for machine, draft in self._drafts.items():
            draft.graph.barrier(name=task.name)
            self._assign(draft, machine, task.name, at_s, 0, None)
        self._barriers += 1
        if len(self._drafts) == 1:
            return
        for source in self._drafts:
            for destination in self._drafts:
                if source != destination:
                    self._signal(source, destination, task.name)
        for machine, draft in self._drafts.items():
            again = draft.graph.barrier(name=f"{task.name}, on all machines")
            self._assign(draft, machine, again.name, at_s, 1, None)
        self._barriers += 1

    def _whole(self, name: str) -> str:
        return self._segments[name].whole if name in self._segments else name

    def _array(self, machine: str, name: str) -> LogicalArray:
        return self._drafts[machine].graph.arrays[name]

    def _results(self) -> dict[str, tuple[Piece, ...]]:
        segments = self._graph.segments()
        found: dict[str, tuple[Piece, ...]] = {}
        for name, array in self._graph.arrays.items():
            if array.temporary:
                continue
            cut = segments.get(name, ())
            pieces = [Piece(self._maker.get(s.name, ("",))[0], s.rows) for s in cut]
            found[name] = tuple(pieces) or (Piece(self._maker.get(name, ("",))[0]),)
        return found

    def _part(self, machine: str, draft: _Draft) -> MachinePart:
        assignments = sorted(draft.assignments, key=lambda each: each.start_s)
        return MachinePart(
            machine,
            draft.graph,
            Schedule(self._plan.schedule.policy, tuple(assignments)),
            {each.task: each.finish_s - each.start_s for each in assignments},
            self._hosts[machine].lanes,
            self._hosts[machine].most_threads,
            tuple(draft.initial),
            {name: value for name, value in self._graph.data.items() if name in draft.initial},
            tuple(draft.kept),
        )


def _first_copies(plan: Plan) -> dict[_Sending, float]:
    """Return when values are first copied to other machines."""
    makers: dict[str, str] = {}
    found: dict[_Sending, float] = {}
    for _, instruction in plan.instructions():
        if instruction.kind == "copy":
            for source, target in zip(instruction.uses[::2], instruction.uses[1::2], strict=True):
                machine = machine_of(target.space)
                if target.array in makers and machine_of(source.space) != machine:
                    key = target.array, makers[target.array], machine
                    found.setdefault(key, instruction.start_s)
        elif instruction.kind in ("launch", "host") and instruction.task is not None:
            makers |= {use.array: instruction.task for use in instruction.uses if use.mode.writes}
    return found


def _order_messages(draft: _Draft) -> None:
    """Add edges that hold the order of messages."""
    sends, receives = sorted(draft.sends), sorted(draft.receives)
    for messages in (sends, receives):
        for (_, before), (_, after) in pairwise(messages):
            draft.graph.edge(before, after)
    for place, name in receives:
        earlier = bisect_left(sends, (place, ""))
        if earlier:
            draft.graph.edge(sends[earlier - 1][1], name)


def check_machines(plan: Plan, machines: Mapping[str, Any]) -> None:
    """Refuse a plan for other machines than those there."""
    missing = [name for name in machine_names(plan.platform) if name not in machines]
    if missing:
        raise PlanError(
            f"the plan needs {', '.join(missing)}",
            where=f"plan {plan.name!r}",
            hint=f"The cluster has {', '.join(machines) or 'no machine'}; plan again",
        )
