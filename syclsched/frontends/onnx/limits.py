# SPDX-License-Identifier: Apache-2.0
"""How large a model, and what it makes before it runs, may be."""

from __future__ import annotations

import os
from dataclasses import dataclass, field


def _memory() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


@dataclass(frozen=True, slots=True)
class ModelLimits:
    """What is refused as too large, with the sizes, before memory is asked for.

    Parameters
    ----------
    memory_bytes : int, optional
        The model's file, and any one array: what this machine has, by default.
    folded_bytes : int, optional
        An array computed from constants while the model is read (by Expand, Tile, Range, ...).
    nodes : int, optional
        Nodes, after functions were inlined and loops of known length unrolled.
    dimensions : int, optional
        Dimensions of an array.
    """

    memory_bytes: int = field(default_factory=_memory)
    folded_bytes: int = 1 << 30
    nodes: int = 200_000
    dimensions: int = 32
