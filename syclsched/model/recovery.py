# SPDX-License-Identifier: Apache-2.0
"""What was done when something broke during a run, as plain data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from syclsched.model.profile import Count, Name, NonNegative, Text
from syclsched.model.units import format_seconds, plural

_STRICT: dict[str, object] = {"extra": "forbid", "allow_inf_nan": False}


@dataclass(frozen=True, slots=True)
class Recovery:
    """One failure that a run went on after.

    Parameters
    ----------
    reason : str
        What failed: a ``submission``, a ``copy``, ``memory`` that was not to be had, a ``device`` that reported a
        failure or broke off, a task that ``raised``, whose ``status`` says that it failed, whose values failed a
        ``check``, or that was past its ``deadline``.
    what : str
        The first error, as it would have been raised.
    task : str or None
        Whose error it was.
    device : str or None
        Where.
    failures : int
        How many instructions failed together.
    lost : tuple of str
        Devices that do not answer any more.
    left_out : tuple of str
        Devices that are not used any more in this run: those lost, and those that failed too often.
    planned : int
        Tasks that were planned anew: all that were left.
    redone : tuple of str
        Tasks among them that had been done, but whose results were lost.
    moved : int
        Tasks among them that went to another device than before.
    given_up : tuple of str
        Tasks that cannot be done any more.
    took_s : float
        From the end of what was on its way to the beginning of the rest.
    """

    __pydantic_config__: ClassVar[dict[str, object]] = _STRICT

    reason: Literal["submission", "copy", "memory", "device", "raised", "status", "check", "deadline"]
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
        """Say in a line what happened, and what was done."""
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
