# SPDX-License-Identifier: Apache-2.0
"""Instructions of a plan as arrays, used by the planning passes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from syclsched.model.graph_parts.access_columns import WRITES
from syclsched.planning.draft import Flags, Ints, Steps, gather_places

#: Phase of a row: an allocation before a step, the step itself, or a free after it.
ALLOC, WORK, FREE = range(3)


class Touches(NamedTuple):
    """Accesses of steps or rows: ragged, the blocks of each and whether it writes them."""

    starts: Ints
    blocks: Ints
    writes: Flags


class InstructionRows(NamedTuple):
    """One row per instruction, in global order."""

    phase: Ints  # `ALLOC`, `WORK` or `FREE`
    step: Ints  # the step itself, or the one an allocation precedes or a free follows
    memory: Ints  # the memory of an allocation or a free: index into `Draft.memory`; -1 for a step
    touched: Touches


def touches(steps: Steps) -> Touches:
    """Return the accesses of steps."""
    return Touches(steps.starts, steps.blocks, WRITES[steps.modes])


def gather(touched: Touches, order: Ints) -> Touches:
    """Return `Touches` in another order."""
    starts, places = gather_places(touched.starts, order)
    return Touches(starts, touched.blocks[places], touched.writes[places])


def without_memory(touched: Touches) -> InstructionRows:
    """Return rows of the steps only, without allocations and frees."""
    count = len(touched.starts) - 1
    return InstructionRows(np.full(count, WORK), np.arange(count), np.full(count, -1), touched)
