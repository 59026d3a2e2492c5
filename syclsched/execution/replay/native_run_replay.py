# SPDX-License-Identifier: Apache-2.0
"""Replay that takes over a one-call run (`syclsched.devices.submission.native_run`) which takes long or failed."""

from __future__ import annotations

from syclsched.devices.submission.native_run import NativeRun
from syclsched.errors import ExecutionError
from syclsched.execution.replay.replay import Replay


class NativeRunReplay(Replay):
    """A replay whose work is already submitted or has failed; made by `PlanInstance.flown`."""

    #: The one-call run, until it is taken over.
    flight: NativeRun | None = None

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
            portions = flight.take_over()
            self._commands.adopt(flight.done, portions)
        except BaseException as error:
            self.error = ExecutionError(f"the run could not be taken over: {type(error).__name__}: {error}")
            self.cancelled = True
        self._submit_all()  # refused commands are submitted again, and reported as by any run
