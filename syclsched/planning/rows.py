# SPDX-License-Identifier: Apache-2.0
"""The instructions of a plan as numbers, while the passes work on them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from syclsched.planning.steps import WRITING, Flags, Ints, Step, ragged

#: What a row is: an allocation before a step, the step itself, or a free after it.
ALLOC, WORK, FREE = range(3)


class Touches(NamedTuple):
    """What steps or rows touch: ragged, the blocks of each and whether it writes them."""

    starts: Ints
    blocks: Ints
    writes: Flags


class Rows(NamedTuple):
    """One row per instruction, in global order.

    Parameters
    ----------
    phase : ndarray of int64
        `ALLOC`, `WORK` or `FREE`.
    step : ndarray of int64
        The step it is, or stands beside.
    block : ndarray of int64
        The block of an allocation or a free; -1 for a step.
    touched : Touches
        What it touches.
    """

    phase: Ints
    step: Ints
    block: Ints
    touched: Touches


def touches(steps: Sequence[Step]) -> Touches:
    """Return what steps touch.

    Parameters
    ----------
    steps : sequence of Step
        In any order.
    """
    starts, blocks = ragged([s.blocks for s in steps])
    return Touches(starts, blocks, np.array([WRITING[id(u.mode)] for s in steps for u in s.uses], np.bool_))


def gather(touched: Touches, order: Ints) -> Touches:
    """Return the rows of `Touches` in another order.

    Parameters
    ----------
    touched : Touches
        Rows.
    order : ndarray of int64
        Which of them, in which order.
    """
    length = np.diff(touched.starts)[order]
    starts = np.zeros(len(order) + 1, np.int64)
    np.cumsum(length, out=starts[1:])
    place = np.arange(starts[-1]) + np.repeat(touched.starts[order] - starts[:-1], length)
    return Touches(starts, touched.blocks[place], touched.writes[place])


def without_memory(touched: Touches) -> Rows:
    """Return rows of steps only.

    Parameters
    ----------
    touched : Touches
        What the steps touch.
    """
    count = len(touched.starts) - 1
    return Rows(np.full(count, WORK), np.arange(count), np.full(count, -1), touched)
