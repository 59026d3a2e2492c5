# SPDX-License-Identifier: Apache-2.0
"""The instructions of a plan as numbers, while the passes work on them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from syclsched.planning.steps import MODES, Flags, Ints, Steps, gather_places

#: What a row is: an allocation before a step, the step itself, or a free after it.
ALLOC, WORK, FREE = range(3)

_WRITES = np.array([mode.writes for mode in MODES])


class Touches(NamedTuple):
    """What steps or rows touch: ragged, the blocks of each and whether it writes them."""

    starts: Ints
    blocks: Ints
    writes: Flags


class Rows(NamedTuple):
    """One row per instruction, in global order."""

    phase: Ints  # `ALLOC`, `WORK` or `FREE`
    step: Ints  # the step it is, or stands beside
    memory: Ints  # the memory of an allocation or a free: index into `Draft.memory`; -1 for a step
    touched: Touches  # what it touches


def touches(steps: Steps) -> Touches:
    """Return what steps touch."""
    return Touches(steps.starts, steps.blocks, _WRITES[steps.modes])


def gather(touched: Touches, order: Ints) -> Touches:
    """Return the rows of `Touches` in another order."""
    starts, places = gather_places(touched.starts, order)
    return Touches(starts, touched.blocks[places], touched.writes[places])


def without_memory(touched: Touches) -> Rows:
    """Return rows of steps only."""
    count = len(touched.starts) - 1
    return Rows(np.full(count, WORK), np.arange(count), np.full(count, -1), touched)
