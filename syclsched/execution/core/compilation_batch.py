# SPDX-License-Identifier: Apache-2.0
"""Batch compilation of task implementations, each distinct one once."""

from __future__ import annotations

from collections.abc import Hashable

from syclsched.devices.discovery.device_facts import limits_of
from syclsched.devices.memory.constant_uploads import ConstantUploader
from syclsched.devices.native.sycl_types import SyclQueue
from syclsched.devices.programs.executables import Executable
from syclsched.devices.programs.task_compiler import CompileRequest, compile_tasks, signature_key
from syclsched.library_threads import LIBRARY_THREADS
from syclsched.model.operation import Implementation
from syclsched.model.platform import Device
from syclsched.model.task import Task
from syclsched.progress import Progress


class CompilationBatch:
    """Collects implementations and compiles them together, which takes less time and memory than one by one."""

    def __init__(self) -> None:
        self._wanted: dict[Hashable, tuple[CompileRequest, Task, str]] = {}

    def add(self, task: Task, implementation: Implementation, queue: SyclQueue | None, device: Device) -> Hashable:
        """Request a task's implementation for a device; return its key in the result of `compiled`."""
        assert task.operation is not None and task.signature is not None
        # Operations are compared by identity: hashing one costs more than the rest of the key.
        constants = tuple((name, each.number) for name, each in task.constants.items())
        key = (id(task.operation), implementation.name, device.name, signature_key(task.signature), constants)
        if key not in self._wanted:
            # Those of the plan may be of another driver of the same device.
            limits = None if queue is None else limits_of(queue.sycl_device)
            piece = CompileRequest(task.operation, implementation, task.signature, queue, limits)
            self._wanted[key] = (piece, task, device.space)
        return key

    def compiled(self, uploads: ConstantUploader, progress: Progress | None = None) -> dict[Hashable, Executable]:
        """Compile all requested implementations and upload their constants."""
        made = compile_tasks([piece for piece, _, _ in self._wanted.values()], progress)
        # Constants are prepared in small matrix products, after which a BLAS library's threads spin for 0.1 s.
        with LIBRARY_THREADS.at_most(1):
            return {
                key: uploads.bind(each, piece, task.constants, space)
                for (key, (piece, task, space)), each in zip(self._wanted.items(), made, strict=True)
            }
