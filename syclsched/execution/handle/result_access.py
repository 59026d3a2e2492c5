# SPDX-License-Identifier: Apache-2.0
"""Access to the results of a run; waits only for the tasks that write them."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from syclsched.backoff import backoff
from syclsched.devices.memory.resident_array import InputValue, host_value
from syclsched.devices.native.sycl_types import SyclQueue
from syclsched.errors import (
    ArgumentError,
    ExecutionError,
    RunCancelledError,
    TaskFailedError,
    UnknownArrayError,
    WaitTimeoutError,
    did_you_mean,
)
from syclsched.execution.core.waiting import SLICE_S, elapsed_text
from syclsched.execution.handle.derived_outputs import DerivedOutputs, Read
from syclsched.execution.handle.engine import Engine
from syclsched.execution.handle.resources import Resources
from syclsched.execution.memory.buffers import AllocatedBuffer, NumpyArray
from syclsched.execution.memory.readback import Like, assemble, completed, converted_to, covers, read, read_numpy
from syclsched.execution.memory.statuses import failed_status
from syclsched.model.access import RowRange
from syclsched.model.graph_parts.argument_validation import validate_rows
from syclsched.model.plan import Plan, PlannedRows
from syclsched.model.recovery import Recovery
from syclsched.model.task import ArrayRows
from syclsched.model.text.units import listed
from syclsched.oneapi.dpctl_interface import usm_arrays
from syclsched.oneapi.fork_check import check_not_forked

if TYPE_CHECKING:
    from syclsched.devices.opened_devices import OpenDevices

#: Most names of arrays in a hint.
_MOST_NAMES = 12


def _not_kept(array: str) -> UnknownArrayError:
    return UnknownArrayError(
        "it is temporary, its value is not kept",
        where=f"array {array!r}",
        hint="Declare it without temporary=True and do not free() it",
    )


class ResultAccess(ABC):
    """Result access of a run; base class of `Run`, which documents the parameters."""

    def __init__(
        self,
        resources: Resources,
        devices: OpenDevices,
        values: dict[str, InputValue],
        joined: Mapping[str, tuple[str, ...]] | None,
    ) -> None:
        self._devices = devices
        self._values = values
        self._joined = joined or {}
        self._resources, self._engines = resources, resources.engines
        self._closed = False
        self._outputs: DerivedOutputs | None = None

    def derive(self, outputs: DerivedOutputs) -> None:
        """Have results that are made of the run's arrays."""
        self._outputs = outputs

    @abstractmethod
    def _interrupted(self) -> None:
        """End the run and release its memory after Ctrl-C, before the exception propagates."""

    @property
    def plan(self) -> Plan:
        """The plan of the run; of a dynamic run the plan that was executed, once the run has ended."""
        return self._engines.plan

    @property
    def recoveries(self) -> tuple[Recovery, ...]:
        """Recoveries from failures so far, in order."""
        return self._engines.recoveries

    def done(self) -> bool:
        """Return whether the run has ended, with or without an error."""
        return self._resources.finished.is_set()

    @property
    def engine(self) -> Engine:
        """The engine that executes the run, or has executed it."""
        return self._engines.active

    def result(self, array: Any, like: Any = "numpy", timeout: float | None = None) -> Any:
        """Return an array's final value; wait only for the tasks that write it.

        Parameters
        ----------
        array : LogicalArray, ArrayRows or str
            A non-temporary array of the graph, or some of its rows: ``a[0:100]``.
        like : str or array, optional
            ``numpy`` (a copy), ``dpnp`` or ``usm_ndarray`` (once the run has ended, the run's own memory, which then
            lives as long as the returned array; a copy for inputs). Or an array of another library (PyTorch, JAX, a
            column of pandas): the copy is returned as one of these.
        timeout : float, optional
            Seconds; no limit by default.

        Returns
        -------
        numpy.ndarray, dpnp.ndarray, usm_ndarray, or an array of the given one's kind
            The value.

        Raises
        ------
        ArgumentError
            If the array does not have these rows, or the other library makes no arrays of the host's memory.
        UnknownArrayError
            If the graph has no such array, or does not keep its value.
        TaskFailedError, RunCancelledError
            If the value was not computed because a task failed or the run was cancelled.
        WaitTimeoutError
            If the time limit was reached; the run continues.
        ExecutionError
            If the run is closed.

        Examples
        --------
        >>> import numpy as np
        >>> import syclsched
        >>> from syclsched.kernels import get
        >>> graph = syclsched.TaskGraph()
        >>> x = graph.array("x", data=np.arange(4.0))
        >>> task = graph.kernel(get("scale"), name="double", x=x, alpha=2.0)
        >>> with syclsched.run(graph) as run:
        ...     print(run.result("x"), run.result(x[1:3]))
        [0. 2. 4. 6.] [2. 4.]
        """
        if not isinstance(like, str):
            return converted_to(self.result(array, timeout=timeout), like)
        if like not in ("numpy", "dpnp", "usm_ndarray"):
            raise ArgumentError(f"like={like!r} is none of 'numpy', 'dpnp', 'usm_ndarray'", where="result()")
        check_not_forked(self._where)
        whole = array.array if isinstance(array, ArrayRows) else array
        name = whole if isinstance(whole, str) else whole.name
        rows = validate_rows(array.rows, array.array, "result()") if isinstance(array, ArrayRows) else None
        kind = cast("Like", like)
        if self._outputs is not None and self._outputs.has(name):
            made = self._outputs.value(name, self._reader(timeout))
            made = made if rows is None else made[rows[0] : rows[1]]
            return self._converted(made, kind) if isinstance(made, np.ndarray) else made
        return self._value(name, rows, kind, timeout)

    def _value(self, name: str, rows: RowRange | None, like: Like, timeout: float | None) -> Any:
        """Return the final value of an array, or of some of its rows."""
        if self._closed:
            raise ExecutionError(
                "the run is closed, its memory is given back",
                where=f"array {name!r}",
                hint="Read results before; those of a bound plan's run before its next run begins, or let "
                "runner(inputs) or await runner.call_async(inputs) return them",
            )
        return self._engines.ask(lambda engine, left_s: self._read_value(engine, name, rows, like, left_s), timeout)

    def _reader(self, timeout: float | None) -> Read:
        """Return a function that reads arrays, together within a time limit."""
        deadline = None if timeout is None else time.monotonic() + timeout

        def read(name: str) -> NumpyArray:
            left_s = None if deadline is None else max(0.0, deadline - time.monotonic())
            value: NumpyArray = self._value(name, None, "numpy", left_s)
            return value

        return read

    def read_results(self, names: Iterable[str]) -> dict[str, NumpyArray]:
        """Return results by name, of a run that has ended without a failure."""
        engine = self._engines.active
        if self._closed or not engine.completed or self.recoveries:
            return {name: self.result(name) for name in names}
        # Nothing is left to be waited for or checked.
        program, buffers, found = engine.program, engine.buffers, dict[str, NumpyArray]()
        for name in names:
            final = None if name in program.segments or name in self._joined else program.final_buffers.get(name)
            live = None if final is None else buffers.get(final[0])
            found[name] = self.result(name) if live is None else read_numpy(live)
        return found

    def _read_value(self, engine: Engine, name: str, rows: RowRange | None, like: Like, timeout: float | None) -> Any:
        """Return the final value of an array, or of some of its rows, from an engine."""
        if self._engines.recovery is not None:
            self._engines.recovery.check_not_lost(name, rows)
        if name in engine.program.segments:
            live = self._wait_rows(engine, name, rows, timeout)
        elif rows is not None:
            return self._read_value(engine, name, None, like, timeout)[rows[0] : rows[1]]
        elif name in self._joined:
            return self._concatenated(name, like, timeout)
        elif name in engine.program.final_buffers:
            live = self._wait_value(engine, name, timeout)
        else:
            return self._unaccessed_value(name, like)
        if isinstance(live, np.ndarray):
            return self._converted(live, like)
        return read(
            live, like, self._any_queue() if like != "numpy" else None, share=self.done() and engine.owns_buffers
        )

    # --- inside -----------------------------------------------------------------------------------

    def _wait_instruction(self, engine: Engine, number: int, array: str, timeout: float | None) -> None:
        """Wait until an instruction has completed, without blocking the dispatcher or a lane."""
        deadline = None if timeout is None else time.monotonic() + timeout
        if not self.done():
            engine.counts.host_waits += 1
        while not engine.wait_submitted(number, SLICE_S):
            self._check_time(array, timeout, deadline)
        # Polled, because waiting for an event has no time limit and cannot be interrupted.
        begun = time.monotonic()
        while not engine.is_complete(number):
            self._check_time(array, timeout, deadline)
            time.sleep(backoff(time.monotonic() - begun, 20e-6, 2e-3))
        if engine.any_failed():  # its dependents ran, too; the engine marks them when it ends
            while not (engine.finished.wait(SLICE_S) or self.done()):
                pass

    def _check_time(self, array: str, timeout: float | None, deadline: float | None) -> None:
        """Raise if the deadline has passed or the run was given up."""
        if deadline is not None and time.monotonic() >= deadline:
            raise WaitTimeoutError(
                f"not there {elapsed_text(timeout)}: {self._what_is_left()}", where=f"array {array!r}"
            )
        if self._resources.hung is not None:
            self._raise_failure()

    def _what_is_left(self) -> str:
        return self._resources.engine.what_is_left()

    def _check_value(self, engine: Engine, array: str, writer: int) -> None:
        """Raise if an array's final value was not computed, or depends on a failed task."""
        buffer, _ = engine.program.final_buffers[array]
        if engine.event(writer) is None and engine.error is not None:
            self._raise_failure()
        missing = not engine.passed(writer)
        if missing or engine.failures.is_lost(buffer):
            self._raise_failure()
            raise RunCancelledError("its value was never made", where=f"array {array!r}")
        for piece in engine.statuses_behind(array):
            error = failed_status(piece, engine.buffers)
            if error is not None:
                self._resources.mark_reported()
                raise error

    def _raise_failure(self) -> None:
        engines, error = self._engines, self._resources.failure
        if error is not None:
            self._resources.mark_reported()
            raise error
        if engines.cancelled and not engines.active.completed:
            self._resources.mark_reported()
            raise self._resources.late or RunCancelledError("the run was cancelled", where=f"plan {self.plan.name!r}")

    def _raise_unless_replaced(self) -> None:
        """Raise the run's failure, unless its results come from another one; let that compute them."""
        try:
            self._raise_failure()
        except TaskFailedError as error:
            if self._outputs is None or not self._outputs.replaces(error):
                raise
        if self._outputs is not None and not self._closed:
            self._outputs.settle(self._reader(None))

    def _wait_value(self, engine: Engine, name: str, timeout: float | None) -> AllocatedBuffer:
        """Wait for the final value of an array or a segment, and return its buffer."""
        finals = engine.program.final_buffers
        writer = finals[name][1]
        if writer is not None:
            try:
                self._wait_instruction(engine, writer, name, timeout)
            except KeyboardInterrupt:
                self._interrupted()
                raise
            self._check_value(engine, name, writer)
        live = engine.buffers.get(finals[name][0])
        if live is None:
            raise ExecutionError("its memory is gone", where=f"array {name!r}")
        return live

    def _wait_rows(
        self, engine: Engine, name: str, rows: RowRange | None, timeout: float | None
    ) -> AllocatedBuffer | NumpyArray:
        """Wait for rows of an array with segments; return their buffer, or assemble them from several buffers.

        Rows that no task accesses have their input value.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        program = engine.program
        whole = next(a for a in self.plan.arrays if a.name == name)
        if whole.temporary:
            raise _not_kept(name)
        start, stop = rows or (0, whole.shape[0])
        pieces: list[tuple[PlannedRows, AllocatedBuffer]] = []
        spaces = set()
        for segment in program.segments[name]:
            assert segment.rows is not None
            if segment.rows.start < stop and start < segment.rows.stop:
                left_s = None if deadline is None else max(0.0, deadline - time.monotonic())
                pieces.append((segment.rows, self._wait_value(engine, segment.name, left_s)))
                spaces.add(program.final_buffers[segment.name][0][1])
        if len(spaces) == 1 and covers([each for each, _ in pieces], start, stop):
            live = engine.buffers[name, spaces.pop()]
            return live if rows is None else live.part(start, stop)
        return assemble(whole, (start, stop), pieces, self._values.get(name))

    def _unaccessed_value(self, name: str, like: Like) -> Any:
        """Return the value of an array that no task accesses; raise if there is none."""
        planned = next((a for a in self.plan.arrays if a.name == name), None)
        # After a recovery, a planned array that no remaining task accesses is among the rescued values.
        if planned is not None and (planned.temporary or not self.recoveries or name not in self._values):
            raise _not_kept(name)
        if name not in self._values:
            known = {*(array.name for array in self.plan.arrays), *self._values, *self._joined} - {name}
            of_task = f"{name}.result"
            hint = did_you_mean(name, known) + f"There are {listed(sorted(known), _MOST_NAMES)}"
            raise UnknownArrayError(
                "no task writes it, and no value was given for it",
                where=f"array {name!r}",
                hint=f"A result of that task is {of_task!r}" if of_task in known else hint,
            )
        return self._converted(host_value(self._values[name]).copy(), like)

    def _concatenated(self, name: str, like: Like, timeout: float | None) -> Any:
        """Return the value of an array held in parts, concatenated along axis 0."""
        deadline = None if timeout is None else time.monotonic() + timeout
        if any(array.temporary for array in self.plan.arrays if array.name in self._joined[name]):
            raise _not_kept(name)
        parts = [
            self.result(part, timeout=None if deadline is None else max(0.0, deadline - time.monotonic()))
            for part in self._joined[name]
        ]
        return self._converted(np.concatenate(parts), like)

    def _converted(self, value: NumpyArray, like: Like) -> Any:
        if like == "numpy":
            return value
        array = completed(usm_arrays().asarray(value, sycl_queue=self._any_queue()))
        if like == "usm_ndarray":
            return array
        import dpnp

        return dpnp.asarray(array)

    @cached_property
    def _where(self) -> str:
        return f"plan {self.plan.name!r}"

    def _any_queue(self) -> SyclQueue:
        return self._devices.allocator_queue(self.plan.platform.compute_devices[0].space)
