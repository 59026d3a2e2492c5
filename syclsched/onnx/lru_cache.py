# SPDX-License-Identifier: Apache-2.0
"""LRU cache of bound models and the like, by input shapes."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from syclsched.errors import ExecutionError
from syclsched.model.plan import Plan
from syclsched.onnx.specialised import Array, Specialised

if TYPE_CHECKING:
    from syclsched.execution import Runner


class FastPath(Protocol):
    """A fast path for calls of a model. A method: an object that is called takes an interpreter loop of its own."""

    def run(self, given: tuple[Any, ...]) -> dict[str, Array] | None:
        """Return the model's outputs for its inputs; None, without any run, if it does not apply."""


class Closable(Protocol):
    """A plan that can be closed."""

    def close(self) -> None:
        """Release its memory."""


Bound = TypeVar("Bound", bound=Closable)
Result = TypeVar("Result")


@dataclass(eq=False, slots=True)
class BoundModel:
    """A model for known shapes, planned and bound."""

    specialised: Specialised  # the graph
    plan: Plan  # of that graph
    runner: Runner  # of that plan
    #: Further runners of the plan, for concurrent calls.
    others: list[Runner] = field(default_factory=list)
    #: Those of them for streams, and for calls while the runners before have open streams.
    beside_streams: list[Runner] = field(default_factory=list)
    bodies: Sequence[Closable] = ()  # plans of its loops' bodies
    #: Fast path for repeated calls, and the version of the carried values' memory for which it was made.
    cached_call: FastPath | None = None
    cached_version: int = 0
    key: Hashable = ()  # the key that selects this plan for a call
    closed: bool = False

    def add(self, runner: Runner) -> None:
        """Take ownership of a further runner."""
        self.others.append(runner)
        if self.closed:  # in the meantime
            runner.close()

    def with_free_runner(
        self, use: Callable[[Runner], Result], another: Callable[[BoundModel], Runner | None]
    ) -> Result:
        """Use the first runner that has no open stream, made by ``another`` if all of them have one."""
        from syclsched.execution.runner.bound_plan import StreamOpenError

        tried = 0
        while True:
            runner = self.beside_streams[tried - 1] if tried else self.runner
            try:
                return use(runner)
            except StreamOpenError:
                tried += 1
                if tried > len(self.beside_streams):
                    made = another(self)
                    if made is None:  # memory is limited
                        raise
                    self.add(made)
                    self.beside_streams.append(made)

    def close(self) -> None:
        """Close all runners, and then those of its loops' bodies."""
        self.closed = True
        self.cached_call = None
        for runner in (self.runner, *self.others):
            runner.close()
        for body in self.bodies:
            body.close()


class BoundModelCache(Generic[Bound]):
    """LRU cache; the first thread that needs an entry makes it, and evicted entries are closed once unused."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._slots: OrderedDict[Hashable, _CacheSlot[Bound]] = OrderedDict()
        self._lock = threading.Lock()
        self._free = threading.Condition(self._lock)
        self._used = 0
        self._closed = False

    def acquire_ready(self, key: Hashable) -> _CacheSlot[Bound] | None:
        """Return the slot of a key if its entry is ready, else None; the caller must `release` it.

        Takes a third of the time of `using`, for calls that take a fraction of a millisecond.
        """
        with self._lock:
            slot = self._slots.get(key)
            if slot is None or slot.bound is None:
                return None
            self._slots.move_to_end(key)
            slot.users += 1
            self._used += 1
        return slot

    def release(self, slot: _CacheSlot[Bound], *, awaited: bool = True) -> None:
        """End the use of a slot that `acquire_ready` returned."""
        with self._free:
            slot.users -= 1
            self._used -= awaited
            if self._closed and self._used == 0:  # only then does `close` wait
                self._free.notify_all()

    @contextmanager
    def using(self, key: Hashable, make: Callable[[], Bound], *, awaited: bool = True) -> Iterator[Bound]:
        """Yield the entry of a key; make it first if it is missing."""
        slot, dropped = self._take(key, awaited)
        try:
            for each in dropped:
                each.close()
            with slot.lock:
                if slot.bound is None:
                    slot.bound = make()
            yield slot.bound
        except BaseException:
            if slot.bound is None:
                self._forget(key, slot)
            raise
        finally:
            self.release(slot, awaited=awaited)

    def drop(self, key: Hashable) -> None:
        """Close and forget an entry that will not be asked for again, unless it is in use."""
        with self._lock:
            slot = self._slots.get(key)
            unused = slot if slot is not None and slot.users == 0 else None
            if unused is not None:
                del self._slots[key]
        if unused is not None:
            unused.close()

    def all(self) -> tuple[Bound, ...]:
        """Return all entries, most recently used last."""
        with self._lock:
            return tuple(slot.bound for slot in self._slots.values() if slot.bound is not None)

    def close(self) -> None:
        """Wait until no awaited entry is in use, and close all entries."""
        with self._free:
            self._closed = True
            self._free.wait_for(lambda: self._used == 0)
            slots = list(self._slots.values())
            self._slots.clear()
        for slot in slots:
            slot.close()

    def _take(self, key: Hashable, awaited: bool) -> tuple[_CacheSlot[Bound], list[_CacheSlot[Bound]]]:
        with self._lock:
            if self._closed:
                raise ExecutionError("it is closed", where="compiled model")
            slot = self._slots.get(key)
            if slot is None:
                slot = self._slots[key] = _CacheSlot()
            self._slots.move_to_end(key)
            slot.users += 1
            self._used += awaited
            idle = [k for k, each in self._slots.items() if each.users == 0]
            dropped = [self._slots.pop(k) for k in idle[: max(0, len(self._slots) - self._count)]]
        return slot, dropped

    def _forget(self, key: Hashable, slot: _CacheSlot[Bound]) -> None:
        with self._lock:
            if self._slots.get(key) is slot:
                del self._slots[key]


class _CacheSlot(Generic[Bound]):
    """A cache slot: its entry, the number of users, and a lock held while the entry is made."""

    def __init__(self) -> None:
        self.bound: Bound | None = None
        self.users = 0
        self.lock = threading.Lock()

    def close(self) -> None:
        """Close the entry, if any."""
        bound, self.bound = self.bound, None
        if bound is not None:
            bound.close()
