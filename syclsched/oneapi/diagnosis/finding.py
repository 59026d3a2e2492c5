# SPDX-License-Identifier: Apache-2.0
"""A finding of the diagnosis: its topic, its consequence, and how to fix it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Status = Literal["ok", "warning", "missing", "info"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One result of the diagnosis."""

    topic: str  # one or two words
    status: Status  # ``missing``: needed, but absent or unusable
    what: str  # the observation
    meaning: str | None = None  # the consequence for the user
    mend: str | None = None  # the command, or else the step, that fixes it
    is_blocking: bool = False  # whether nothing can run until it is fixed
