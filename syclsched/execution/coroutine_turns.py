# SPDX-License-Identifier: Apache-2.0
"""Coroutines that ask for runs of one runner take turns, without a thread that waits."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from syclsched.execution.run import Run


class CoroutineTurns:
    """Who asks for a run has it once the runs asked for before have ended."""

    def __init__(self) -> None:
        #: Done when the last of the coroutines that asked for a run has had its turn.
        self._turn: asyncio.Future[None] | None = None

    async def take(self, start: Callable[[], Run]) -> Run:
        """Wait for a turn, start a run, and wait for it."""
        loop = asyncio.get_running_loop()
        mine = loop.create_future()
        before, self._turn = self._turn, mine
        if before is not None and before.get_loop() is not loop:
            before = None  # coroutines of another event loop: `run` waits for them
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
                run.settle(mine)  # at once, if it has ended
            elif before is not None and not before.done():
                before.add_done_callback(lambda _: mine.set_result(None))
            else:
                mine.set_result(None)
