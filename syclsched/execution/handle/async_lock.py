# SPDX-License-Identifier: Apache-2.0
"""Asynchronous lock that lets coroutines run one runner in turn, without a waiting thread."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from syclsched.execution.handle.run import Run

if TYPE_CHECKING:
    import asyncio


class AsyncRunLock:
    """First-in-first-out lock for coroutines: each run starts once all runs requested before have ended."""

    def __init__(self) -> None:
        #: Done when the most recently requested run has ended.
        self._turn: asyncio.Future[None] | None = None

    async def take(self, start: Callable[[], Run]) -> Run:
        """Wait for all runs requested before, start a run, and wait for it."""
        import asyncio  # imports fifty modules, which only coroutines need

        loop = asyncio.get_running_loop()
        mine = loop.create_future()
        before, self._turn = self._turn, mine
        if before is not None and before.get_loop() is not loop:
            before = None  # a future of another event loop: `run` waits for its run
        run: Run | None = None
        try:
            if before is not None and not before.done():
                await asyncio.wait([before])
            run = start()
            return await run
        except asyncio.CancelledError:
            if run is not None:
                run.cancel()
            raise
        finally:
            if run is not None:
                run.settle(mine)  # immediately if the run has ended
            elif before is not None and not before.done():
                before.add_done_callback(lambda _: mine.set_result(None))
            else:
                mine.set_result(None)
