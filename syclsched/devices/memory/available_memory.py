# SPDX-License-Identifier: Apache-2.0
"""Memory that this machine has left: an allocation beyond it would end some process, perhaps this one."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from syclsched.errors import MemoryLimitError
from syclsched.model.text.units import format_bytes

_MACHINE: Final = Path("/proc/meminfo")
#: The memory limit of a container, and the files with its use.
_GROUP: Final = Path("/sys/fs/cgroup")
#: Smaller allocations are not checked, since that takes some 50 us.
CHECKED_BYTES: Final = 16 << 20


def available_bytes(machine: Path = _MACHINE, group: Path = _GROUP) -> int | None:
    """Return the memory that programs can get without swapping, in a container within its limit; None if unknown."""
    found = [each for each in (_of_machine(machine), _of_group(group)) if each is not None]
    return min(found, default=None)


def check_available(nbytes: int, space: str) -> None:
    """Raise `MemoryLimitError` if an allocation in the machine's memory is larger than the available part."""
    if nbytes < CHECKED_BYTES:
        return
    left = available_bytes()
    if left is not None and nbytes > left:
        raise MemoryLimitError(
            f"{format_bytes(nbytes)} cannot be allocated: the machine has {format_bytes(left)} left beside all that "
            "is in use",
            where=f"memory {space!r}",
            space=space,
            hint="Close bound plans and other programs that are not used, or plan with a memory limit; "
            "`print(syclsched.memory_info())` shows what this process holds",
        )


def _of_machine(path: Path) -> int | None:
    try:
        lines = path.read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable:")), None)


def _of_group(folder: Path) -> int | None:
    try:
        limit = (folder / "memory.max").read_text(encoding="ascii").strip()
        if limit == "max":
            return None
        used = int((folder / "memory.current").read_text(encoding="ascii"))
        rows = (line.split() for line in (folder / "memory.stat").read_text(encoding="ascii").splitlines())
        cached = next((int(value) for name, value in rows if name == "inactive_file"), 0)  # is freed when needed
        return max(0, int(limit) - used + cached)
    except (OSError, ValueError):
        return None
