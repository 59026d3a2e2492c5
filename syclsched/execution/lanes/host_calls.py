# SPDX-License-Identifier: Apache-2.0
"""Host steps: copies, and calls of host functions with retries."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from syclsched.devices.submission import faultpoints
from syclsched.execution.core.program import Buffer
from syclsched.execution.core.work import InstructionWork
from syclsched.execution.memory.buffers import BufferTable
from syclsched.model.plan import Instruction


def make_host_step(
    instruction: Instruction,
    work: InstructionWork | None,
    function: Callable[..., Any] | None,
    buffers: BufferTable,
    retried: list[str],
) -> Callable[[], object]:
    """Return a callable that executes an instruction of a host lane."""
    if work is not None and function is not None:
        return _make_host_call(work, function, _host_arguments(work, buffers), retried)
    is_copy = instruction.kind == "copy"
    ends = [live.numpy(writable=bool(n)) for n, live in enumerate(buffers.ends(instruction))] if is_copy else []

    def step() -> None:
        if faultpoints.active is not None:
            faultpoints.active.calls(instruction.task, instruction.kind)
        if ends:
            source, target = ends
            np.copyto(target, source)

    return step


def _make_host_call(
    work: InstructionWork, function: Callable[..., Any], arguments: Mapping[str, Any], retried: list[str]
) -> Callable[[], object]:
    """Return a callable that calls a task's host function, with the task's retries."""
    task = work.task

    def call() -> object:
        if faultpoints.active is not None:
            faultpoints.active.calls(task.name, "host")
        return function(**arguments)

    if not task.retries:
        return call
    modes = {p.name: p.mode for p in work.arrays if p.mode is not None}
    updated = [arguments[name] for name, mode in modes.items() if mode.reads and mode.writes]

    def call_with_retries() -> object:
        before = [array.copy() for array in updated]
        for _ in range(task.retries):
            try:
                return call()
            except Exception:  # the last call below is not caught: its error reaches the caller
                retried.append(task.name)
                for array, value in zip(updated, before, strict=True):
                    array[...] = value
        return call()

    return call_with_retries


def with_own_views(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a function so that each call gets new views of its arrays, because the arrays are reused across runs."""

    def call(**arguments: Any) -> Any:
        for name, value in arguments.items():
            if isinstance(value, np.ndarray):
                arguments[name] = value.view()
        return function(**arguments)

    return call


def _host_arguments(work: InstructionWork, buffers: BufferTable | Mapping[Buffer, Any]) -> dict[str, Any]:
    """Return the arguments of a host function: NumPy views of its buffers, and scalars."""
    arguments: dict[str, Any] = work.scalars
    shapes = work.shapes if work.task.reshaped else {}
    for parameter in work.operation.parameters:
        name, mode = parameter.name, parameter.mode
        if mode is not None and name in work.buffers:
            view = buffers[work.buffers[name]].numpy(writable=mode.writes)
            arguments[name] = view.reshape(shapes[name]) if name in shapes else view
    return arguments
