# SPDX-License-Identifier: Apache-2.0
"""Copies of a training's state in the host's memory, which outlast a device that is lost.

A copy is made while a step computes. A step changes the state at its end, and first of all its parity, which is copied
last: if the copied parity is the one from before the step, nothing had changed yet, and the copy is whole. If copies
take longer than that, or steps wait less for them than they take longer with them, the next ones are made between two
steps. The last whole copy stays until another one is whole.
"""

from __future__ import annotations

import logging
import math
import statistics
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final, TypeVar

import numpy as np

from syclsched.devices.memory import usm_memory
from syclsched.devices.memory.memory_pool import padded
from syclsched.devices.memory.resident_array import InputValue, ResidentArray
from syclsched.devices.submission.copy_queues import CopyQueues, given_up
from syclsched.errors import MemoryLimitError
from syclsched.execution.recovery.health import complete_in_time
from syclsched.training.steps.step_network import PARITY

if TYPE_CHECKING:
    from syclsched.devices.native.sycl_types import SyclEvent
    from syclsched.onnx.carried_state import CarriedState
    from syclsched.training.steps.step_model import StepModel

Array = np.ndarray[Any, Any]
Made = TypeVar("Made")

#: Share of the time of steps that copies may take.
_SHARE: Final = 0.02
#: Weight of the time that the last copy has added to its step; the rest is that of those before.
_NEWEST: Final = 0.25
#: Steps whose times are compared with those of steps during which the state is copied.
_TIMED: Final = 15

_LOGGER = logging.getLogger("syclsched")


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The state after some steps, in the host's memory."""

    steps: int
    values: Mapping[str, Array]


