# SPDX-License-Identifier: Apache-2.0
"""One thing the doctor found: what it is, what follows from it, and what mends it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Status = Literal["ok", "warning", "missing", "info"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at."""

    topic: str  # what it is about, in a word or two
    status: Status  # ``missing`` means that something is needed and not there or not usable
    what: str  # what was found
    meaning: str | None = None  # what follows from it for the user
    mend: str | None = None  # the command, or else the step, that mends it
    is_blocking: bool = False  # whether nothing can be run until it is mended
