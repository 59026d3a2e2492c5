# SPDX-License-Identifier: Apache-2.0
"""The scheduling problem as policies see it: numbers and indices, no graph, no devices.

Unrelated machines with data: a task takes a time of its own on each device, or cannot run there; it reads and makes
*items*, which are the successive values of arrays; an item lies in the memory space it was made in, and moving it to
another takes a latency and a time per byte. Copies start as soon as their item is made and do not get in each other's
way, which is the contention-free model of the list-scheduling literature.

`build_problem` makes one from a task graph, `problem_from_matrices` from the tables of a textbook.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from syclsched.model.dependencies import DependencyKind

#: Producer of an item that is there from the start; what a fresh item replaces.
NOTHING = -1


class Arc(NamedTuple):
    """One dependency, seen from one of its ends.

    Parameters
    ----------
    task : int
        The task at the other end.
    kind : str
        As in `Dependency`; data flows along ``RAW`` only.
    array : str or None
        The array that causes it.
    nbytes : float
        What flows; 0 unless ``RAW``.
    """

    task: int
    kind: DependencyKind
    array: str | None
    nbytes: float


class Item(NamedTuple):
    """One value of one array: what one task writes and later ones read.

    Parameters
    ----------
    array : str
        The array's name.
    nbytes : float
        Its size.
    producer : int
        The task that makes it; `NOTHING` if it is there from the start, in the space ``input_space``.
    """

    array: str
    nbytes: float
    producer: int


class Product(NamedTuple):
    """An item a task makes.

    Parameters
    ----------
    item : int
        The item.
    replaces : int
        The item that is read and overwritten in place, so that the new one lies where that was read; `NOTHING` if the
        array is written afresh, in the home space of the device.
    """

    item: int
    replaces: int


@dataclass(frozen=True, slots=True)
class Problem:
    """What a policy schedules. Tasks, devices, spaces and items are indices from 0.

    Parameters
    ----------
    names : tuple of str
        Task names, in a topological order, by order of submission where free.
    submission : tuple of int
        Position of each task in the order of submission.
    priorities : tuple of int
        Larger runs earlier among equals.
    devices : tuple of str
        Device names, in the platform's order.
    processors : tuple of (int, int)
        (device, lane), by device.
    spaces : tuple of str
        Names of the memory spaces.
    reaches : tuple of tuple of int
        For each device the spaces it can address, its home first.
    seconds : ndarray of float64, shape (tasks, devices)
        Time of each task on each device, in seconds; infinity where it cannot run. Barriers take no time anywhere.
    implementations : tuple of tuple of (str or None)
        For each task and device the implementation those seconds are for.
    predecessors, successors : tuple of tuple of Arc
        For each task, by rising index of the other task.
    items : tuple of Item
        The values of arrays.
    reads : tuple of tuple of int
        For each task the items it needs.
    makes : tuple of tuple of Product
        For each task the items it makes.
    copy_latency_s, copy_s_per_byte : tuple of tuple of float
        What a copy takes from one space (first index) to another: latency, and seconds per byte. A latency of
        infinity says that there is no way. Zero within one space. Nothing to copy takes no time.
    input_space : int
        Where items without producer lie.
    """

    names: tuple[str, ...]
    submission: tuple[int, ...]
    priorities: tuple[int, ...]
    devices: tuple[str, ...]
    processors: tuple[tuple[int, int], ...]
    spaces: tuple[str, ...]
    reaches: tuple[tuple[int, ...], ...]
    seconds: npt.NDArray[np.float64]
    implementations: tuple[tuple[str | None, ...], ...]
    predecessors: tuple[tuple[Arc, ...], ...]
    successors: tuple[tuple[Arc, ...], ...]
    items: tuple[Item, ...]
    reads: tuple[tuple[int, ...], ...]
    makes: tuple[tuple[Product, ...], ...]
    copy_latency_s: tuple[tuple[float, ...], ...]
    copy_s_per_byte: tuple[tuple[float, ...], ...]
    input_space: int = 0

    def __len__(self) -> int:
        return len(self.names)

    def copy_seconds(self, nbytes: float, source: int, destination: int) -> float:
        """Return the seconds to copy ``nbytes`` from one space to another; infinity if there is no way."""
        if source == destination or not nbytes:
            return 0.0
        return self.copy_latency_s[source][destination] + nbytes * self.copy_s_per_byte[source][destination]

    def mean_copy_line(self) -> tuple[float, float]:
        """Return latency and seconds per byte of a copy, as means over pairs of different home spaces.

        Returns
        -------
        (float, float)
            Zeros if all devices have one home, or no home can be reached from another.
        """
        homes = sorted({reached[0] for reached in self.reaches})
        pairs = [(a, b) for a in homes for b in homes if a != b and math.isfinite(self.copy_latency_s[a][b])]
        if not pairs:
            return 0.0, 0.0
        return (
            sum(self.copy_latency_s[a][b] for a, b in pairs) / len(pairs),
            sum(self.copy_s_per_byte[a][b] for a, b in pairs) / len(pairs),
        )
