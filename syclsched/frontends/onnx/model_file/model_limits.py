# SPDX-License-Identifier: Apache-2.0
"""Size limits of models and of constants computed at import."""

from __future__ import annotations

import os
from dataclasses import dataclass, field


def _memory() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


@dataclass(frozen=True, slots=True)
class ModelLimits:
    """Size limits, checked before memory is allocated."""

    #: Largest model file and largest single array; by default the physical memory of this machine.
    memory_bytes: int = field(default_factory=_memory)
    #: Largest array computed by constant folding at import (Expand, Tile, Range, ...).
    folded_bytes: int = 1 << 30
    nodes: int = 200_000  # after inlining of functions and unrolling of loops
    dimensions: int = 32  # of one array
