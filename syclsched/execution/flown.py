# SPDX-License-Identifier: Apache-2.0
"""A run that C has begun (`syclsched.devices.flight`) and that Python goes on with, because it takes long or failed."""

from __future__ import annotations

from syclsched.devices.flight import Flight
from syclsched.errors import ExecutionError
from syclsched.execution.replay import Replay


class FlownReplay(Replay):
    """A replay whose work is on its way already, or has ended otherwise than well; made by `Generation.flown`."""

    #: Until it has landed.
    flight: Flight | None = None

    def start(self) -> None:
        """Have the end awaited; returns at once."""
        self._worker.post(self._land)
        self.begun = True

    def cancel(self) -> None:
        """Submit nothing more; what was submitted ends. Returns at once."""
        if not self.begun:
            self.start()  # in any case it must land
        super().cancel()

    def _land(self) -> None:
        flight, self.flight = self.flight, None
        if flight is None:  # `start` was interrupted, and called again
            return
        try:
            portions = flight.land()
            self._commands.adopt(flight.done, portions)
        except BaseException as error:
            self.error = ExecutionError(f"the run could not be taken over: {type(error).__name__}: {error}")
            self.cancelled = True
        self._submit_there()  # what was refused is tried again, and then told as it is of any run
