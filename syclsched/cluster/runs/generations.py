# SPDX-License-Identifier: Apache-2.0
"""Generations of a stream on several machines: bindings of one plan, each with memory of its own, take turns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Generic, Protocol, TypeVar


class _EndingRun(Protocol):
    """A run that can be waited for."""

    def join(self) -> None:
        """Wait for the end of the run, without raising its error."""

    def when_ended(self, call: Callable[[], None]) -> None:
        """Register a callback for the end of the run, on any thread; call it at once if the run has ended."""


RunT = TypeVar("RunT", bound=_EndingRun)


class BindingsInTurn(Generic[RunT]):
    """Starts each generation on the binding that has waited longest; a launcher of a stream's instances."""

    def __init__(self, starts: Sequence[Callable[[Mapping[str, Any]], RunT]]) -> None:
        self._starts = starts
        self._begun = 0

    def begin(self, values: Mapping[str, Any]) -> RunT:
        """Start a generation."""
        run = self._starts[self._begun % len(self._starts)](values)
        self._begun += 1
        return run

    def submit_rest(self, run: RunT) -> None:
        """Do nothing: each machine submits its part at once."""

    def submit_all(self) -> None:
        """Do nothing: each machine submits its part at once."""

    def wait(self, run: RunT) -> None:
        """Wait for the end of a run, with or without an error."""
        run.join()

    async def wait_async(self, run: RunT) -> None:
        """Wait for the end of a run in a coroutine."""
        import asyncio  # imports fifty modules, which only coroutines need

        loop, ended = asyncio.get_running_loop(), asyncio.Event()

        def tell() -> None:
            with suppress(RuntimeError):  # the loop was closed without waiting for the run
                loop.call_soon_threadsafe(ended.set)

        run.when_ended(tell)
        await ended.wait()
