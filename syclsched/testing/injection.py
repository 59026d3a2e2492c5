# SPDX-License-Identifier: Apache-2.0
"""Fault injector: decides at each submission, copy, allocation and host call whether it fails."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Iterable

from syclsched.devices.native.sycl_types import SyclQueue
from syclsched.devices.submission.faultpoints import FaultDecision, SubmissionKind, Target
from syclsched.errors import ExecutionError
from syclsched.testing.fault_types import (
    DeviceFailure,
    DeviceHang,
    DeviceLoss,
    DeviceSlowdown,
    Fault,
    FaultPoint,
    Injected,
    OperationFailure,
    RandomFault,
)
from syclsched.testing.queue_gates import QueueGates


class InjectedError(Exception):
    """Raised by an injected fault instead of calling a user's host function."""


class Injection:
    """Active fault injection with its counters and its record of injected faults; made by `inject`."""

    def __init__(self, faults: Iterable[Fault], seed: int) -> None:
        self._faults = tuple(faults)
        self._random = random.Random(seed)
        self._lock = threading.RLock()
        self._holding = QueueGates()
        self._passed: Counter[tuple[str, str | None]] = Counter()
        self._left = {id(f): f.most for f in self._faults if isinstance(f, RandomFault)}
        self._injected: list[Injected] = []
        self._refused: set[tuple[int, int]] = set()
        self._queues: dict[str, SyclQueue] = {}
        self._lost: set[str] = set()
        self._pending: dict[str, dict[tuple[int, int], Target]] = {
            f.device: {} for f in self._faults if isinstance(f, DeviceLoss)
        }

    # --- counters and record ----------------------------------------------------------------------

    @property
    def injected(self) -> tuple[Injected, ...]:
        """Faults injected so far, in order."""
        with self._lock:
            return tuple(self._injected)

    def passed(self, point: FaultPoint, device: str | None = None) -> int:
        """Return how many operations of a kind were counted so far.

        Parameters
        ----------
        point : str
            ``submission`` (kernels, copies and barriers submitted to queues), ``copy`` (copies between memory spaces,
            also counted as submissions), ``allocation`` (of USM memory) or ``host call``.
        device : str, optional
            Device to count on; for submissions and copies only.
        """
        with self._lock:
            return self._passed[point, device]

    def release(self) -> None:
        """Let hanging devices continue: start all submissions held back."""
        self._holding.release()

    def close(self) -> None:
        """Start all submissions held back, and hold back no others."""
        self._holding.close()

    # --- fault injection points -------------------------------------------------------------------

    def submits(
        self, device: str, queue: SyclQueue, kind: SubmissionKind, target: Target, number: int
    ) -> FaultDecision:
        """Return the decision about a submission before it is made."""
        with self._lock:
            self._queues[device] = queue
            if (id(target), number) in self._refused:
                self._refused.discard((id(target), number))
                return "refuse"
            before = self._passed["submission", device]
            points: tuple[FaultPoint, ...] = ("submission", "copy") if kind == "copy" else ("submission",)
            for point in points:
                self._count(point, device)
            if device not in self._lost and any(
                isinstance(f, DeviceLoss) and f.device == device and before >= f.after for f in self._faults
            ):
                self._lose(device)
            verdict = "refuse" if device in self._lost else self._decide(points, device)
            if verdict == "refuse":
                self._refused.add((id(target), number))
                return "refuse"
            delaying = self._delaying_faults(device, before)
        for fault in delaying:
            self._holding.block(device, queue, fault.for_s if isinstance(fault, DeviceHang) else fault.by_s)
        return verdict

    def submitted(self, device: str, target: Target, number: int) -> None:
        """Record a submission as in flight, if its device will be lost."""
        if device in self._pending:
            with self._lock:
                self._pending[device][id(target), number] = target

    def allocates(self, queue: SyclQueue, nbytes: int) -> None:
        """Raise MemoryError, as the runtime does, if an allocation is to fail."""
        with self._lock:
            number = self._count("allocation", None)
            if self._is_lost(queue) or self._fails("allocation", None, number):
                self._record_fault("allocation", None, number)
                raise MemoryError(f"{nbytes} bytes: injected fault")

    def calls(self, task: str | None, kind: str) -> None:
        """Raise if a host function, or a copy by the host, is to fail."""
        with self._lock:
            if kind == "copy":
                number = self._count("copy", None)
                if self._fails("copy", None, number):
                    self._record_fault("copy", None, number)
                    raise ExecutionError("injected fault", where="copy by the host")
            if kind == "host":
                number = self._count("host call", None)
                if self._fails("host call", None, number):
                    self._record_fault("host call", None, number)
                    raise InjectedError(f"injected fault in task {task!r}")

    def uses(self, queue: SyclQueue) -> None:
        """Raise if a queue's device is lost, at submissions that are no instructions of a plan."""
        with self._lock:
            if self._is_lost(queue):
                raise ExecutionError("the device is lost: injected fault", where=queue.sycl_device.name.strip())

    def forget(self, target: Target) -> None:
        """Remove the records of a target's submissions: all have completed."""
        with self._lock:
            for known in self._pending.values():
                for key in [key for key in known if key[0] == id(target)]:
                    del known[key]
            self._refused = {key for key in self._refused if key[0] != id(target)}

    # --- inside, with the lock ----------------------------------------------------------------------

    def _count(self, point: FaultPoint, device: str | None) -> int:
        if device is not None:
            self._passed[point, device] += 1
        self._passed[point, None] += 1
        return self._passed[point, None]

    def _record_fault(self, what: str, device: str | None, number: int) -> None:
        self._injected.append(Injected(what, device, number))

    def _decide(self, points: tuple[FaultPoint, ...], device: str) -> FaultDecision:
        for point in points:
            number = self._passed[point, None]
            if self._fails(point, device, number):
                self._record_fault(point, device, number)
                return "refuse"
        number = self._passed["submission", None]
        for fault in self._faults:
            on_device = isinstance(fault, DeviceFailure) and self._is_due(fault, "submission", device)
            if on_device or self._fails_randomly(fault, "on device", device):
                self._record_fault("on device", device, number)
                done = fault.done if isinstance(fault, DeviceFailure) else self._random.random() < 0.5
                return "spoil" if done else "skip"
        return "pass"

    def _fails(self, point: FaultPoint, device: str | None, number: int) -> bool:
        return any(
            (isinstance(fault, OperationFailure) and fault.point == point and self._is_due(fault, point, device))
            or self._fails_randomly(fault, point, device)
            for fault in self._faults
        )

    def _is_due(self, fault: OperationFailure | DeviceFailure, point: FaultPoint, device: str | None) -> bool:
        """Return whether the operation counted last is one that a fault selects."""
        if fault.device not in (None, device):
            return False
        return fault.number <= self._passed[point, fault.device] < fault.number + fault.times

    def _fails_randomly(self, fault: Fault, kind: str, device: str | None) -> bool:
        if not isinstance(fault, RandomFault) or kind not in fault.kinds or fault.device not in (None, device):
            return False
        left = self._left[id(fault)]
        if left == 0 or self._random.random() >= fault.probability:
            return False
        if left is not None:
            self._left[id(fault)] = left - 1
        return True

    def _delaying_faults(self, device: str, before: int) -> list[DeviceHang | DeviceSlowdown]:
        delaying: list[DeviceHang | DeviceSlowdown] = []
        for fault in self._faults:
            if isinstance(fault, DeviceSlowdown) and fault.device == device:
                delaying.append(fault)
            if isinstance(fault, DeviceHang) and fault.device == device and before >= fault.after:
                if before == fault.after:
                    self._record_fault("hang", device, before + 1)
                delaying.append(fault)
        return delaying

    def _lose(self, device: str) -> None:
        self._lost.add(device)
        self._record_fault("lost", device, self._passed["submission", device])
        for (_, number), target in self._pending[device].items():
            if target.is_pending(number):
                target.fail(number)
                self._record_fault("pending", device, number)
        self._pending[device].clear()

    def _is_lost(self, queue: SyclQueue) -> bool:
        return any(self._queues[device].sycl_device == queue.sycl_device for device in self._lost)
