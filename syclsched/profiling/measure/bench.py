# SPDX-License-Identifier: Apache-2.0
"""Measurement set-up of one device: queues, arrays and kernels, none freed while commands are in flight."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, Protocol

import numpy as np

from syclsched.devices.memory.constant_uploads import ConstantUploader
from syclsched.devices.memory.usm_memory import allocate, as_bytes
from syclsched.devices.native.memory_range import MemoryRange
from syclsched.devices.native.sycl_types import SyclEvent, SyclQueue
from syclsched.devices.programs.arguments import BoundArray
from syclsched.devices.programs.task_compiler import CompileRequest, Executable, build_ahead, compile_task
from syclsched.model.operation import Operation, Scalar, Signature
from syclsched.model.platform import Device
from syclsched.model.usm import UsmKind
from syclsched.profiling.statistics import Sampler

Array = np.ndarray[Any, np.dtype[Any]]


class QueueProvider(Protocol):
    """The part of `syclsched.devices.opened_devices.OpenDevices` that measurements use."""

    @property
    def uploads(self) -> ConstantUploader:
        """The uploader of constants to devices."""
        ...

    def queue(self, device: str, kind: Literal["compute", "copy"] = "compute", index: int = 0) -> SyclQueue:
        """Return an in-order queue with profiling."""
        ...


class Bench:
    """A device to measure.

    As a context manager it synchronises its queues before it frees any array, also on exceptions.
    """

    def __init__(self, devices: QueueProvider, device: Device, sampler: Sampler) -> None:
        self.devices = devices
        self.device = device
        self.sampler = sampler
        self.queue = devices.queue(device.name, "compute", 0)
        self._used: dict[tuple[str, int], SyclQueue] = {("compute", 0): self.queue}
        self._kept: list[Any] = []

    def __enter__(self) -> Bench:
        return self

    def __exit__(self, *_: object) -> None:
        self.wait()
        self._kept.clear()

    def lane(self, index: int) -> SyclQueue:
        """Return the compute queue of an index; `wait` includes it from now on."""
        return self._queue("compute", index)

    @property
    def copy_queue(self) -> SyclQueue:
        """The copy queue."""
        return self._queue("copy", 0)

    def _queue(self, kind: Literal["compute", "copy"], index: int) -> SyclQueue:
        if (kind, index) not in self._used:
            self._used[kind, index] = self.devices.queue(self.device.name, kind, index)
        return self._used[kind, index]

    def wait(self) -> None:
        """Synchronise all queues in use."""
        for queue in self._used.values():
            queue.wait()

    def memory(self, nbytes: int, kind: UsmKind = "device") -> Any:
        """Allocate USM memory that lives as long as the bench, with every page touched."""
        memory = allocate(self.queue, nbytes, kind)
        self._kept.append(memory)
        memory.memset(0)
        return memory

    def array(self, data: Array, kind: UsmKind = "device") -> BoundArray:
        """Return a copy of ``data`` in USM memory."""
        memory = allocate(self.queue, data.nbytes, kind)
        array = BoundArray(MemoryRange.around(memory), data.shape, data.dtype.name, self.queue)
        self._kept.append(array)
        self.queue.memcpy(memory, as_bytes(np.ascontiguousarray(data)), data.nbytes)
        return array

    def read(self, array: BoundArray) -> Array:
        """Return the contents of an array after all submitted work."""
        self.wait()
        result = np.empty(array.shape, array.dtype)
        self.queue.memcpy(as_bytes(result), array.memory, result.nbytes)
        return result

    def release(self) -> None:
        """Synchronise, then free all arrays and memory allocated so far."""
        self.wait()
        self._kept.clear()

    def compile_ahead(self, signatures: Iterable[tuple[Operation, Signature]]) -> None:
        """Build the code of several operations as few programs, for `compile` to find; it reports errors."""
        build_ahead(
            CompileRequest(each, each.implementations[0], signature, self.queue, self.device.limits)
            for each, signature in signatures
        )

    def compile(
        self, operation: Operation, arrays: Mapping[str, BoundArray], scalars: Mapping[str, Scalar]
    ) -> Executable:
        """Compile an operation's only implementation for these arrays."""
        signature = Signature(
            shapes={n: a.shape for n, a in arrays.items()},
            dtypes={n: a.dtype.name for n, a in arrays.items()},
            scalars=dict(scalars),
        )
        return compile_task(operation, operation.implementations[0], signature, self.queue, self.device.limits)

    def wall_clock(self, work: Callable[[], object]) -> Callable[[], float]:
        """Return a sampler of the host's seconds from the start of ``work`` until all queues are idle."""

        def sample() -> float:
            start = self.sampler.clock()
            work()
            self.wait()
            return self.sampler.clock() - start

        return sample


def event_seconds(event: SyclEvent) -> float:
    """Return how long a finished command ran on the device, by the device's own clock."""
    return float(event.profiling_info_end - event.profiling_info_start) * 1e-9
