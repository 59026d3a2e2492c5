# SPDX-License-Identifier: Apache-2.0
"""All that a graph's tasks are on their devices, compiled together, each distinct piece once."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from syclsched.devices.compiler import Piece, compile_tasks, signature_key
from syclsched.devices.constants import Uploads
from syclsched.devices.executables import Executable
from syclsched.model.operation import Implementation
from syclsched.model.platform import Device
from syclsched.model.task import Task


class Compiling:
    """Collects what is to be compiled: the more is compiled together, the less time and memory each takes."""

    def __init__(self) -> None:
        self._wanted: dict[Hashable, tuple[Piece, Task, str]] = {}

    def add(self, task: Task, implementation: Implementation, queue: Any, device: Device) -> Hashable:
        """Ask for a task by one of its implementations on a device; return by what it is found in `compiled`."""
        assert task.operation is not None and task.signature is not None
        # Operations are compared by identity here: hashing one costs more than the rest of the key.
        constants = tuple((name, each.number) for name, each in task.constants.items())
        key = (id(task.operation), implementation.name, device.name, signature_key(task.signature), constants)
        if key not in self._wanted:
            limits = None if queue is None else device.limits
            piece = Piece(task.operation, implementation, task.signature, queue, limits)
            self._wanted[key] = (piece, task, device.space)
        return key

    def compiled(self, uploads: Uploads) -> dict[Hashable, Executable]:
        """Return everything compiled, with its constants put where it runs."""
        made = compile_tasks([piece for piece, _, _ in self._wanted.values()])
        return {
            key: uploads.bind(
                each, piece.operation, piece.implementation, piece.signature, task.constants, piece.queue, space
            )
            for (key, (piece, task, space)), each in zip(self._wanted.items(), made, strict=True)
        }
