# SPDX-License-Identifier: Apache-2.0
"""Attempts of one run on several machines: its start, and its continuation on the machines left after a loss.

After a loss the parts on the other machines end: what they have begun is finished. Each of them then says which tasks
it has executed and which values its memory has. By lineage (`syclsched.cluster.recovery.remaining`) this gives the
rest, which is planned and bound on the machines left. Its parts begin with these values; they go from machine to
machine, not through this process. The memory of all attempts stays until the results are not needed any more.
"""

from __future__ import annotations

import queue
import time
import uuid
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from syclsched.cluster.calls import WorkerCall
from syclsched.cluster.dask_data import send_inputs
from syclsched.cluster.parts import MachinePart
from syclsched.cluster.recovery.attempt import Binding, RemainingRun, ResultPiece, RunAttempt, result_pieces
from syclsched.cluster.recovery.part_state import KeptValue
from syclsched.cluster.recovery.remaining import RunLineage
from syclsched.cluster.runs.plan_watch import LOOK_S, Move, PlanWatch
from syclsched.errors import ClusterError, RunCancelledError, SyclschedError, WorkerLostError
from syclsched.execution.memory.buffers import NumpyArray
from syclsched.model.platform_parts.machines import machine_of
from syclsched.model.recovery import Recovery

if TYPE_CHECKING:
    from distributed import Client, Future

#: Longest time that the other parts of a failed run may take to end.
END_S: Final = 30.0
#: Most losses of workers after which one run continues.
MOST_LOSSES: Final = 8
#: Seconds between looks at whether a run has been cancelled or its machines are late.
_LOOK_S: Final = 0.5


class PlanBinder(Protocol):
    """Binds plans of a graph, or of the rest of a run, to the machines that are left."""

    @property
    def client(self) -> Client:
        """Dask's client."""

    def call_part(self, binding: Binding, machine: str, function: str, *arguments: Any) -> WorkerCall:
        """Begin to call a function of `syclsched.cluster.part_runner` for a part that is bound on a machine."""

    def address(self, binding: Binding, machine: str) -> str:
        """Return Dask's address of the worker on which a part is bound."""

    def left(self, addresses: Mapping[str, str], lost: Collection[str]) -> frozenset[str]:
        """Return the machines that are left of those at some addresses, without those that are known to be lost."""

    def rebind(self) -> Binding:
        """Plan the whole graph for the machines that are there, and bind it there."""

    def bind_rest(
        self,
        lineage: RunLineage,
        attempts: list[RunAttempt],
        machines: Collection[str],
        slowness: Mapping[str, float],
    ) -> tuple[RemainingRun, Binding | None]:
        """Plan the rest of a run for some machines, and bind it there; no binding if nothing is left to do."""


class RunInputs(NamedTuple):
    """Values that the user has given for a run."""

    here: Mapping[str, NumpyArray]  # but those that the graph has
    remote: Mapping[str, Future]  # that Dask has


