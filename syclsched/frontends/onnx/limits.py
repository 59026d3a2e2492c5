# SPDX-License-Identifier: Apache-2.0
"""How large a model, and what it makes before it runs, may be."""

from __future__ import annotations

import os
from dataclasses import dataclass, field


def _memory() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


@dataclass(frozen=True, slots=True)
class ModelLimits:
    """What is refused as too large, with the sizes, before memory is asked for."""

    #: The model's file, and any one array: what this machine has, by default.
    memory_bytes: int = field(default_factory=_memory)
    #: An array computed from constants while the model is read (by Expand, Tile, Range, ...).
    folded_bytes: int = 1 << 30
    nodes: int = 200_000  # nodes, after functions were inlined and loops of known length unrolled
    dimensions: int = 32  # dimensions of an array
