# SPDX-License-Identifier: Apache-2.0
"""Steps of long functions on workers: kept there, and asked for while the process that called shows them."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import wait
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

from syclsched.cluster.calls import WorkerCall
from syclsched.cluster.workers import ConnectedWorkers
from syclsched.errors import RunCancelledError, SyclschedError
from syclsched.progress import Progress

if TYPE_CHECKING:
    from syclsched.cluster.node import Node

#: Seconds between two questions to a worker.
EVERY_S: Final = 0.25
#: Longest wait for an answer; a worker that is slower is asked again.
_ANSWER_S: Final = 5.0
_HERE: Final = "syclsched.cluster.monitor.remote_steps"


def result_of(
    workers: ConnectedWorkers, call: WorkerCall, key: str, progress: Progress | None, timeout_s: float
) -> Any:
    """Wait for a function that keeps its steps under a key, and tell them meanwhile; end it if the wait ends early."""
    try:
        while progress is not None and not wait([call.answer], EVERY_S).done:
            step = None
            with suppress(SyclschedError):  # the call itself fails, too, if the worker is lost
                step = workers.call(call.worker.name, f"{_HERE}:last_step", key, timeout_s=_ANSWER_S)
            if step is not None:
                progress(*step)
        return call.result(timeout_s)
    except BaseException:
        if not call.done:
            with suppress(SyclschedError):
                workers.start(call.worker.name, f"{_HERE}:end_steps", key)
        raise


# --- on the workers -------------------------------------------------------------------------------

#: The present step of each function that is at work, and the functions that must end, by key.
_steps: dict[str, tuple[int, int, str]] = {}
_unwanted: set[str] = set()


@contextmanager
def kept_steps(key: str) -> Iterator[Progress]:
    """Yield a function that keeps the steps of a block under a key; it raises an error if the caller has gone."""

    def keep(done: int, total: int, step: str, /) -> None:
        if key in _unwanted:
            raise RunCancelledError("nobody waits for it any more")
        _steps[key] = done, total, step

    try:
        yield keep
    finally:
        _steps.pop(key, None)
        _unwanted.discard(key)


def last_step(node: Node, key: str) -> tuple[int, int, str] | None:
    """Return the present step of a function; None if it has none."""
    return _steps.get(key)


def end_steps(node: Node, key: str) -> None:
    """End a function at its next step."""
    if key in _steps:
        _unwanted.add(key)
