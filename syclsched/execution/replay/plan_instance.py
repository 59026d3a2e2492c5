# SPDX-License-Identifier: Apache-2.0
"""Instance of a bound plan: memory and commands of one run in flight, on lanes that all instances share."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from syclsched.devices.memory.constant_uploads import uploaded_bytes
from syclsched.devices.memory.resident_array import CopiedArray, InputValue, address_of, host_value
from syclsched.devices.native.submission_library import SubmissionLibrary
from syclsched.devices.native.sycl_types import SyclQueue
from syclsched.devices.programs.executables import Executable
from syclsched.devices.programs.joined_launches import can_join, join_key
from syclsched.devices.programs.launch_chains import MOST_ARGUMENTS, ChainLink, can_chain, chain_link
from syclsched.devices.submission import faultpoints
from syclsched.devices.submission.command_list import CommandList
from syclsched.devices.submission.commands import Command
from syclsched.devices.submission.lane_thread_batch import LaneThreadBatch, lane_thread_queues
from syclsched.devices.submission.lane_threads import SharedLaneThreads
from syclsched.devices.submission.local_queues import LocalQueues
from syclsched.devices.submission.submission_loop import SubmissionLoop
from syclsched.errors import ExecutionError
from syclsched.execution.core.clock import host_clocks
from syclsched.execution.core.program import ProgramNode
from syclsched.execution.core.waiting import wait_flag
from syclsched.execution.core.worker import WorkerThread
from syclsched.execution.dispatch.prepared import PreparedPlan
from syclsched.execution.handle.resources import GRACE_S
from syclsched.execution.lanes.device_clocks import DeviceClocks
from syclsched.execution.lanes.host_calls import make_host_step, with_own_views
from syclsched.execution.lanes.host_thread import HostThread
from syclsched.execution.lanes.instruction_commands import CommandCache
from syclsched.execution.lanes.lanes import by_index, device_names
from syclsched.execution.memory.buffers import NumpyArray
from syclsched.execution.replay.copied_inputs import CopiedInputs
from syclsched.execution.replay.end_watch import WORKER_WATCH, EndWatch, PolledEndWatch
from syclsched.execution.replay.host_steps import HostSteps
from syclsched.execution.replay.host_sync import HostSyncSchedule
from syclsched.execution.replay.input_commands import InputSpec, make_input_commands
from syclsched.execution.replay.launch_fusion import chain_launches, fuse_launches, is_tiny, saves_enough
from syclsched.execution.replay.native_run_cache import NativeRunCache
from syclsched.execution.replay.replay import Replay
from syclsched.execution.replay.submission import (
    BegunSubmission,
    LaneThreadSubmission,
    StagedSubmission,
    SubmissionStrategy,
)
from syclsched.model.platform import HOST

if TYPE_CHECKING:
    from syclsched.devices.opened_devices import OpenDevices


#: Most submissions of a plan whose kernels are chained: larger plans take longer than their launches.
MOST_CHAINED_UNITS = 512
#: Submissions of a plan that is not small, and the fewest kernels of a chain in one: compiling it takes some 50 ms.
MANY_UNITS, FEWEST_CHAINED = 32, 4


class PlanInstance:
    """Memory and prepared commands of a plan whose work can be submitted at once; used for repeated runs."""

    def __init__(
        self,
        prepared: PreparedPlan,
        executables: Mapping[int, Executable],
        library: SubmissionLibrary,
        queues: dict[str, SyclQueue],
        devices: OpenDevices,
        threads: tuple[WorkerThread, Sequence[HostThread], SharedLaneThreads | None],
        levels: HostSyncSchedule,
        clocks: DeviceClocks,
        chains: bool,
    ) -> None:
        self._prepared = prepared
        self._executables = executables
        #: Bytes of constants, by memory space.
        self.constant_bytes = uploaded_bytes(executables.values())
        self._with_status = {number: piece for number, piece in prepared.work.items() if piece.status is not None}
        plan, program = prepared.plan, prepared.program
        lanes = by_index(plan, queues)
        self._queues = queues
        self._clocks = clocks
        self._current: Replay | None = None
        self._worker, self._hosts, self._lane_threads = threads
        self._levels = levels
        self._calls: dict[int, Callable[[], object]] = {}
        self._retried: list[str] = []
        self._inputs: dict[str, InputValue] = {}
        self._input_addresses: dict[str, int] = {}
        #: Inputs at a new address whose commands are not updated yet: the update can fail or be interrupted.
        self._moved_inputs: set[str] = set()
        self._buffers = prepared.new_buffers(devices)
        #: Inputs that were copied before the run.
        self.copied = CopiedInputs(program, self._buffers)
        self.loop = SubmissionLoop(library, lanes, program.slots, device_names(plan))
        self.loop.use_native_queues(own_kernels=True)
        self._commands = CommandCache(self.loop, program, prepared.work, dict(executables), self._buffers, lanes)
        self._commands_made: CommandList | None = None
        #: One-call runs of the instance.
        self.native_runs = NativeRunCache(library, self.loop, program, self._buffers)
        self._local_queues: LocalQueues | None = None
        try:
            assert prepared.layout is not None
            self._buffers.place_in_layout(prepared.layout, plan)
        except BaseException:
            self.close()
            raise
        nodes = sorted((program.nodes[number] for number in levels.of), key=lambda node: levels.of[node.id])
        self._library = library
        if self._lane_threads is not None and not levels.steps:  # with host steps, lanes must wait for the host
            self._local_queues = lane_thread_queues({lane: lanes[lane] for lane in {node.lane for node in nodes}})
        self._lane_batch: LaneThreadBatch | None = None
        joins = self.loop.native and self._lane_threads is None
        #: Instructions in submission order; those of one tuple are submitted as one command.
        self._units: list[tuple[ProgramNode, ...]] = fuse_launches(
            program,
            nodes,
            self._join_key if joins else lambda _: None,
            frozenset(prepared.graph.edges),
            prepared.layout.behind,
            levels.of,
            self._can_join,
        )
        #: The first instructions of units whose launches one work-item makes one after another.
        self._chained: set[int] = set()
        #: Whether the smallest kernels are still to be chained: many plans are compared, and never run.
        self._chains = chains and joins and not levels.steps and len(self._units) <= MOST_CHAINED_UNITS

    def replay(
        self,
        values: Mapping[str, InputValue],
        *,
        record: bool,
        time_each_call: bool = False,
        polled: PolledEndWatch | None = None,
        in_flight: int = 1,
    ) -> Replay:
        """Return a replay with these inputs, not yet started; with a watch for polling, one of a stream's instances.

        A stream's instance is submitted in stages, by `Replay.submit_until`.
        """
        self.settle()
        commands = self._command_list(values)
        commands.share(in_flight)
        alone = polled is None and not self._levels.steps
        self.loop.use_lanes(None if alone else self._active_lane_threads())
        if record and not self._clocks.first and not self.loop.uses_lane_threads:
            self._clocks.read()
        submission: SubmissionStrategy
        if polled is not None:
            submission = StagedSubmission(commands, self.loop)
        elif self._lane_batch is not None and faultpoints.active is None:
            submission = LaneThreadSubmission(commands, self.loop, self._lane_batch, self._clocks.maps)
        else:
            submission = SubmissionStrategy(commands, self.loop, time_each_call=record and time_each_call)
        return self._made(submission, polled or WORKER_WATCH, record=record)

    def run_blocking(self, values: Mapping[str, InputValue], names: tuple[str, ...]) -> dict[str, NumpyArray] | None:
        """Run with these inputs by one C call, see `NativeRunCache.run_blocking`; None also if that is not eligible."""
        self.settle()
        self._current = None
        commands = self._command_list(values)
        if self._levels.steps or faultpoints.active is not None:
            return None
        return self.native_runs.run_blocking(commands, names)

    def repeat(self, inputs: Sequence[InputSpec], names: tuple[str, ...]) -> Callable[[tuple[Any, ...]], Any] | None:
        """Return a fast path for repeating the last one-call run with new inputs; None if not eligible."""
        native_run = self.native_runs.ready(names)
        if native_run is None or self._commands_made is None or faultpoints.active is not None:
            return None
        self.settle()
        own = make_input_commands(self._library, self.loop, self._prepared.program, self._commands_made, inputs)
        if own is None:
            return None
        native_run.own(own)
        repeated = self.native_runs.repeated(native_run, names, self.settle)

        def run_again(arrays: tuple[Any, ...]) -> dict[str, NumpyArray] | None:
            if self._current is not None or faultpoints.active is not None:
                return None
            return repeated(arrays)

        return run_again

    @property
    def given(self) -> Mapping[str, InputValue]:
        """Inputs of the last run, except a one-call run that has completed."""
        return self._inputs

    def take_over(self) -> Replay | None:
        """Return a replay that takes over the last one-call run; None if that run has completed.

        The run is still in progress or has failed; the replay must still be started.
        """
        native_run = self.native_runs.unfinished()
        if native_run is None:
            return None
        if native_run.read is not None:
            self._set_inputs({**self._inputs, **native_run.read})  # inputs that stay in place are not read anew
        assert self._commands_made is not None
        submission = BegunSubmission(self._commands_made, self.loop, native_run)
        return self._made(submission, WORKER_WATCH, record=False)

    def _command_list(self, values: Mapping[str, InputValue]) -> CommandList:
        """Set the inputs, and return the list of all commands."""
        self._set_inputs(values)
        self._make_calls()
        if self._commands_made is None:
            self._share_events()
            predicted_s = {node.id: node.instruction.duration_s for unit in self._units for node in unit}
            self._commands_made = CommandList(self.loop, [self._command(unit) for unit in self._units], predicted_s)
            of_units = [self._levels.of[unit[0].id] for unit in self._units]
            last = len(self._levels.steps)
            due = sorted({0, *of_units, last})
            self._host_steps = HostSteps(
                self._hosts,
                self._levels,
                [bisect_right(of_units, level) for level in range(last + 1)],
                due,
                [[bisect_left(indices, level) for level in due] for indices in self._levels.lanes],
                self._calls,
                self._retried,
            )
            if self._local_queues is not None:
                self._lane_batch = LaneThreadBatch(
                    self._library, self.loop, self._local_queues, self._commands_made.commands
                )
        return self._commands_made

    def build_chains(self) -> None:
        """Chain the smallest kernels, unless that is done; otherwise the first run does it."""
        if self._chains:
            self._chains, self._units = False, self._with_chains(self._units)

    def _share_events(self) -> None:
        """Let the launches of each unit share one event."""
        self.build_chains()
        for unit in self._units:
            slots = [node.id for node in unit]
            self.loop.share(slots[::-1] if unit[0].id in self._chained else slots)

    def _active_lane_threads(self) -> Any | None:
        """Return the lane threads to submit to; None if there are none or faults are injected."""
        if self._lane_threads is None or faultpoints.active is not None:
            return None
        return self._lane_threads.lanes(self.loop)

    def _made(self, submission: SubmissionStrategy, watch: EndWatch, *, record: bool) -> Replay:
        """Return a replay, not yet started, and wait for it before the next run."""
        on_threads = submission.on_lane_threads or self.loop.uses_lane_threads
        self._current = Replay(
            self._prepared.program,
            self._with_status,
            self._buffers,
            self._worker,
            partial(host_clocks, self._prepared.plan) if on_threads else self._clocks.maps,
            submission,
            watch,
            self._host_steps if self._hosts else None,
            constant_bytes=self.constant_bytes,
            record=record,
        )
        return self._current

    @property
    def idle(self) -> bool:
        """Whether no run of the instance is in flight."""
        ended = self._current is None or self._current.finished.is_set()
        return ended and self.native_runs.unfinished() is None

    def cancel(self) -> None:
        """Stop submitting; submitted commands still complete. Returns at once."""
        if self._current is not None:
            self._current.cancel()

    def settle(self) -> None:
        """Wait for a run in flight that no caller waits for, because its start was interrupted."""
        current = self._current
        if current is None or current.finished.is_set():
            current = self.take_over()
            if current is None:
                self.native_runs.settle()
                return
        if not current.begun:
            current.cancel()
        if not current.hung and wait_flag(current.finished, GRACE_S):
            return
        if not current.finished.is_set():
            raise ExecutionError(
                f"an earlier run was given up, and part of it is still running: {current.what_is_left()}",
                where=f"plan {self._prepared.plan.name!r}",
                hint="Bind the plan again, without the device that hangs",
            )

    def set_submission_order(self, order: Sequence[int]) -> None:
        """Submit in this order of instruction numbers from now on, each alone; predecessors must come first."""
        if [(number,) for number in order] != [tuple(node.id for node in unit) for unit in self._units]:
            self._units = [(self._prepared.program.nodes[number],) for number in order]
            self._chains = False
            self.loop.clear_shared_events()
            self._commands_made = None
            self.native_runs.close()

    def close(self) -> None:
        """Release memory, events and threads."""
        self.native_runs.close()
        if self._local_queues is not None:
            self._local_queues.close()
        self.loop.close()
        self._buffers.clear()

    def _set_inputs(self, values: Mapping[str, InputValue]) -> None:
        """Set the inputs; update only the commands whose inputs have another address than before.

        Inputs that tasks write in host memory are copied to private memory.
        """
        written = self._prepared.program.written_inputs
        inputs, values = self._select_copied(values)
        at = {name: address_of(values[name]) for name in inputs}
        residents = self._buffers.residents
        if at == self._input_addresses and not written and not residents and not self.copied.has_changes:
            self._inputs = {name: values[name] for name in self._prepared.inputs}
            return
        moved = self._moved_inputs
        moved |= {
            name
            for name in inputs
            if name not in residents
            and (name not in self._inputs or (name not in written and self._input_addresses.get(name) != at[name]))
        }
        for name in residents:
            if self._buffers.set_resident(name, values[name]):
                moved.add(name)
        for name in inputs:
            if name in residents:
                continue
            if name in moved:
                self._buffers.add_input(name, values[name], private=name in written)
            elif name in written:
                np.copyto(self._buffers[name, HOST].numpy(writable=True), host_value(values[name]))
        if moved:
            for node in self._levels.nodes:
                if self._uses_inputs(node, moved):
                    self._calls.pop(node.id, None)
        if (moved or self.copied.has_changes) and self._commands_made is not None:
            for unit in self._units:
                anew = any(self._uses_inputs(node, moved) for node in unit)
                if anew or self.copied.change(unit):
                    command = self.copied.command(unit, self._command, anew=anew)
                    self._commands_made.replace(command)
                    if self._lane_batch is not None:
                        self._lane_batch.replace(command)
        self._inputs, self._input_addresses = {name: values[name] for name in self._prepared.inputs}, at
        self._moved_inputs = set()
        self.copied.changed()

    def _select_copied(self, values: Mapping[str, InputValue]) -> tuple[Sequence[str], Mapping[str, InputValue]]:
        """Read inputs that are on a device already there; return the names of the others, and all values."""
        copied = self.copied.among(values)
        self.copied.select(copied)
        if not any(isinstance(value, CopiedArray) for value in values.values()):
            return self._prepared.inputs, values
        used = {
            name: value.host if isinstance(value, CopiedArray) and name not in copied else value
            for name, value in values.items()
        }
        return [name for name in self._prepared.inputs if name not in copied], used

    def forget_copied(self) -> None:
        """Release memory of inputs that were copied before runs; none may be in flight."""
        if any(isinstance(value, CopiedArray) for value in self._inputs.values()):
            found = {name: v.host if isinstance(v, CopiedArray) else v for name, v in self._inputs.items()}
            self._set_inputs(found)
        self.copied.forget()

    def _uses_inputs(self, node: ProgramNode, inputs: Collection[str]) -> bool:
        """Return whether an instruction uses one of some inputs in its original memory."""
        whole, residents = self._prepared.program.whole, self._buffers.residents
        for use in node.instruction.uses:
            name = whole.get(use.array, use.array)
            if name in inputs and use.space == residents.get(name, HOST):
                return True
        return False

    def _join_key(self, node: ProgramNode) -> tuple[Hashable, int, int] | None:
        executable, work = self._executables.get(node.id), self._prepared.work.get(node.id)
        if executable is None or work is None or work.writes_nothing:
            return None
        lane = self._prepared.plan.lanes[node.lane]
        return join_key(executable, self._queues[lane.name])

    def _can_join(self, node: ProgramNode, count: int) -> bool:
        lane = self._prepared.plan.lanes[node.lane]
        return can_join(self._executables[node.id], count, self._queues[lane.name])

    def _with_chains(self, units: Sequence[tuple[ProgramNode, ...]]) -> list[tuple[ProgramNode, ...]]:
        """Return the units of a plan with chains of its smallest kernels, if they are all on one lane of a CPU."""
        lanes = {unit[0].lane for unit in units if unit[0].instruction.kind == "launch"}
        queue = self._queues[self._prepared.plan.lanes[min(lanes, default=0)].name]
        if len(lanes) != 1 or not queue.sycl_device.is_cpu:
            return list(units)
        links: dict[int, ChainLink] = {}

        def link_of(node: ProgramNode) -> tuple[Hashable, int] | None:
            executable, work = self._executables.get(node.id), self._prepared.work.get(node.id)
            if executable is None or work is None or work.writes_nothing:
                return None
            task = None if node.instruction.task is None else self._prepared.graph.find_task(node.instruction.task)
            link = chain_link(executable) if task is not None and is_tiny(task) else None
            if link is None:
                return None
            links[node.id] = link
            return link.part.setting, link.argument_count

        found: list[tuple[ProgramNode, ...]] = []
        fewest = 2 if len(units) <= MANY_UNITS else FEWEST_CHAINED
        grouped = chain_launches(units, link_of, MOST_ARGUMENTS)
        long = {unit[0].id for unit in grouped if len(unit) >= fewest and unit[0].id in links}
        if not saves_enough([unit for unit in grouped if unit[0].id in long], self._prepared.plan.makespan_s):
            return list(units)
        for unit in grouped:
            if unit[0].id in long and can_chain([links[node.id] for node in unit], queue):
                self._chained.add(unit[0].id)
                found.append(unit)
            else:
                found += [unit] if unit in units else [(node,) for node in unit]
        return found

    def _make_calls(self) -> None:
        """Create the callables of host steps that have none yet."""
        for step in self._levels.nodes:
            if step.id in self._calls:
                continue
            executable = self._executables.get(step.id)
            function = (
                None if executable is None or executable.function is None else with_own_views(executable.function)
            )
            with self._allocations_selected([step]):
                self._calls[step.id] = make_host_step(
                    step.instruction, self._prepared.work.get(step.id), function, self._buffers, self._retried
                )

    def _command(self, unit: tuple[ProgramNode, ...]) -> Command:
        if self.copied.is_left_out(unit[0].id):
            return self.loop.fence(unit[0].id, unit[0].lane, unit[0].events)
        with self._allocations_selected(unit):
            in_order = unit[0].id in self._chained
            command = self._commands.fused(unit, in_order=in_order) if len(unit) > 1 else self._commands.get(unit[0])
        assert command is not None, unit[0].instruction
        return command

    @contextmanager
    def _allocations_selected(self, nodes: Iterable[ProgramNode]) -> Iterator[None]:
        """Select the allocations that some instructions use, of buffers that are allocated several times."""
        assert self._prepared.layout is not None
        selected = [each for node in nodes for each in self._prepared.layout.allocations_used.get(node.id, ())]
        for buffer, number in selected:
            self._buffers.use(buffer, number)
        try:
            yield
        finally:
            for buffer, _ in selected:
                self._buffers.use(buffer, None)
