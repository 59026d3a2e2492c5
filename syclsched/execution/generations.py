# SPDX-License-Identifier: Apache-2.0
"""Copies of a bound plan, each with memory and commands of its own, over the same lanes."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, TypeVar, cast

import numpy as np

from syclsched.devices import faultpoints
from syclsched.devices.command_list import CommandList
from syclsched.devices.commands import Command
from syclsched.devices.constants import uploaded_bytes
from syclsched.devices.executables import submits_itself
from syclsched.devices.joined import join_key
from syclsched.devices.performance import LocalQueues, Performance, local_queues
from syclsched.devices.submission_loop import SubmissionLoop
from syclsched.errors import ExecutionError
from syclsched.execution import patience
from syclsched.execution.batches import Commands
from syclsched.execution.buffers import NumpyArray
from syclsched.execution.clock import Anchor, ClockMap, read_anchors
from syclsched.execution.flights import Flights
from syclsched.execution.flown import FlownReplay
from syclsched.execution.host_calls import host_step, with_own_views
from syclsched.execution.host_thread import HostThread
from syclsched.execution.hosted_replay import HostedReplay, StagedHostedReplay
from syclsched.execution.joining import joint_launches
from syclsched.execution.lanes import by_index, device_names
from syclsched.execution.levels import Levels, find_levels
from syclsched.execution.performed import PerformedReplay
from syclsched.execution.program import Node
from syclsched.execution.replay import Replay
from syclsched.execution.resources import GRACE_S
from syclsched.execution.start import Prepared
from syclsched.execution.stream_replay import StagedReplay
from syclsched.execution.waiting import Flag, wait_flag
from syclsched.execution.worker import Worker
from syclsched.model.plan import Plan
from syclsched.model.platform import HOST

AnyReplay = TypeVar("AnyReplay", bound=Replay)


class Ring:
    """Generations of a plan whose work can be submitted at once: the first runs alone, several run as a stream.

    Parameters
    ----------
    prepared : Prepared
        The plan.
    executables : Mapping[int, Executable]
        By instruction number.
    library : Library
        The compiled loop.
    queues : dict of str to dpctl.SyclQueue
        By lane name; nobody else submits to them.
    live : LiveDevices
        Where memory comes from.
    """

    def __init__(
        self, prepared: Prepared, executables: Mapping[int, Any], library: Any, queues: dict[str, Any], live: Any
    ) -> None:
        # One for all: where devices compute on the host's cores, each thread that waits takes one.
        self.worker = Worker(f"syclsched {prepared.plan.name} replay")
        levels = find_levels(prepared.program)
        #: What does the host's steps, if the plan has any.
        self.host = HostThread(f"syclsched {prepared.plan.name} host") if levels.steps else None
        self._clocks = Clocks(prepared.plan, queues)
        threads = self.worker, self.host
        self._make = partial(Generation, prepared, executables, library, queues, live, threads, levels, self._clocks)
        self.generations: list[Generation] = [self._make()]
        self._clocks.attend(self.generations, self.worker, live.leave_behind)

    @property
    def constant_bytes(self) -> dict[str, int]:
        """Bytes of constants by memory space; all generations read the same."""
        return self.generations[0].constant_bytes

    def grow(self, count: int) -> None:
        """Have at least so many generations.

        Raises
        ------
        MemoryLimitError
            If memory for them cannot be had.
        """
        while len(self.generations) < count:
            self.generations.append(self._make())

    def shrink(self, count: int) -> None:
        """Give back the memory of all but the first so many, which must not be on their way."""
        while len(self.generations) > max(1, count):
            self.generations[-1].settle()
            self.generations.pop().close()

    @property
    def idle(self) -> bool:
        """Whether none of its generations is on its way, given up or not, and no clock is being read."""
        return self._clocks.idle and all(generation.idle for generation in self.generations)

    def close(self) -> None:
        """Give everything back."""
        self.worker.stop()
        if self.host is not None:
            self.host.stop()
        self._clocks.generations = ()
        for generation in self.generations:
            generation.close()

    def settle(self) -> None:
        """Wait until none of its generations is on its way; see `Generation.settle` and `Clocks.settle`."""
        self._clocks.settle()
        for generation in self.generations:
            generation.settle()

    def abandon(self) -> None:
        """Give everything back once nothing is on its way any more; returns at once, and waits for no device."""
        if self.idle:
            self.close()
            return
        for generation in self.generations:
            generation.cancel()
        if self.host is None:
            self.worker.post(self.close)  # behind the wait for the devices, on the thread that is in it
        else:
            self.host.worker.post(lambda: self.worker.post(self.close))


class Clocks:
    """The clocks of a plan's devices, as they were when nothing was on its way.

    Parameters
    ----------
    plan : Plan
        Its lanes.
    queues : Mapping[str, dpctl.SyclQueue]
        By lane name.
    """

    def __init__(self, plan: Plan, queues: Mapping[str, Any]) -> None:
        self._plan = plan
        self._queues = queues
        self.generations: Sequence[Generation] = ()
        self.first: dict[str, Anchor] = {}
        self.last: dict[str, Anchor] = {}
        #: Set when the reading that was begun last has ended.
        self._there: Flag | None = None
        #: The one that nobody waits for any more.
        self._hanging: Flag | None = None

    def attend(self, generations: Sequence[Generation], worker: Worker, leave_behind: Callable[[], None]) -> None:
        """Be told whose clocks they are.

        Parameters
        ----------
        generations : sequence of Generation
            All that use the lanes.
        worker : Worker
            Reads them: a device that hangs holds up the thread that waits for the devices, and nobody else.
        leave_behind : callable
            Called when one does not answer.
        """
        self.generations = generations
        self._worker, self._leave_behind = worker, leave_behind

    @property
    def idle(self) -> bool:
        """Whether none is being read."""
        return self._there is None or self._there.is_set()

    def read(self) -> None:
        """Read them, if nothing is on its way: a busy queue would answer late.

        Raises
        ------
        ExecutionError
            If a device does not answer for `patience.HANG_S`.
        """
        if not self.generations or not self.idle or not all(generation.idle for generation in self.generations):
            return
        there = self._there = Flag()
        if self._worker.is_current:  # at the end of a run that is recorded: it would wait for itself
            self._read(there)
            return
        self._worker.post(partial(self._read, there))
        self.settle()

    def settle(self) -> None:
        """Wait until they are not being read.

        Raises
        ------
        ExecutionError
            If a device does not answer for `patience.HANG_S`; at once if it is known not to.
        """
        there = self._there
        if there is None or there.is_set():
            return
        if self._hanging is not there:
            if wait_flag(there, patience.HANG_S):
                return
            self._hanging = there
            self._leave_behind()
        if not there.is_set():
            raise ExecutionError(
                f"a device hangs: its clock could not be read within {patience.HANG_S:g} s",
                where=f"plan {self._plan.name!r}",
                hint="Bind the plan again, without the device that hangs",
            )

    def _read(self, there: Flag) -> None:
        try:
            found = read_anchors(
                [
                    (index, lane.device, self._queues[lane.name])
                    for index, lane in enumerate(self._plan.lanes)
                    if lane.name in self._queues
                ],
                self.generations[0].loop.stamp,
            )
            self.first, self.last = found | self.first, self.last | found
        finally:
            there.set()

    def maps(self) -> dict[str, ClockMap]:
        """Return the map of each lane's clock, read anew if that can be."""
        with suppress(ExecutionError):
            self.read()
        return {
            lane.name: ClockMap(self.first[lane.device], self.last[lane.device])
            for lane in self._plan.lanes
            if lane.name in self._queues and lane.device in self.first
        }


