# SPDX-License-Identifier: Apache-2.0
"""Locations and arrival times of items, derived from a finished timetable by the definition of the model.

For validation and metrics. It shares no code with the policies, which track locations themselves while scheduling.
"""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np

from syclsched.scheduling.tables import NOTHING, Floats, Ints, Tables
from syclsched.scheduling.timetable import Copies, Timetable


class DataLocations:
    """Origins of all items under a timetable, and the times at which other spaces can have them."""

    def __init__(self, tables: Tables, timetable: Timetable) -> None:
        self._tables = tables
        listed = timetable.copies if (tables.channel != NOTHING).any() else None
        self._copied = None if listed is None else _FirstCopies(listed, len(tables.capacity_bytes))
        device = tables.processor_device[timetable.processor]
        made = tables.item_producer != NOTHING
        producer = tables.item_producer[made]
        self.origin = tables.item_space.copy()
        self.origin[made] = tables.reach_space[tables.reach_start[device[producer]]]
        self.made_s = np.zeros(len(made))
        self.made_s[made] = timetable.finish_s[producer]
        self._follow_updates(device)

    def ready_s(self, item: Ints, space: Ints) -> Floats:
        """Return the times at which items can be read in spaces."""
        tables = self._tables
        source, nbytes = self.origin[item], tables.item_bytes[item]
        if self._copied is not None:
            elsewhere_s = self._copied.finish_s(item, space)
        else:
            copy_s = tables.latency_s[source, space] + nbytes * tables.s_per_byte[source, space]
            elsewhere_s = self.made_s[item] + copy_s
        return np.where((source == space) | (nbytes == 0.0), self.made_s[item], elsewhere_s)

    def ready_on(self, item: Ints, device: Ints) -> Floats:
        """Return the times at which devices can read items, in the reachable space that has each item first."""
        tables = self._tables
        width = np.diff(tables.reach_start)
        ready_s = np.full(len(item), math.inf)
        for rank in range(int(width.max(initial=0))):
            has = np.flatnonzero(width[device] > rank)
            space = tables.reach_space[tables.reach_start[device[has]] + rank]
            ready_s[has] = np.minimum(ready_s[has], self.ready_s(item[has], space))
        return ready_s

    def _follow_updates(self, device: Ints) -> None:
        """Set the origin of items made by in-place updates to the space where the old value was read.

        ``make_replaces`` is in topological order, so that the origin of the old value is known.
        """
        tables = self._tables
        in_place = np.flatnonzero(tables.make_replaces != NOTHING)
        if not len(in_place):
            return
        start, spaces = tables.reach_start.tolist(), tables.reach_space.tolist()
        reached = [spaces[a:b] for a, b in pairwise(start)]
        owner = np.searchsorted(tables.make_start, in_place, side="right") - 1
        rows = zip(
            tables.make_item[in_place].tolist(),
            tables.make_replaces[in_place].tolist(),
            device[owner].tolist(),
            strict=True,
        )
        for item, old, where in rows:
            space = int(self.origin[old])
            if space not in reached[where]:
                space = self._first_of(reached[where], old)
            self.origin[item] = space

    def _first_of(self, spaces: list[int], item: int) -> int:
        """Return the space in which an item can be read first; on ties the earlier one, with home before others."""
        if len(spaces) == 1:
            return spaces[0]
        ready_s = self.ready_s(np.full(len(spaces), item), np.array(spaces))
        return spaces[int(np.argmin(ready_s))]


class _FirstCopies:
    """Earliest arrival of items in spaces, by the listed copies."""

    def __init__(self, copies: Copies, spaces: int) -> None:
        self._spaces = spaces
        key = copies.item * spaces + copies.destination
        order = np.lexsort((copies.finish_s, key))
        self._key, first = np.unique(key[order], return_index=True)
        self._finish_s = copies.finish_s[order][first]

    def finish_s(self, item: Ints, space: Ints) -> Floats:
        key = item * self._spaces + space
        if not len(self._key):
            return np.full(len(key), math.inf)
        index = np.minimum(np.searchsorted(self._key, key), len(self._key) - 1)
        return np.where(self._key[index] == key, self._finish_s[index], math.inf)
