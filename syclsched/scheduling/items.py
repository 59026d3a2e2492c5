# SPDX-License-Identifier: Apache-2.0
"""Items: the successive values of each array, traced through the tasks that read and write them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from syclsched.model.access import Access, AccessMode
from syclsched.scheduling.rows import Columns
from syclsched.scheduling.tables import NOTHING, Ints


class Items(NamedTuple):
    """Result of `follow_items`: names of arrays, and the array of each item."""

    arrays: tuple[str, ...]
    item_array: Ints
    columns: Columns  # the item columns of `Tables`


def follow_items(
    accesses: Sequence[Sequence[Access]],
    nbytes: Mapping[str, float],
    placed: Mapping[str, int],
    wanted: Mapping[str, int],
    host: int,
) -> Items:
    """Trace each array through the tasks; conflicting accesses have the same order in any topological order."""
    numbers = {name: i for i, name in enumerate(nbytes)}
    current: dict[str, int] = {}
    array_of: list[int] = []
    producer: list[int] = []
    space: list[int] = []
    read_start, read_item = [0], []
    make_start, make_item, make_replaces = [0], [], []

    def new_item(array: str, task: int) -> int:
        current[array] = item = len(array_of)
        array_of.append(numbers[array])
        producer.append(task)
        space.append(placed.get(array, host) if task == NOTHING else NOTHING)
        return item

    for task, touched in enumerate(accesses):
        for access in touched:
            array, mode = access.array, access.mode
            replaces = NOTHING
            if mode is not AccessMode.WRITE:
                found = current.get(array)
                replaces = new_item(array, NOTHING) if found is None else found
                read_item.append(replaces)
            if mode is not AccessMode.READ:
                make_item.append(new_item(array, task))
                make_replaces.append(replaces)
        read_start.append(len(read_item))
        make_start.append(len(make_item))
    want_item = [current[array] if array in current else new_item(array, NOTHING) for array in wanted]
    index = np.array(array_of, dtype=np.int64)
    columns: Columns = {
        "item_bytes": np.array(list(nbytes.values()), dtype=np.float64)[index],
        "item_producer": _ints(producer),
        "item_space": _ints(space),
        "read_start": _ints(read_start),
        "read_item": _ints(read_item),
        "make_start": _ints(make_start),
        "make_item": _ints(make_item),
        "make_replaces": _ints(make_replaces),
        "want_item": _ints(want_item),
        "want_space": _ints(list(wanted.values())),
    }
    index.flags.writeable = False
    return Items(tuple(nbytes), index, columns)


def _ints(values: Sequence[int]) -> Ints:
    return np.array(values, dtype=np.int64)
