# SPDX-License-Identifier: Apache-2.0
"""The number of random examples of a property: a third of it by default, all of it with ``--all-cases``."""

from __future__ import annotations

_share = 1 / 3


def use_all_examples() -> None:
    """Have properties that are defined from now on try all their examples."""
    global _share
    _share = 1.0


def examples(count: int) -> int:
    """Return how many of ``count`` examples are tried."""
    return max(round(_share * count), min(count, 3))
