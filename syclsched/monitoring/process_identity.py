# SPDX-License-Identifier: Apache-2.0
"""Identity of a process: its number, its start time, and the namespace in which the number is valid."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_PROC: Final = Path("/proc")
_PATTERN: Final = re.compile(r"(\d{1,20})-(\d{1,20})-(\d{1,20})")
#: Place of the start time among the fields of /proc/PID/stat that follow the command's name.
_START_FIELD: Final = 19


@dataclass(frozen=True, slots=True)
class ProcessIdentity:
    """Identity of one process of this machine; numbers alone are reused."""

    pid: int
    start_ticks: int  # time of its start since the machine's, in the kernel's clock ticks
    namespace: int  # identifies the PID namespace: processes in containers have numbers of their own

    @classmethod
    def own(cls) -> ProcessIdentity:
        """Return the identity of this process."""
        pid = os.getpid()
        return cls(pid, _start_ticks(pid) or 0, _own_namespace())

    @classmethod
    def parse(cls, text: str) -> ProcessIdentity | None:
        """Return the identity that a text made by `str` names; None for any other text."""
        found = _PATTERN.fullmatch(text)
        return None if found is None else cls(*(int(part) for part in found.groups()))

    @property
    def is_here(self) -> bool:
        """Whether its number is valid for this process: both are in one PID namespace."""
        return self.namespace == _own_namespace()

    @property
    def is_alive(self) -> bool:
        """Whether the process exists; only if `is_here`."""
        return _start_ticks(self.pid) == self.start_ticks

    def __str__(self) -> str:
        return f"{self.pid}-{self.start_ticks}-{self.namespace}"


def _start_ticks(pid: int) -> int | None:
    """Return the start time of a process; None if it does not exist, or has ended and waits for its parent."""
    try:
        status = (_PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The command's name, in parentheses, may contain anything.
    fields = status.rpartition(")")[2].split()
    return None if fields[0] in ("Z", "X") else int(fields[_START_FIELD])


def _own_namespace() -> int:
    return os.stat(_PROC / "self" / "ns" / "pid").st_ino
