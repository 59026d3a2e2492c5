# SPDX-License-Identifier: Apache-2.0
"""Replay that takes over a one-call run (`syclsched.devices.flight`) which takes long or failed."""

from __future__ import annotations

from syclsched.devices.flight import Flight
from syclsched.errors import ExecutionError
from syclsched.execution.replay import Replay


class FlownReplay(Replay):
    """A replay whose work is already submitted or has failed; made by `Generation.flown`."""

    #: The one-call run, until it is taken over.
    flight: Flight | None = None

    def start(self) -> None:
        """Have the worker take the run over and wait for its end; return at once."""
        self._worker.post(self._take_over)
        self.begun = True

    def cancel(self) -> None:
        """Stop submitting; submitted commands still complete. Returns at once."""
        if not self.begun:
            self.start()  # the one-call run must be taken over in any case
        super().cancel()

    def _take_over(self) -> None:
        flight, self.flight = self.flight, None
        if flight is None:  # `start` was interrupted, and called again
            return
        try:
            portions = flight.land()
            self._commands.adopt(flight.done, portions)
        except BaseException as error:
            self.error = ExecutionError(f"the run could not be taken over: {type(error).__name__}: {error}")
            self.cancelled = True
        self._submit_there()  # refused commands are submitted again, and reported as by any run
