# SPDX-License-Identifier: Apache-2.0
"""The general SYCL path: a backend whose devices are reached through dpctl alone, and the interface of all backends."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from syclsched.devices.native.sycl_types import SyclDevice, SyclEvent, SyclQueue
from syclsched.errors import CapabilityError
from syclsched.model.operation import OpenCLSource, SpirvModule
from syclsched.model.platform import BackendFacts


class NativeAccess(Protocol):
    """Access to the native objects behind those of SYCL; the caller owns the handles and releases them."""

    way: str  # name of the functions in C that submit to its queues: ``opencl`` for ``syclsched_way_opencl``
    release_queue: Callable[[int], object]
    release_kernel: Callable[[int], object]
    release_event: Callable[[int], object]

    def queue(self, queue: SyclQueue) -> tuple[int, int] | None:
        """Return the native queue of a SYCL queue, and the data of the functions in C; None if it cannot be used."""

    def local_queue(self, queue: SyclQueue) -> int | None:
        """Return a queue whose commands run on the submitting thread; None if the device has no such queues."""

    def kernel(self, kernel: Any) -> int:
        """Return a new native kernel of the program of a SYCL kernel."""

    def set_arguments(self, kernel: int, functions: int, values: Sequence[tuple[int, int]]) -> bool:
        """Set the arguments of a native kernel, which it keeps; return False if one is refused."""

    def event(self, event: SyclEvent) -> int:
        """Return the native event of a SYCL event."""

    def sycl_event(self, native: int, queue: SyclQueue) -> SyclEvent:
        """Return a SYCL event of a native one."""

    def call_back(self, native: int, function: int, argument: int) -> bool:
        """Register a C function to be called when an event has completed or failed; return whether it worked."""


@dataclass(frozen=True)
class Backend:
    """The interface of a backend, each function with the general SYCL implementation; subclasses replace some.

    Queues, events and USM memory are dpctl's for every backend.
    """

    facts: BackendFacts

    def native(self) -> NativeAccess | None:
        """Return access to native objects; None if commands are submitted through SYCL only."""
        return None

    def build(self, code: OpenCLSource | SpirvModule, queue: SyclQueue) -> Any:
        """Return a program built from OpenCL C or SPIR-V; raise dpctl's error for a program that is refused."""
        from dpctl import program

        if isinstance(code, SpirvModule):
            return program.create_program_from_spirv(queue, code.code)
        raise CapabilityError(f"a {self.facts.name} device takes no OpenCL C, and no SPIR-V")

    def build_log(self, code: OpenCLSource, queue: SyclQueue) -> str:
        """Return the compiler's log on OpenCL C that `build` refuses; empty if its error contains it all."""
        return ""

    def binary(self, kernel: Any, queue: SyclQueue) -> bytes | None:
        """Return the program of a kernel in the form that `load_binary` takes, also in other processes; or None.

        It is None where the driver keeps its programs on disk itself.
        """
        return None

    def load_binary(self, binary: bytes, queue: SyclQueue) -> Any | None:
        """Return the program of a binary for the same kind of device and driver; None if the driver refuses it."""
        return None

    def float_atomics(self, device: SyclDevice) -> frozenset[str]:
        """Return the atomic operations on floating-point numbers that a device has, such as ``"add float32"``."""
        return frozenset()

    def computes_on_host_cores(self, queue: SyclQueue) -> bool:
        """Return whether kernels run on the host's cores, of which the last is used by a waiting thread only."""
        return False

    def why_not_local(self, queue: SyclQueue) -> str | None:
        """Return why a queue is not one core of the host, executable by one thread; None if it is."""
        return f"a lane is on {queue.sycl_device.name!r}, which is not the OpenCL CPU device"

    def hold(self, queue: SyclQueue) -> Callable[[], None] | None:
        """Keep later submissions to a queue from starting until the result is called; None if it cannot be held."""
        return None


def sycl_event_at(address: int) -> SyclEvent:
    """Return a copy of the event that a ``DPCTLSyclEventRef`` points to, as ``dpctl.SyclEvent``."""
    import dpctl

    made: SyclEvent = dpctl.SyclEvent(_capsule(address, b"SyclEventRef", None))
    return made


# --- inside ---------------------------------------------------------------------------------------

_capsule = ctypes.pythonapi.PyCapsule_New
_capsule.restype = ctypes.py_object
_capsule.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
