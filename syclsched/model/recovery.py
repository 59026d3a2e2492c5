# SPDX-License-Identifier: Apache-2.0
"""Record of one failure during a run and of the recovery from it, or of a move to other machines, as plain data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from syclsched.model.profile import Count, Name, NonNegative, Text
from syclsched.model.text.json_serialisation import Serialisable
from syclsched.model.text.units import format_seconds, plural


@dataclass(frozen=True, slots=True)
class Recovery(Serialisable):
    """One failure that a run recovered from, or one time that its rest moved to other machines.

    Parameters
    ----------
    reason : str
        Kind of failure: ``submission``, ``copy``, ``memory`` (allocation failed), ``device`` (reported a failure or was
        lost); or of a task: it ``raised``, its ``status`` reports a failure, its values failed a ``check``, or it
        exceeded its ``deadline``. On a cluster also ``late``: a machine fell behind the plan, and ``joined``: a worker
        has come; nothing failed then.
    what : str
        Message of the first error.
    task : str or None
        The task that failed.
    device : str or None
        The device that failed.
    failures : int
        Number of instructions that failed together.
    lost : tuple of str
        Devices that no longer respond.
    left_out : tuple of str
        Devices no longer used in this run: lost ones, and those that failed too often.
    planned : int
        Number of tasks planned anew: all unfinished ones.
    redone : tuple of str
        Tasks among them that had finished, but whose results were lost.
    moved : int
        Number of tasks among them that moved to another device.
    given_up : tuple of str
        Tasks that cannot be executed any more.
    took_s : float
        Seconds from the end of the last work in flight to the start of the remaining tasks.
    """

    reason: Literal["submission", "copy", "memory", "device", "raised", "status", "check", "deadline", "late", "joined"]
    what: Text
    task: Name | None = None
    device: Name | None = None
    failures: Count = 1
    lost: tuple[Name, ...] = ()
    left_out: tuple[Name, ...] = ()
    planned: Count = 0
    redone: tuple[Name, ...] = ()
    moved: Count = 0
    given_up: tuple[Name, ...] = ()
    took_s: NonNegative = 0.0

    def __str__(self) -> str:
        """Summarise the failure and the recovery in one line."""
        said = [f"{plural(self.planned, 'task')} planned anew in {format_seconds(self.took_s)}"]
        if self.redone:
            said.append(f"{len(self.redone)} of them to be done again")
        if self.moved:
            said.append(f"{self.moved} on another device")
        if self.left_out:
            said.append(f"without {', '.join(self.left_out)}")
        if self.given_up:
            said.append(f"{plural(len(self.given_up), 'task')} given up")
        more = f" (and {self.failures - 1} more)" if self.failures > 1 else ""
        return f"{self.what}{more}: {', '.join(said)}"