class StateSnapshots:
    """Snapshots of the state of one training, as far as that is in memory that the host cannot reach.

    They are made ``every`` so many steps, 0 for never; by default at such intervals that they take 2 % of the time.
    """

    def __init__(self, every: int | None) -> None:
        self._every = every
        #: The last whole one.
        self.last: Snapshot | None = None
        #: One that is being made, and host time of its submission; the last event of each queue that copies.
        self._begun: tuple[Snapshot, float] | None = None
        self._events: tuple[SyclEvent, ...] = ()
        #: Two pieces of host memory, as the values in them.
        self._memory: list[dict[str, Array]] = [{}, {}]
        self._queues = CopyQueues()
        #: Since one was begun.
        self._steps, self._seconds = 0, 0.0
        #: Whether steps wait for copies: one changed the state before it was copied, or they took longer with copies.
        self._waits = False
        #: Time that one adds to the time of a step; and of one that a step waits for, 0 before the first.
        self._cost_s = self._whole_s = 0.0
        self._durations: deque[float] = deque(maxlen=_TIMED)

    def keep(self, steps: int, values: Mapping[str, Array]) -> None:
        """Take values that the state begins with as a snapshot; they are not copied."""
        self.drop()
        self._steps, self._seconds = 0, 0.0
        if self._every != 0:
            self.last = Snapshot(steps, dict(values))

    def call(self, step: Callable[[], Made], state: CarriedState, model: StepModel, *, is_new: bool) -> Made:
        """Do a step, and copy the state before it while it computes, if that is due.

        The time of a new step, which is also planned, is not representative.
        """
        if self._is_due:
            self._begin(state, model.steps_done)
        begun_s, duration_s = time.perf_counter(), None
        try:
            made = step()
            duration_s = None if is_new else time.perf_counter() - begun_s
        finally:
            self._end(model, duration_s)
        return made

    def drop(self) -> None:
        """Forget all snapshots, and wait for copies."""
        self._begun = self.last = None
        with suppress(Exception):  # of a device that is lost
            if not complete_in_time(self._events):
                given_up.append(self._memory)
                self._memory = [{}, {}]
        self._events = ()

    # --- around a step ----------------------------------------------------------------------------

    @property
    def _is_due(self) -> bool:
        if self._every is not None:
            return 0 < self._every <= self._steps
        # Some steps are without, for comparison.
        return bool(self._durations) and self._steps > 1 and self._seconds * _SHARE >= self._cost_s

    @property
    def _are_copied(self) -> bool:
        return all(event.execution_status.name == "complete" for event in self._events)

    def _begin(self, state: CarriedState, steps: int) -> None:
        begun_s = time.perf_counter()
        self._steps, self._seconds = 0, 0.0
        held = state.memory()
        if not any(isinstance(each, ResidentArray) for each in held.values()):
            self._cost_s = time.perf_counter() - begun_s  # of looking for some
            return
        try:
            snapshot = self._submitted(held, steps)
            # The parity does not cover copies by other queues. The first copy is timed.
            tells = len(self._events) == 1 and isinstance(held[PARITY], ResidentArray)
            waits = self._waits or not self._whole_s or not tells
            if waits:
                for event in self._events:
                    event.wait()
        except Exception as error:  # the device is lost, which the step finds out; or memory is short
            _LOGGER.warning("the state after %d steps is not copied to the host: %s", steps, error)
            return
        took_s = time.perf_counter() - begun_s
        if waits:
            self.last, self._cost_s, self._whole_s = snapshot, took_s, took_s
        else:
            self._begun = snapshot, took_s

    def _end(self, model: StepModel, duration_s: float | None) -> None:
        """Take the snapshot that was begun before a step, if it is whole."""
        begun, self._begun = self._begun, None
        self._steps += 1
        self._seconds += duration_s or 0.0
        if begun is None:
            if duration_s is not None:
                self._durations.append(duration_s)
            return
        snapshot, submitted_s = begun
        if self._are_copied and model.is_whole(snapshot.values.get):
            self.last = snapshot
            if duration_s is not None:
                longer_s = duration_s - statistics.median(self._durations or [duration_s])
                self._cost_s = max(submitted_s, self._cost_s + (submitted_s + longer_s - self._cost_s) * _NEWEST)
                if self._cost_s > self._whole_s:  # such as a CPU device that computes on all cores
                    self._waits, self._cost_s = True, self._whole_s
        elif duration_s is not None:
            self._waits, self._cost_s = True, self._whole_s
            self._steps, self._seconds = self._every or 0, math.inf  # another one is due

    # --- inside -----------------------------------------------------------------------------------

    def _submitted(self, held: Mapping[str, InputValue], steps: int) -> Snapshot:
        """Submit the copies of all values, that of the parity last."""
        number = 1 if self.last is not None and self.last.values is self._memory[0] else 0
        values = self._memory[number] = _target(self._memory[number], held)
        values[PARITY][...] = -1  # until it is copied
        events: dict[Any, SyclEvent] = {}
        for name, value in sorted(held.items(), key=lambda item: item[0] == PARITY):
            if not isinstance(value, ResidentArray):
                np.copyto(values[name], value)
            elif values[name].nbytes:
                queue = self._queues.queue_for(value.memory.queue)
                before = [events[queue]] if queue in events else []
                events[queue] = usm_memory.start_reading(values[name], value.memory.memory, queue, before)
                self._events = (*events.values(),)
        _ = self._are_copied  # to ask makes a runtime that collects commands begin
        return Snapshot(steps, values)


def _target(values: dict[str, Array], held: Mapping[str, InputValue]) -> dict[str, Array]:
    """Return host memory for values, from which devices copy fastest; that of before if it has the right shapes."""
    forms = {name: (each.shape, np.dtype(each.dtype)) for name, each in held.items()}
    if {name: (each.shape, each.dtype) for name, each in values.items()} == forms:
        return values
    sizes = {name: math.prod(shape) * dtype.itemsize for name, (shape, dtype) in forms.items()}
    starts = list(accumulate((padded(nbytes) for nbytes in sizes.values()), initial=0))
    queue = next(each.memory.queue for each in held.values() if isinstance(each, ResidentArray))
    try:
        raw = usm_memory.as_numpy(usm_memory.allocate(queue, starts[-1], "host"), (starts[-1],), "uint8")
    except MemoryLimitError:
        raw = np.empty(starts[-1], np.uint8)
    return {
        name: raw[start : start + sizes[name]].view(dtype).reshape(shape)
        for start, (name, (shape, dtype)) in zip(starts, forms.items(), strict=False)
    }