class RunAttempts:
    """The attempts of one run."""

    def __init__(
        self,
        binder: PlanBinder,
        binding: Binding,
        inputs_of: Callable[[Binding], RunInputs],
        watch: PlanWatch | None = None,
    ) -> None:
        self._binder, self._watch, self._inputs_of = binder, watch, inputs_of
        #: The user's values in the form of the graph that was begun last as a whole.
        self.inputs = inputs_of(binding)
        self.all: list[RunAttempt] = []
        #: One for each loss after which the run continued, and for each move of its rest.
        self.losses: list[Recovery] = []
        self._tries = 0
        self._lineage: RunLineage | None = None
        self._lost: set[str] = set()  # addresses of workers known to be lost
        self._ended: set[str] = set()  # machines whose part in the last attempt has ended
        self._final: RemainingRun | None = None  # the last rest
        #: Why the parts were stopped: the rest is to be planned anew.
        self.move: Move | None = None
        self._slowness: Mapping[str, float] = {}
        self._begin(binding, None)

    @property
    def first(self) -> Binding:
        """The binding with which the run began."""
        return self.all[0].binding

    @property
    def last(self) -> RunAttempt:
        """The last attempt."""
        return self.all[-1]

    # --- waiting and recovering -------------------------------------------------------------------

    def wait(self) -> BaseException | None:
        """Wait for the end of all parts; return the first error that is a cause and no consequence."""
        left, errors, until_s = set(self.last.binding.divided.parts), list[Exception](), float("inf")
        while left and time.perf_counter() < until_s:
            try:
                name, call = self._calls.get(timeout=_LOOK_S if self._watch is None else LOOK_S)
            except queue.Empty:
                if self._watch is not None and self.move is None and not errors:
                    self.move = self._watch.look(self.last, left, lambda: self.lineage)
                    if self.move is not None:  # tasks in progress may take as long as they do
                        self.cancel("its rest is planned anew")
                continue
            left.discard(name)
            self._ended.add(name)
            try:
                if not isinstance(call, WorkerCall):
                    raise call
                self.last.reports[name] = call.result()
            except Exception as error:  # of any kind that a worker has raised
                errors.append(call.named(error) if isinstance(call, WorkerCall) else error)
                if isinstance(error, WorkerLostError):
                    self._note_lost(error)
                is_stopped = self.move is not None and isinstance(error, RunCancelledError)
                if until_s == float("inf") and not is_stopped:
                    until_s = time.perf_counter() + END_S
                    self.cancel(f"the part on {name} failed: {error}", left)
        lost = [error for error in errors if isinstance(error, WorkerLostError)]
        causes = [error for error in errors if not isinstance(error, RunCancelledError)]
        if self.move is not None and not causes:
            self.move = self.move if errors or left else None  # it has ended in the meantime
            return None
        return next(iter([*lost, *causes, *errors]), None)

    def cancel(self, cause: str, machines: Iterable[str] | None = None) -> None:
        """End the parts on some machines, or on all."""
        attempt = self.last
        for name in list(attempt.binding.divided.parts if machines is None else machines):
            if attempt.binding.addresses.get(name) in self._lost:
                continue  # trying to reach it would delay the others
            with suppress(ClusterError):
                self._binder.call_part(attempt.binding, name, "cancel_part", attempt.run, cause)

    @property
    def may_recover(self) -> bool:
        """Whether the run may continue after one more loss."""
        return self._tries < MOST_LOSSES

    @property
    def lineage(self) -> RunLineage:
        """The lineage of the values of the run."""
        if self._lineage is None:
            self._lineage = RunLineage(self.first.plan, self.first.graph)
        return self._lineage

    def recover(self, loss: WorkerLostError) -> bool:
        """Continue with the rest on the machines left; return whether parts have begun."""
        begun_s = time.perf_counter()
        self._tries += 1
        self.move = None
        self._note_lost(loss)
        report = Recovery("device", loss.what, left_out=(loss.worker or "a worker",))
        return self._go_on(self._left(), report, begun_s)

    def follow(self, move: Move) -> bool:
        """Continue with the rest as it is planned anew; return whether parts have begun."""
        begun_s = time.perf_counter()
        self.move, self._slowness = None, move.slowness
        return self._go_on(self._left() | move.machines, Recovery(move.reason, move.what), begun_s)

    def _left(self) -> frozenset[str]:
        addresses = {n: address for attempt in self.all for n, address in attempt.binding.addresses.items()}
        return self._binder.left(addresses, self._lost)

    def _go_on(self, machines: frozenset[str], report: Recovery, begun_s: float) -> bool:
        """Plan the rest for some machines and begin it there; return whether there is one.

        Where it cannot be planned or does not fit beside what the attempts have in memory, the whole graph is begun
        again.
        """
        self._survey(machines)
        before = {a.task: machine_of(a.device) for each in self.all for a in each.binding.plan.schedule.assignments}
        redone: tuple[str, ...] = ()
        try:
            rest, binding = self._binder.bind_rest(self.lineage, self.all, machines, self._slowness)
            self._final, redone = rest, rest.redone
        except WorkerLostError:
            self.losses.append(replace(report, took_s=time.perf_counter() - begun_s))
            raise
        except SyclschedError:
            for attempt in self.all:  # their memory is released
                attempt.states.clear()
            self._lineage = self._final = self._watch = rest = None
            binding = self._binder.rebind()
            self.inputs = self._inputs_of(binding)
        if binding is not None:
            self._begin(binding, rest)
        placed = () if binding is None else binding.plan.schedule.assignments
        self.losses.append(
            replace(
                report,
                planned=len(placed),
                redone=redone,
                moved=sum(before.get(each.task) != machine_of(each.device) for each in placed),
                took_s=time.perf_counter() - begun_s,
            )
        )
        return binding is not None

    # --- results ----------------------------------------------------------------------------------

    def pieces(self, array: str) -> list[ResultPiece]:
        """Return the places of the pieces of a result."""
        return result_pieces(self.all, self._final, array)

    # --- inside -----------------------------------------------------------------------------------

    def _begin(self, binding: Binding, rest: RemainingRun | None) -> None:
        """Start the parts of a binding."""
        attempt = RunAttempt(binding, uuid.uuid4().hex, rest)
        self.all = [attempt] if rest is None else [*self.all, attempt]
        self._ended = set()
        self._calls: queue.SimpleQueue[tuple[str, WorkerCall | WorkerLostError]] = queue.SimpleQueue()
        parts = binding.divided.parts
        for machine, part in parts.items():
            names = {each: attempt.original(each) for each in part.inputs}
            brought = {each: self.inputs.remote[name] for each, name in names.items() if name in self.inputs.remote}
            if brought:
                place = self._binder.address(binding, machine), binding.key, attempt.run
                send_inputs(self._binder.client, brought, [(*place, each, None) for each in brought])
        for name, part in parts.items():
            given, kept = self._given(attempt, part), self._kept(attempt, part)
            try:
                call = self._binder.call_part(binding, name, "run_part", attempt.run, given, kept)
            except WorkerLostError as error:
                self._calls.put((name, error))
            except BaseException:
                self.cancel(f"the part on {name} cannot be begun")
                raise
            else:
                call.when_done(partial(self._note, self._calls, name))

    @staticmethod
    def _note(calls: queue.SimpleQueue[tuple[str, WorkerCall | WorkerLostError]], name: str, call: WorkerCall) -> None:
        calls.put((name, call))

    def _given(self, attempt: RunAttempt, part: MachinePart) -> dict[str, NumpyArray]:
        """Return the user's values that a part begins with."""
        values = self.inputs.here if attempt.rest is None else {**self.first.graph.data, **self.inputs.here}
        return {each: values[name] for each in part.inputs if (name := attempt.original(each)) in values}

    def _kept(self, attempt: RunAttempt, part: MachinePart) -> list[KeptValue]:
        """Return the values in a machine's memory that its part begins with."""
        found = []
        for array, rows in part.kept:
            assert attempt.rest is not None
            start = next(each for each in attempt.rest.starts[array] if each.rows == rows)
            holder = next(each for each in start.holders if each.machine == part.machine)
            source = self.all[holder.attempt]
            found.append(KeptValue(array, source.binding.key, source.run, holder.held))
        return found

    def _survey(self, machines: Collection[str]) -> None:
        """Request from the remaining machines the executed tasks of their parts and the values in memory."""
        for attempt in self.all:
            attempt.states = {name: state for name, state in attempt.states.items() if name in machines}
        last = self.last
        asked = [name for name in last.binding.divided.parts if name in machines and name in self._ended]
        calls = {}
        for name in asked:
            with suppress(SyclschedError):
                calls[name] = self._binder.call_part(last.binding, name, "state_of_part", last.run)
        for name, call in calls.items():
            with suppress(Exception):  # of any kind: the machine's values are computed again
                last.states[name] = call.result(END_S)
                last.reports[name] = last.states[name].report

    def _note_lost(self, loss: WorkerLostError) -> None:
        """Note the address of a lost worker, which the error names."""
        for address in [each for attempt in self.all for each in attempt.binding.addresses.values()]:
            if address in (loss.worker or ""):
                self._lost.add(address)
