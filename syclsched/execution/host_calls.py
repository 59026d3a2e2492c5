# SPDX-License-Identifier: Apache-2.0
"""What host lanes do: copies, and calls of functions that are made again if they raise and their tasks have retries."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from syclsched.devices import faultpoints
from syclsched.execution.buffers import BufferTable
from syclsched.execution.program import Buffer
from syclsched.execution.work import Work
from syclsched.model.plan import Instruction


def host_step(
    instruction: Instruction,
    work: Work | None,
    function: Callable[..., Any] | None,
    buffers: BufferTable,
    retried: list[str],
) -> Callable[[], object]:
    """Return what does an instruction of a host lane."""
    if work is not None and function is not None:
        return host_call(work, function, host_arguments(work, buffers), retried)
    is_copy = instruction.kind == "copy"
    ends = [live.numpy(writable=bool(n)) for n, live in enumerate(buffers.ends(instruction))] if is_copy else []

    def step() -> None:
        if faultpoints.active is not None:
            faultpoints.active.calls(instruction.task, instruction.kind)
        if ends:
            source, target = ends
            np.copyto(target, source)

    return step


def host_call(
    work: Work, function: Callable[..., Any], arguments: Mapping[str, Any], retried: list[str]
) -> Callable[[], object]:
    """Return what calls a task's host function."""
    task = work.task

    def call() -> object:
        if faultpoints.active is not None:
            faultpoints.active.calls(task.name, "host")
        return function(**arguments)

    if not task.retries:
        return call
    modes = {p.name: p.mode for p in work.arrays if p.mode is not None}
    updated = [arguments[name] for name, mode in modes.items() if mode.reads and mode.writes]

    def persist() -> object:
        before = [array.copy() for array in updated]
        for _ in range(task.retries):
            try:
                return call()
            except Exception:  # whatever it raises the last time reaches the caller
                retried.append(task.name)
                for array, value in zip(updated, before, strict=True):
                    array[...] = value
        return call()

    return persist


def with_own_views(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that passes on views of the arrays it is called with: they are the same time after time."""

    def call(**arguments: Any) -> Any:
        return function(**{name: a.view() if isinstance(a, np.ndarray) else a for name, a in arguments.items()})

    return call


def host_arguments(work: Work, buffers: BufferTable | Mapping[Buffer, Any]) -> dict[str, Any]:
    """Return a host function's arguments: NumPy views of the buffers, and scalars."""
    arguments: dict[str, Any] = work.scalars
    shapes = work.shapes
    for parameter in work.arrays:
        assert parameter.mode is not None
        view = buffers[work.buffers[parameter.name]].numpy(writable=parameter.mode.writes)
        arguments[parameter.name] = view.reshape(shapes[parameter.name]) if parameter.name in shapes else view
    return arguments
