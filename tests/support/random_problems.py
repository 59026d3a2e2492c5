# SPDX-License-Identifier: Apache-2.0
"""Random scheduling problems with all features of the model: shared spaces, lanes, updates, channels, releases."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TypeVar

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st

from syclsched.scheduling.problem import NOTHING, Problem
from syclsched.scheduling.rows import arcs
from syclsched.scheduling.tables import Ints, Tables, frozen

_T = TypeVar("_T")

READ, WRITE, UPDATE = range(3)

#: Up to two different channels.
CHANNELS = [(one, other) for one in range(NOTHING, 3) for other in range(NOTHING, 3) if one != other or one == NOTHING]


def build(
    seconds: Sequence[Sequence[float]],
    reach: Sequence[Sequence[int]],
    nbytes: Sequence[float],
    placed: Sequence[int],
    accesses: Sequence[Mapping[int, int]],
    latency: npt.ArrayLike,
    s_per_byte: npt.ArrayLike,
    *,
    lanes: Sequence[int] | None = None,
    channel: npt.ArrayLike | None = None,
    wishes: Sequence[tuple[int, int]] = (),
    edges: Sequence[tuple[int, int]] = (),
    release_s: Sequence[float] | None = None,
    priority: Sequence[int] | None = None,
    submission: Sequence[int] | None = None,
) -> Problem:
    """Build a problem of tasks that access arrays; ``channel`` is one pair for all links, or an array of pairs."""
    tasks, devices, spaces = len(accesses), len(reach), len(np.asarray(latency))
    lanes = [1] * devices if lanes is None else lanes
    followed = _Items(nbytes, placed)
    for modes in accesses:
        followed.add(modes)
    flows = [*followed.dependencies, *((a, b, 0.0) for a, b in edges)]
    ends = np.array([flow[:2] for flow in flows], dtype=np.int64).reshape(len(flows), 2)
    channels = np.full((spaces, spaces, 2), NOTHING)
    if channel is not None:
        channels[:] = channel
        channels[np.arange(spaces), np.arange(spaces)] = NOTHING
    tables = Tables(
        seconds=np.array(seconds),
        kind=np.arange(tasks),
        release_s=np.array([0.0] * tasks if release_s is None else release_s),
        priority=np.array([0] * tasks if priority is None else priority),
        submission=np.array(range(tasks) if submission is None else submission),
        device_start=np.cumsum([0, *lanes]),
        processor_device=np.repeat(np.arange(devices), lanes),
        machine_start=np.array([0, devices]),
        space_machine=np.zeros(spaces, np.int64),
        **arcs(tasks, ends[:, 0], ends[:, 1], np.array([flow[2] for flow in flows], dtype=np.float64)),
        item_bytes=np.array(followed.nbytes),
        item_producer=np.array(followed.producer),
        item_space=np.array(followed.space),
        read_start=_starts(followed.reads),
        read_item=_flat(followed.reads),
        make_start=_starts(followed.makes),
        make_item=_flat(followed.makes),
        make_replaces=_flat(followed.replaces),
        reach_start=_starts(reach),
        reach_space=_flat(reach),
        latency_s=np.asarray(latency),
        s_per_byte=np.asarray(s_per_byte),
        channel=channels,
        want_item=np.array([followed.current[array] for array, _ in wishes]),
        want_space=np.array([space for _, space in wishes]),
        capacity_bytes=np.full(spaces, math.inf),
        busy_w=np.full(devices, math.nan),
        idle_w=np.full(devices, math.nan),
    )
    return Problem(
        names=tuple(f"t{i}" for i in range(tasks)),
        devices=tuple(f"d{i}" for i in range(devices)),
        lanes=tuple(lane for count in lanes for lane in range(count)),
        spaces=tuple(f"m{i}" for i in range(spaces)),
        implementation_names=(),
        implementation=np.full((tasks, devices), NOTHING, np.int16),
        arrays=(),
        item_array=np.full(len(followed.nbytes), NOTHING),
        contention="none" if channel is None else "one-port",
        tables=frozen(tables),
    )


@st.composite
def problems(
    draw: st.DrawFn,
    *,
    channels: bool,
    unreachable: bool = False,
    whole: bool = False,
    max_tasks: int = 12,
    max_devices: int = 4,
) -> Problem:
    """Draw a problem; with channels each is shared by a few links, and some links have none.

    Sums of ``whole`` seconds are exact, so equal values stay equal for every order of additions.
    """
    tasks, devices = draw(st.integers(1, max_tasks)), draw(st.integers(1, max_devices))
    spaces = draw(st.integers(1, devices))
    space = st.integers(0, spaces - 1)
    length = st.integers(0, 9).map(float) if whole else st.floats(0.0, 100.0)
    seconds = draw(_matrix(tasks, devices, st.one_of(st.sampled_from([0.0, 1.0, math.inf]), length)))
    for row in seconds:
        if not min(row) < math.inf:
            row[draw(st.integers(0, devices - 1))] = 2.0
    number = draw(st.integers(1, 5))
    array = st.integers(0, number - 1)
    modes = st.dictionaries(array, st.sampled_from([READ, WRITE, UPDATE]), max_size=3)
    pairs = draw(st.lists(st.tuples(st.integers(0, tasks - 1), st.integers(0, tasks - 1)), max_size=4))
    latencies = [0.0, 0.5, math.inf] if unreachable else [0.0, 0.5, 3.0]
    wishes = draw(st.dictionaries(array, space, max_size=0 if unreachable else 2))
    apart = 1.0 - np.eye(spaces)
    latency_s = np.array(draw(_matrix(spaces, spaces, st.sampled_from(latencies))))
    latency_s[np.diag_indices(spaces)] = 0.0
    return build(
        seconds,
        [list(dict.fromkeys([draw(space), *draw(st.lists(space, max_size=2))])) for _ in range(devices)],
        draw(st.lists(st.sampled_from([0.0, 1.0, 5.0, 30.0]), min_size=number, max_size=number)),
        draw(st.lists(space, min_size=number, max_size=number)),
        draw(st.lists(modes, min_size=tasks, max_size=tasks)),
        latency_s,
        np.array(draw(_matrix(spaces, spaces, st.sampled_from([0.0, 1.0, 0.25])))) * apart,
        lanes=draw(st.lists(st.integers(1, 3), min_size=devices, max_size=devices)),
        channel=draw(_matrix(spaces, spaces, st.sampled_from(CHANNELS))) if channels else None,
        wishes=list(wishes.items()),
        edges=[(a, b) for a, b in pairs if a < b],
        release_s=draw(st.lists(st.sampled_from([0.0, 0.0, 7.0]), min_size=tasks, max_size=tasks)),
        priority=draw(st.lists(st.integers(-1, 1), min_size=tasks, max_size=tasks)),
        submission=draw(st.permutations(range(tasks))),
    )


# --- inside ---------------------------------------------------------------------------------------


class _Items:
    """Conversion of accesses to arrays into items and dependencies."""

    def __init__(self, nbytes: Sequence[float], placed: Sequence[int]) -> None:
        self.sizes = list(nbytes)
        self.nbytes, self.producer, self.space = list(nbytes), [NOTHING] * len(nbytes), list(placed)
        self.current = list(range(len(nbytes)))
        self.writer = [NOTHING] * len(nbytes)
        self.readers: list[list[int]] = [[] for _ in nbytes]
        self.reads: list[list[int]] = []
        self.makes: list[list[int]] = []
        self.replaces: list[list[int]] = []
        self.dependencies: list[tuple[int, int, float]] = []

    def add(self, modes: Mapping[int, int]) -> None:
        """Append a task that accesses arrays, each in one mode."""
        task = len(self.reads)
        for rows in (self.reads, self.makes, self.replaces):
            rows.append([])
        for array, mode in modes.items():
            item, writer = self.current[array], self.writer[array]
            if writer != NOTHING:
                self.dependencies.append((writer, task, self.sizes[array] if mode != WRITE else 0.0))
            if mode != WRITE:
                self.reads[task].append(item)
            if mode == READ:
                self.readers[array].append(task)
                continue
            self.dependencies += [(reader, task, 0.0) for reader in self.readers[array]]
            self.readers[array], self.writer[array] = [], task
            self.current[array] = len(self.nbytes)
            self.makes[task].append(len(self.nbytes))
            self.replaces[task].append(item if mode == UPDATE else NOTHING)
            self.nbytes.append(self.sizes[array])
            self.producer.append(task)
            self.space.append(NOTHING)


def _starts(rows: Sequence[Sequence[int]]) -> Ints:
    return np.cumsum([0, *map(len, rows)])


def _flat(rows: Sequence[Sequence[int]]) -> Ints:
    return np.array([entry for row in rows for entry in row], dtype=np.int64)


def _matrix(height: int, width: int, entry: st.SearchStrategy[_T]) -> st.SearchStrategy[list[list[_T]]]:
    return st.lists(st.lists(entry, min_size=width, max_size=width), min_size=height, max_size=height)
