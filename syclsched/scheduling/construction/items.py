# SPDX-License-Identifier: Apache-2.0
"""Items: the successive values of each array, traced through the tasks that read and write them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from syclsched.model.graph_parts.access_columns import READS, WRITES, AccessColumns
from syclsched.scheduling.rows import Columns
from syclsched.scheduling.tables import NOTHING, Ints


class Items(NamedTuple):
    """Result of `follow_items`: names of arrays, and the array of each item."""

    arrays: tuple[str, ...]
    item_array: Ints
    columns: Columns  # the item columns of `Tables`


def follow_items(
    accesses: AccessColumns,
    nbytes: Mapping[str, float],
    placed: Mapping[str, int],
    wanted: Mapping[str, int],
    host: int,
) -> Items:
    """Trace each array through the tasks; conflicting accesses have the same order in any topological order."""
    numbers, count = {name: i for i, name in enumerate(nbytes)}, len(accesses.array)
    reads, writes, task = READS[accesses.mode], WRITES[accesses.mode], accesses.tasks()
    # The accesses of each array, one after another.
    order = np.argsort(accesses.array, kind="stable")
    array = accesses.array[order]
    first = np.ones(count, np.bool_)
    first[1:] = array[1:] != array[:-1]
    # An access makes up to two items, numbered in order of access: the input, if it is the first, and a new value.
    given = np.zeros(count, np.bool_)
    given[order[first]] = reads[order[first]]
    items = np.concatenate(([0], np.cumsum(given.astype(np.int64) + writes)))
    made = items[:-1] + given
    # The item before each access: what the last access that made one made, or else the input.
    held = np.where(writes, made, items[:-1])[order]
    latest = np.maximum.accumulate(np.where(writes[order] | first, np.arange(count), 0))
    before = np.where(given, items[:-1], NOTHING)
    later = np.flatnonzero(~first)
    before[order[later]] = held[latest[later - 1]]
    current = np.full(len(accesses.names), NOTHING)
    current[accesses.array[order]] = held[latest]  # of equal indices, the last counts
    new = [name for name in wanted if name not in set(accesses.names)]
    item_array, producer = np.empty(items[-1], np.int64), np.full(items[-1] + len(new), NOTHING)
    item_array[items[:-1][given]] = accesses.array[given]
    item_array[made[writes]] = accesses.array[writes]
    producer[made[writes]] = task[writes]
    number = np.array([numbers[name] for name in accesses.names], np.int64)
    index = np.concatenate((number[item_array], _ints([numbers[name] for name in new])))
    place = np.full(len(numbers), host)
    for name, space in placed.items():
        place[numbers[name]] = space
    item_of = dict(zip(accesses.names, current.tolist(), strict=True)) | {
        name: int(items[-1]) + n for n, name in enumerate(new)
    }
    columns: Columns = {
        "item_bytes": np.array(list(nbytes.values()), dtype=np.float64)[index],
        "item_producer": producer,
        "item_space": np.where(producer == NOTHING, place[index], NOTHING),
        "read_start": np.concatenate(([0], np.cumsum(reads)))[accesses.starts],
        "read_item": before[reads],
        "make_start": np.concatenate(([0], np.cumsum(writes)))[accesses.starts],
        "make_item": made[writes],
        "make_replaces": np.where(reads, before, NOTHING)[writes],
        "want_item": _ints([item_of[name] for name in wanted]),
        "want_space": _ints(list(wanted.values())),
    }
    index.flags.writeable = False
    return Items(tuple(nbytes), index, columns)


def _ints(values: Sequence[int]) -> Ints:
    return np.array(values, dtype=np.int64)
