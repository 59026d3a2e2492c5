# SPDX-License-Identifier: Apache-2.0
"""Instruction set flags of the host's processor."""

from __future__ import annotations

from pathlib import Path


def parse_flags(cpuinfo: str) -> frozenset[str]:
    """Return the flags that every processor in the text of ``/proc/cpuinfo`` has."""
    fields = (line.partition(":") for line in cpuinfo.splitlines())
    values = {value for name, _, value in fields if name.strip() == "flags"}
    return frozenset.intersection(*(frozenset(value.split()) for value in values)) if values else frozenset()


def read_flags(path: Path = Path("/proc/cpuinfo")) -> frozenset[str]:
    """Return the host processor's flags; empty if unknown."""
    try:
        return parse_flags(path.read_text(encoding="utf-8", errors="replace"))
    except OSError:
        return frozenset()
