# SPDX-License-Identifier: Apache-2.0
"""Decides at every point that a run passes whether something goes wrong there."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Iterable
from typing import Any

from syclsched.devices.faultpoints import SubmissionKind, Target, Verdict
from syclsched.errors import ExecutionError
from syclsched.testing.holding import Holding
from syclsched.testing.kinds import AtRandom, FailOnDevice, FailPoint, Fault, Hang, Injected, Lose, Point, Slow


class InjectedError(Exception):
    """What an injected fault raises where a user's function would have run."""


class Injection:
    """Faults that are being injected, and what has been seen of the runs meanwhile; from `inject`.

    Parameters
    ----------
    faults : iterable of Fault
        What goes wrong.
    seed : int
        Of what is random.
    """

    def __init__(self, faults: Iterable[Fault], seed: int) -> None:
        self._faults = tuple(faults)
        self._random = random.Random(seed)
        self._lock = threading.RLock()
        self._holding = Holding()
        self._passed: Counter[tuple[str, str | None]] = Counter()
        self._left = {id(f): f.most for f in self._faults if isinstance(f, AtRandom)}
        self._injected: list[Injected] = []
        self._refused: set[tuple[int, int]] = set()
        self._queues: dict[str, Any] = {}
        self._lost: set[str] = set()
        self._pending: dict[str, dict[tuple[int, int], Target]] = {
            f.device: {} for f in self._faults if isinstance(f, Lose)
        }

    # --- what was seen ----------------------------------------------------------------------------

    @property
    def injected(self) -> tuple[Injected, ...]:
        """What was injected so far, in order."""
        with self._lock:
            return tuple(self._injected)

    def passed(self, point: Point, device: str | None = None) -> int:
        """Return how often a point was passed so far.

        Parameters
        ----------
        point : str
            ``submission`` (kernels, copies and barriers that were handed to queues), ``copy`` (those of them that are
            copies from one memory to another), ``allocation`` (of USM memory) or ``host call``.
        device : str, optional
            On this device only; for submissions and copies.
        """
        with self._lock:
            return self._passed[point, device]

    def release(self) -> None:
        """Let go of everything that is held back on devices that hang."""
        self._holding.release()

    def close(self) -> None:
        """Let go of everything, for good."""
        self._holding.close()

    # --- the points -------------------------------------------------------------------------------

    def submits(self, device: str, queue: Any, kind: SubmissionKind, target: Target, number: int) -> Verdict:
        """Decide about a submission; see `syclsched.devices.faultpoints.Faults`."""
        with self._lock:
            self._queues[device] = queue
            if (id(target), number) in self._refused:
                self._refused.discard((id(target), number))
                return "refuse"
            before = self._passed["submission", device]
            points: tuple[Point, ...] = ("submission", "copy") if kind == "copy" else ("submission",)
            for point in points:
                self._pass(point, device)
            if device not in self._lost and any(
                isinstance(f, Lose) and f.device == device and before >= f.after for f in self._faults
            ):
                self._lose(device)
            verdict = "refuse" if device in self._lost else self._verdict(points, device)
            if verdict == "refuse":
                self._refused.add((id(target), number))
                return "refuse"
            held = self._held(device, before)
        for fault in held:
            self._holding.hold(device, queue, fault.for_s if isinstance(fault, Hang) else fault.by_s)
        return verdict

    def submitted(self, device: str, target: Target, number: int) -> None:
        """Remember what is on its way to a device that will be lost."""
        if device in self._pending:
            with self._lock:
                self._pending[device][id(target), number] = target

    def allocates(self, queue: Any, nbytes: int) -> None:
        """Fail an allocation, as the runtime does."""
        with self._lock:
            number = self._pass("allocation", None)
            if self._is_lost(queue) or self._fails("allocation", None, number):
                self._note("allocation", None, number)
                raise MemoryError(f"{nbytes} bytes: injected fault")

    def calls(self, task: str | None, kind: str) -> None:
        """Raise in place of a host function, or of a copy or barrier by the host."""
        with self._lock:
            if kind == "copy":
                number = self._pass("copy", None)
                if self._fails("copy", None, number):
                    self._note("copy", None, number)
                    raise ExecutionError("injected fault", where="copy by the host")
            if kind == "host":
                number = self._pass("host call", None)
                if self._fails("host call", None, number):
                    self._note("host call", None, number)
                    raise InjectedError(f"injected fault in task {task!r}")

    def uses(self, queue: Any) -> None:
        """Refuse what else is asked of a device that is lost."""
        with self._lock:
            if self._is_lost(queue):
                raise ExecutionError("the device is lost: injected fault", where=queue.sycl_device.name.strip())

    def forget(self, target: Target) -> None:
        """Forget what was on its way."""
        with self._lock:
            for known in self._pending.values():
                for key in [key for key in known if key[0] == id(target)]:
                    del known[key]
            self._refused = {key for key in self._refused if key[0] != id(target)}

    # --- inside, with the lock ----------------------------------------------------------------------

    def _pass(self, point: Point, device: str | None) -> int:
        if device is not None:
            self._passed[point, device] += 1
        self._passed[point, None] += 1
        return self._passed[point, None]

    def _note(self, what: str, device: str | None, number: int) -> None:
        self._injected.append(Injected(what, device, number))

    def _verdict(self, points: tuple[Point, ...], device: str) -> Verdict:
        for point in points:
            number = self._passed[point, None]
            if self._fails(point, device, number):
                self._note(point, device, number)
                return "refuse"
        number = self._passed["submission", None]
        for fault in self._faults:
            on_device = isinstance(fault, FailOnDevice) and self._is_due(fault, "submission", device)
            if on_device or self._happens(fault, "on device", device):
                self._note("on device", device, number)
                done = fault.done if isinstance(fault, FailOnDevice) else self._random.random() < 0.5
                return "spoil" if done else "skip"
        return "pass"

    def _fails(self, point: Point, device: str | None, number: int) -> bool:
        return any(
            (isinstance(fault, FailPoint) and fault.point == point and self._is_due(fault, point, device))
            or self._happens(fault, point, device)
            for fault in self._faults
        )

    def _is_due(self, fault: FailPoint | FailOnDevice, point: Point, device: str | None) -> bool:
        """Return whether this passage is one that a fault is for; counted on its device, if it is for one."""
        if fault.device not in (None, device):
            return False
        return fault.number <= self._passed[point, fault.device] < fault.number + fault.times

    def _happens(self, fault: Fault, kind: str, device: str | None) -> bool:
        if not isinstance(fault, AtRandom) or kind not in fault.kinds or fault.device not in (None, device):
            return False
        left = self._left[id(fault)]
        if left == 0 or self._random.random() >= fault.probability:
            return False
        if left is not None:
            self._left[id(fault)] = left - 1
        return True

    def _held(self, device: str, before: int) -> list[Hang | Slow]:
        """Return the faults that hold a submission back."""
        held: list[Hang | Slow] = []
        for fault in self._faults:
            if isinstance(fault, Slow) and fault.device == device:
                held.append(fault)
            if isinstance(fault, Hang) and fault.device == device and before >= fault.after:
                if before == fault.after:
                    self._note("hang", device, before + 1)
                held.append(fault)
        return held

    def _lose(self, device: str) -> None:
        self._lost.add(device)
        self._note("lost", device, self._passed["submission", device])
        for (_, number), target in self._pending[device].items():
            if target.is_pending(number):
                target.fail(number)
                self._note("pending", device, number)
        self._pending[device].clear()

    def _is_lost(self, queue: Any) -> bool:
        return any(self._queues[device].sycl_device == queue.sycl_device for device in self._lost)
