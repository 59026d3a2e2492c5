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
    """One row per instruction, in global order.

    Parameters
    ----------
    phase : ndarray of int64
        `ALLOC`, `WORK` or `FREE`.
    step : ndarray of int64
        The step it is, or stands beside.
    memory : ndarray of int64
        The memory of an allocation or a free: index into `Draft.memory`; -1 for a step.
    touched : Touches
        What it touches.
    """

    phase: Ints
    step: Ints
    memory: Ints
    touched: Touches


def touches(steps: Steps) -> Touches:
    """Return what steps touch.

    Parameters
    ----------
    steps : Steps
        In any order.
    """
    return Touches(steps.starts, steps.blocks, _WRITES[steps.modes])


def gather(touched: Touches, order: Ints) -> Touches:
    """Return the rows of `Touches` in another order.

    Parameters
    ----------
    touched : Touches
        Rows.
    order : ndarray of int64
        Which of them, in which order.
    """
    starts, places = gather_places(touched.starts, order)
    return Touches(starts, touched.blocks[places], touched.writes[places])


def without_memory(touched: Touches) -> Rows:
    """Return rows of steps only.

    Parameters
    ----------
    touched : Touches
        What the steps touch.
    """
    count = len(touched.starts) - 1
    return Rows(np.full(count, WORK), np.arange(count), np.full(count, -1), touched)
