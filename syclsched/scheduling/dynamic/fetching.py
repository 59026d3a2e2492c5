# SPDX-License-Identifier: Apache-2.0
"""Where items are during a run, and the copies that bring them elsewhere."""

from __future__ import annotations

import math

import numpy as np

from syclsched.scheduling.dynamic.known import rows
from syclsched.scheduling.dynamic.state import State
from syclsched.scheduling.problem import Problem
from syclsched.scheduling.tables import NOTHING
from syclsched.scheduling.timetable import Copies


class Fetcher:
    """Keeps `State.where` and `State.origin`, by the rules of the model.

    Every copy is made from where its item was made. Without channels a copy lasts its time alone; with channels it
    waits until they are free, in the order of requests.

    Parameters
    ----------
    problem : Problem
        What is run.
    state : State
        Its run; changed here as far as it concerns items.
    """

    def __init__(self, problem: Problem, state: State) -> None:
        tables = problem.tables
        self._state, self._has_channels = state, problem.has_channels
        self._channel = tables.channel.tolist()
        self._channel_free_s: dict[int, float] = {}
        self._makes = rows(tables.make_start, tables.make_item)
        self._replaces = rows(tables.make_start, tables.make_replaces)
        self._inputs = [(i, space) for i, space in enumerate(tables.item_space.tolist()) if space != NOTHING]
        self._wanted: dict[int, list[int]] = {}
        for item, space in zip(tables.want_item.tolist(), tables.want_space.tolist(), strict=True):
            self._wanted.setdefault(item, []).append(space)
        self._goals = self._planned_devices(tables.item_producer.shape[0])
        self._copies: list[tuple[int, int, int, float, float]] = []

    def begin(self) -> None:
        """Note what is there from the start."""
        for item, space in self._inputs:
            self._appear(item, space)

    def made_by(self, task: int, device: int) -> None:
        """Note the items that a task has made on a device, and bring them to where they are wanted."""
        reached = self._state.known.reaches[device]
        for item, replaced in zip(self._makes[task], self._replaces[task], strict=True):
            self._appear(item, reached[0] if replaced == NOTHING else self._read_in(replaced, reached))

    def fetch(self, task: int, device: int) -> None:
        """Bring what a task reads, and a device has not, to the device."""
        for item in self._state.known.reads[task]:
            self._bring(item, device)

    def ready_s(self, task: int, device: int) -> float:
        """Return when all that a task reads is on a device, after `fetch`; not before now."""
        known, last_s = self._state.known, self._state.now_s
        for item in known.reads[task]:
            there = self._state.where[item]
            last_s = max(last_s, min([there.get(space, math.inf) for space in known.reaches[device]]))
        return last_s

    def copies(self) -> Copies | None:
        """Return the copies that were made; None where there are no channels."""
        if not self._has_channels:
            return None
        columns = list(zip(*self._copies, strict=True)) or [()] * 5
        item, source, destination = (np.array(column, dtype=np.int64) for column in columns[:3])
        return Copies(item, source, destination, *(np.array(column, dtype=np.float64) for column in columns[3:]))

    def _planned_devices(self, items: int) -> list[list[int]]:
        """Return for each item the devices on which a plan has it read."""
        known = self._state.known
        goals: list[list[int]] = [[] for _ in range(items)]
        for task, processor in enumerate(known.planned or ()):
            for item in known.reads[task]:
                if known.device_of[processor] not in goals[item]:
                    goals[item].append(known.device_of[processor])
        return goals

    def _appear(self, item: int, space: int) -> None:
        """Note that an item is made in a space now."""
        state = self._state
        state.origin[item] = space
        state.where[item][space] = state.now_s
        for wanted in self._wanted.get(item, ()):
            if self._has_channels:  # else it needs no decision
                self._copy(item, wanted)
        for device in self._goals[item]:
            self._bring(item, device)

    def _bring(self, item: int, device: int) -> None:
        """Copy an item to the space that a device reaches in which it will be first, if it is in none of them yet."""
        state = self._state
        reached = state.known.reaches[device]
        if any(space in state.where[item] for space in reached):
            return
        ends = [self._slot(item, space)[1] for space in reached]
        first = min(range(len(reached)), key=ends.__getitem__)
        if ends[first] < math.inf:
            self._copy(item, reached[first])

    def _slot(self, item: int, space: int) -> tuple[float, float]:
        """Return when a copy of an item to a space would start and end, if it were asked for now."""
        state = self._state
        origin = state.origin[item]
        begin_s = max(state.now_s, state.where[item][origin])
        if state.known.nbytes[item]:
            for channel in self._channel[origin][space]:
                begin_s = max(begin_s, self._channel_free_s.get(channel, 0.0))
        return begin_s, begin_s + state.known.copy_s(item, origin, space)

    def _copy(self, item: int, space: int) -> None:
        """Copy an item to a space, unless it is there or on its way."""
        state = self._state
        if space in state.where[item]:
            return
        start_s, end_s = self._slot(item, space)
        state.where[item][space] = end_s
        if state.known.nbytes[item]:
            origin = state.origin[item]
            self._copies.append((item, origin, space, start_s, end_s))
            for channel in self._channel[origin][space]:
                if channel != NOTHING:
                    self._channel_free_s[channel] = end_s

    def _read_in(self, item: int, reached: tuple[int, ...]) -> int:
        """Return the space in which a device reads an item that it overwrites: where the new value will lie."""
        state = self._state
        origin = state.origin[item]
        if origin in reached:
            return origin
        if self._has_channels and state.known.nbytes[item]:
            there = state.where[item]
            return min(reached, key=lambda space: there.get(space, math.inf))
        return min(reached, key=lambda space: state.known.copy_s(item, origin, space))
