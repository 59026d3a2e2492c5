# SPDX-License-Identifier: Apache-2.0
"""A draft's steps and memory as columns, which the passes after it work on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from syclsched.model.platform import Platform
from syclsched.planning.steps import Draft, Flags, Ints


@dataclass(frozen=True, slots=True)
class StepColumns:
    """What the passes need to know of a draft's steps and memory.

    Parameters
    ----------
    lane : ndarray of int64
        Lane of each step, as in the draft.
    copies, runs : ndarray of bool
        Whether a step is a copy, or a task that is not a barrier.
    launches : ndarray of bool
        Whether it is a launch.
    duration_s : ndarray of float64
        Seconds of each.
    nbytes : ndarray of int64
        What it copies.
    way : ndarray of int64
        For a copy, the spaces it leads from and to: the first's number times how many there are, plus the second's.
    memory_space, memory_nbytes : ndarray of int64
        Of each memory.
    """

    lane: Ints
    copies: Flags
    runs: Flags
    launches: Flags
    duration_s: NDArray[np.float64]
    nbytes: Ints
    way: Ints
    memory_space: Ints
    memory_nbytes: Ints

    def ordered(self, order: Ints) -> StepColumns:
        """Return the columns of the steps in another order."""
        return StepColumns(
            self.lane[order],
            self.copies[order],
            self.runs[order],
            self.launches[order],
            self.duration_s[order],
            self.nbytes[order],
            self.way[order],
            self.memory_space,
            self.memory_nbytes,
        )


def step_columns(draft: Draft, platform: Platform, nbytes: Mapping[str, int]) -> StepColumns:
    """Return a draft as columns.

    Parameters
    ----------
    draft : Draft
        Steps and memory.
    platform : Platform
        Its spaces.
    nbytes : Mapping[str, int]
        Size of each array.
    """
    steps, spaces = draft.steps, {s.name: n for n, s in enumerate(platform.spaces)}
    copies = np.array([s.kind == "copy" for s in steps], np.bool_)
    launches = np.array([s.kind == "launch" for s in steps], np.bool_)
    memory_space = np.array([spaces[space] for _, space in draft.memory], np.int64)
    ends = np.array([s.blocks[:2] for s in steps if s.kind == "copy"], np.int64).reshape(-1, 2)
    ends = memory_space[draft.memory_of[ends]] if len(ends) else ends
    way = np.full(len(steps), -1, np.int64)
    way[copies] = ends[:, 0] * len(spaces) + ends[:, 1]
    return StepColumns(
        np.array([s.lane for s in steps], np.int64),
        copies,
        launches | np.array([s.kind == "host" for s in steps], np.bool_),
        launches,
        np.array([s.duration_s for s in steps], np.float64),
        np.array([s.nbytes for s in steps], np.int64),
        way,
        memory_space,
        np.array([nbytes[array] for array, _ in draft.memory], np.int64),
    )