class Generation:
    """Memory and commands of a plan whose work can be submitted at once; runs it, time after time.

    Parameters
    ----------
    prepared, executables, library, queues, live
        As for `Ring`.
    threads : (Worker, HostThread or None)
        The thread that waits for the devices, and the one that does the host's steps.
    levels : Levels
        What the host does, and when.
    clocks : Clocks
        The devices'.
    """

    def __init__(
        self,
        prepared: Prepared,
        executables: Mapping[int, Any],
        library: Any,
        queues: dict[str, Any],
        live: Any,
        threads: tuple[Worker, HostThread | None],
        levels: Levels,
        clocks: Clocks,
    ) -> None:
        self._prepared = prepared
        self._executables = executables
        #: Bytes of constants by memory space.
        self.constant_bytes = uploaded_bytes(executables.values())
        self._with_status = {number: piece for number, piece in prepared.work.items() if piece.status is not None}
        plan, program = prepared.plan, prepared.program
        lanes = by_index(plan, queues)
        self._queues = queues
        self._clocks = clocks
        self._current: Replay | None = None
        self._worker, self._host = threads
        self._levels = levels
        self._calls: dict[int, Callable[[], object]] = {}
        self._retried: list[str] = []
        self._given: dict[str, NumpyArray] = {}
        self._given_at: dict[str, int] = {}
        self._buffers = prepared.new_buffers(live)
        self.loop = SubmissionLoop(library, lanes, program.slots, device_names(plan))
        self.loop.go_native(own_kernels=True)
        self._commands = Commands(self.loop, program, prepared.work, dict(executables), self._buffers, lanes)
        self._list: CommandList | None = None
        #: Whole runs in one call of C.
        self.flights = Flights(library, self.loop, program, self._buffers)
        self._local: LocalQueues | None = None
        try:
            assert prepared.layout is not None
            self._buffers.lay_out(prepared.layout, plan)
        except BaseException:
            self.close()
            raise
        nodes = sorted((program.nodes[number] for number in levels.of), key=lambda node: levels.of[node.id])
        self._library = library
        # A library knows the lane's own queue only, and nobody there waits for the host.
        if not levels.steps and not any(submits_itself(executable) for executable in executables.values()):
            self._local = local_queues({lane: lanes[lane] for lane in {node.lane for node in nodes}})
        self._performance: Performance | None = None
        joins = self.loop.native and self._local is None
        #: What is submitted as one.
        self._units: list[tuple[Node, ...]] = joint_launches(
            program,
            nodes,
            self._join_key if joins else lambda _: None,
            frozenset(prepared.graph.edges),
            prepared.layout.behind,
            levels.of,
        )
        for unit in self._units:
            self.loop.share([node.id for node in unit])

    def replay(self, values: Mapping[str, NumpyArray], *, record: bool, kind: type[AnyReplay]) -> AnyReplay:
        """Return a run with these inputs, not yet started.

        Parameters
        ----------
        values : Mapping[str, numpy.ndarray]
            From `Prepared.values`.
        record : bool
            As for `Replay`.
        kind : type
            `Replay` or one made of it.
        """
        self.settle()
        listed = self._listed(values)
        performed = kind is Replay and self._performance is not None and faultpoints.active is None
        if record and not self._clocks.first:
            self._clocks.read()
        hosted = {Replay: HostedReplay, StagedReplay: StagedHostedReplay}[kind] if self._levels.steps else kind
        return cast(AnyReplay, self._made(PerformedReplay if performed else hosted, listed, record=record))

    def fly(self, values: Mapping[str, NumpyArray], names: tuple[str, ...]) -> dict[str, NumpyArray] | None:
        """Run with these inputs in one call of C, and return copies of results.

        Parameters
        ----------
        values : Mapping[str, numpy.ndarray]
            From `Prepared.values`.
        names : tuple of str
            Of the results.

        Returns
        -------
        dict of str to numpy.ndarray or None
            None if it cannot be done so; if `flown` then returns something, it goes on or has failed.
        """
        self.settle()
        listed = self._listed(values)
        return None if self._levels.steps or faultpoints.active is not None else self.flights.fly(listed, names)

    def flown(self) -> FlownReplay | None:
        """Return what goes on with the run that `fly` has begun, not yet started; None if nothing is left of it."""
        flight = self.flights.followed()
        if flight is None:
            return None
        assert self._list is not None
        made = self._made(FlownReplay, self._list, record=False)
        made.flight = flight
        return made

    def _listed(self, values: Mapping[str, NumpyArray]) -> CommandList:
        """Return all commands, with these inputs in them."""
        self._give(values)
        self._make_calls()
        if self._list is None:
            predicted_s = {node.id: node.instruction.duration_s for unit in self._units for node in unit}
            self._list = CommandList(self.loop, [self._command(unit) for unit in self._units], predicted_s)
            of_units = [self._levels.of[unit[0].id] for unit in self._units]
            self._ends = [bisect_right(of_units, level) for level in range(len(self._levels.steps) + 1)]
            if self._local is not None:
                self._performance = Performance(self._library, self.loop, self._local, self._list.commands)
        return self._list

    def _made(self, kind: type[AnyReplay], listed: CommandList, *, record: bool) -> AnyReplay:
        made = kind(
            self._prepared.program,
            self._prepared.work,
            self._with_status,
            listed,
            self.loop,
            self._buffers,
            self._worker,
            self._clocks.maps,
            record=record,
        )
        made.counts.constant_bytes = self.constant_bytes
        if isinstance(made, PerformedReplay) and self._performance is not None:
            made.performance = self._performance
        if isinstance(made, HostedReplay):
            assert self._host is not None
            made.host, made.levels, made.ends = self._host, self._levels, self._ends
            made.calls, made.retried = self._calls, self._retried
        self._current = made
        return made

    @property
    def idle(self) -> bool:
        """Whether it is not on its way."""
        ended = self._current is None or self._current.finished.is_set()
        return ended and self.flights.followed() is None

    def cancel(self) -> None:
        """Submit nothing more; what was submitted ends. Returns at once."""
        if self._current is not None:
            self._current.cancel()

    def settle(self) -> None:
        """Wait until it is not on its way, if nobody has: its start was interrupted.

        Raises
        ------
        ExecutionError
            If it was given up, or that takes longer than the end of a run may; says what it is at.
        """
        current = self._current
        if current is None or current.finished.is_set():
            current = self.flown()
            if current is None:
                self.flights.settle()
                return
        if not current.begun:
            current.cancel()
        if not current.given_up and wait_flag(current.finished, GRACE_S):
            return
        if not current.finished.is_set():
            raise ExecutionError(
                f"an earlier run was given up, and something of it goes on still: {current.what_is_left()}",
                where=f"plan {self._prepared.plan.name!r}",
                hint="Bind the plan again, without the device that hangs",
            )

    def arrange(self, order: Sequence[int]) -> None:
        """Submit in this order of instruction numbers from now on, each alone: none before what it waits for."""
        if [(number,) for number in order] != [tuple(node.id for node in unit) for unit in self._units]:
            self._units = [(self._prepared.program.nodes[number],) for number in order]
            self.loop.share_nothing()
            self._list = None
            self.flights.close()

    def close(self) -> None:
        """Give everything back."""
        self.flights.close()
        if self._local is not None:
            self._local.close()
        self.loop.close()
        self._buffers.clear()

    def _give(self, values: Mapping[str, NumpyArray]) -> None:
        """Put inputs where the commands read them: only where they lie elsewhere than before do commands change.

        Those that are written in the host's memory are copied to a place of their own.
        """
        written = self._prepared.program.written_inputs
        inputs = self._prepared.inputs
        at = {name: values[name].__array_interface__["data"][0] for name in inputs}
        if at == self._given_at and not written:
            self._given = {name: values[name] for name in inputs}
            return
        moved = {
            name
            for name in inputs
            if name not in self._given or (name not in written and self._given_at[name] != at[name])
        }
        for name in inputs:
            if name in moved:
                self._buffers.add_input(name, values[name], private=name in written)
            elif name in written:
                np.copyto(self._buffers[name, HOST].numpy(writable=True), values[name])
        if moved:
            steps = {node.id for node in self._levels.nodes if any(use.space == HOST for use in node.instruction.uses)}
            self._calls = {number: call for number, call in self._calls.items() if number not in steps}
        if moved and self._list is not None:
            for unit in self._units:
                if any(use.space == HOST for node in unit for use in node.instruction.uses):
                    command = self._command(unit)
                    self._list.replace(command)
                    if self._performance is not None:
                        self._performance.replaced(command)
        self._given, self._given_at = {name: values[name] for name in inputs}, at

    def _join_key(self, node: Node) -> tuple[Hashable, int] | None:
        executable, work = self._executables.get(node.id), self._prepared.work.get(node.id)
        if executable is None or work is None or work.writes_nothing:
            return None
        lane = self._prepared.plan.lanes[node.lane]
        return join_key(executable, self._queues[lane.name])

    def _make_calls(self) -> None:
        """Make what does the host's steps, where it is not made yet."""
        for step in self._levels.nodes:
            if step.id in self._calls:
                continue
            executable = self._executables.get(step.id)
            function = (
                None if executable is None or executable.function is None else with_own_views(executable.function)
            )
            with self._allocated([step]):
                self._calls[step.id] = host_step(
                    step.instruction, self._prepared.work.get(step.id), function, self._buffers, self._retried
                )

    def _command(self, unit: tuple[Node, ...]) -> Command:
        with self._allocated(unit):
            command = self._commands.together(unit) if len(unit) > 1 else self._commands.get(unit[0])
        assert command is not None, unit[0].instruction
        return command

    @contextmanager
    def _allocated(self, nodes: Iterable[Node]) -> Iterator[None]:
        """Have buffers that are allocated several times be what some instructions use."""
        assert self._prepared.layout is not None
        several = [each for node in nodes for each in self._prepared.layout.several.get(node.id, ())]
        for buffer, number in several:
            self._buffers.use(buffer, number)
        try:
            yield
        finally:
            for buffer, _ in several:
                self._buffers.use(buffer, None)
