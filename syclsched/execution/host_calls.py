# SPDX-License-Identifier: Apache-2.0
"""Calls of host functions, which are made again if they raise and their tasks have retries."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from syclsched.devices import faultpoints
from syclsched.execution.work import Work


def host_call(
    work: Work, function: Callable[..., Any], arguments: Mapping[str, Any], retried: list[str]
) -> Callable[[], object]:
    """Return what calls a task's host function.

    Parameters
    ----------
    work : Work
        The task.
    function : callable
        Its function.
    arguments : Mapping[str, numpy.ndarray or number]
        By name; arrays are written through.
    retried : list of str
        The task's name is added each time the function is called again.

    Returns
    -------
    callable
        If it raises, the function has raised once more than the task has retries. What the function writes in place has
        its old value whenever it is called: it may have been half written.
    """
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
