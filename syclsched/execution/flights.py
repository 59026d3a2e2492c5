# SPDX-License-Identifier: Apache-2.0
"""Runs of a bound plan in one call of C, for each choice of results that was asked for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from syclsched.devices.command_list import CommandList
from syclsched.devices.flight import WELL, Flight, flight_of
from syclsched.devices.submission_loop import SubmissionLoop
from syclsched.execution.buffers import BufferTable, LiveBuffer, NumpyArray
from syclsched.execution.program import Program
from syclsched.execution.waiting import SLICE_S


class Flights:
    """Those of one generation.

    Parameters
    ----------
    library : Library
        The C part.
    loop : SubmissionLoop
        The generation's.
    program : Program
        What is done.
    buffers : BufferTable
        Where results lie.
    """

    def __init__(self, library: Any, loop: SubmissionLoop, program: Program, buffers: BufferTable) -> None:
        self._library = library
        self._loop = loop
        self._program = program
        self._buffers = buffers
        self._made: dict[tuple[str, ...], tuple[Flight | None, Sequence[LiveBuffer]]] = {}
        self._last: Flight | None = None

    def fly(self, commands: CommandList, names: tuple[str, ...]) -> dict[str, NumpyArray] | None:
        """Do all commands, and return copies of results; None if that cannot be, or `followed` has it now."""
        found = self._made.get(names)
        if found is None:
            found = self._made[names] = self._make(commands, names)
        self._last, buffers = found
        if self._last is None:
            return None
        results = {name: np.empty(b.array.shape, b.array.dtype) for name, b in zip(names, buffers, strict=True)}
        targets = [each.__array_interface__["data"][0] for each in results.values()]
        # Until it is followed it may write results.
        well = self._last.fly(targets, SLICE_S) == WELL or not self._last.follow()
        return results if well else None

    def followed(self) -> Flight | None:
        """Return what goes on, or has ended otherwise than well; it must be landed."""
        return self._last if self._last is not None and self._last.follow() else None

    def settle(self) -> None:
        """Wait until nothing is under way that nobody follows."""
        if self._last is not None:
            self._last.settle()

    def close(self) -> None:
        """End their threads; nothing must be under way."""
        for flight, _ in self._made.values():
            if flight is not None:
                flight.close()
        self._made.clear()
        self._last = None

    def _make(self, commands: CommandList, names: tuple[str, ...]) -> tuple[Flight | None, Sequence[LiveBuffer]]:
        finals, segments = self._program.final_buffers, self._program.segments
        # What nobody writes is the caller's own, and lies elsewhere the next time.
        if any(name in segments or name not in finals or finals[name][1] is None for name in names):
            return None, ()
        buffers = [self._buffers[finals[name][0]] for name in names]
        results = [(buffer.address, buffer.array.nbytes) for buffer in buffers]
        return flight_of(self._library, self._loop, commands, results), buffers
