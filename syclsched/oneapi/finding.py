# SPDX-License-Identifier: Apache-2.0
"""One thing the doctor found: what it is, what follows from it, and what mends it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Status = Literal["ok", "warning", "missing", "info"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at.

    Attributes
    ----------
    topic : str
        What it is about, in a word or two.
    status : {"ok", "warning", "missing", "info"}
        ``missing`` means that something is needed and not there or not usable.
    what : str
        What was found.
    meaning : str or None
        What follows from it for the user.
    mend : str or None
        The command, or else the step, that mends it.
    is_blocking : bool
        Whether nothing can be run until it is mended.
    """

    topic: str
    status: Status
    what: str
    meaning: str | None = None
    mend: str | None = None
    is_blocking: bool = False
