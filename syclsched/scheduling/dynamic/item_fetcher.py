# SPDX-License-Identifier: Apache-2.0
"""Locations of items during a run, and the copies that move them."""

from __future__ import annotations

import math

import numpy as np

from syclsched.scheduling.dynamic.policy_state import PolicyState
from syclsched.scheduling.dynamic.static_info import rows
from syclsched.scheduling.problem import Problem
from syclsched.scheduling.tables import NOTHING, Floats
from syclsched.scheduling.timetable import Copies


class Fetcher:
    """Keeps `State.where` and `State.origin` up to date, by the rules of the model.

    Every copy starts at its item's origin. Without channels a copy only takes its own time; with channels it waits
    until they are free, in the order of requests.
    """

    def __init__(
        self,
        problem: Problem,
        state: PolicyState,
        *,
        copy_factor: Floats | None = None,
        follows_results: bool = False,
    ) -> None:
        tables = problem.tables
        self.lost: set[int] = set()
        self._factor = [1.0] * len(tables.item_bytes) if copy_factor is None else copy_factor.tolist()
        self._follows_results = follows_results
        self._state, self._has_channels = state, problem.has_channels
        self._channel = tables.channel.tolist()
        self._channel_free_s: dict[int, float] = {}
        self._makes = rows(tables.make_start, tables.make_item)
        self._replaces = rows(tables.make_start, tables.make_replaces)
        self._inputs = [(i, space) for i, space in enumerate(tables.item_space.tolist()) if space != NOTHING]
        self._wanted: dict[int, list[int]] = {}
        #: Without channels, copies of results affect nothing else: origin and arrival, by item and space.
        self._sent: dict[int, dict[int, tuple[int, float]]] = {}
        for item, space in zip(tables.want_item.tolist(), tables.want_space.tolist(), strict=True):
            self._wanted.setdefault(item, []).append(space)
        self._planned_readers = self._devices_by_plan(tables.item_producer.shape[0])
        self._copies: list[tuple[int, int, int, float, float]] = []

    def begin(self) -> None:
        """Record the locations of the inputs."""
        for item, space in self._inputs:
            self._add_made(item, space)

    def made_by(self, task: int, device: int) -> None:
        """Record the items that a task has made on a device, and copy them to where they are wanted."""
        reached = self._reached(device)
        for item, replaced in zip(self._makes[task], self._replaces[task], strict=True):
            self._add_made(item, reached[0] if replaced == NOTHING else self._read_in(replaced, reached))

    def fetch(self, task: int, device: int) -> None:
        """Copy the missing inputs of a task to a device."""
        for item in self._state.known.reads[task]:
            self._copy_to_device(item, device)

    def ready_s(self, task: int, device: int) -> float:
        """Return when all inputs of a task are on a device, after `fetch`; not before now."""
        return max(self._state.now_s, self.available_s(task, device))

    def available_s(self, task: int, device: int) -> float:
        """Return when the last input of a task arrived or arrives on a device; infinity if one is missing."""
        known, last_s = self._state.known, 0.0
        for item in known.reads[task]:
            locations = self._state.where[item]
            last_s = max(last_s, min([locations.get(space, math.inf) for space in known.reaches[device]]))
        return last_s

    def results_s(self) -> float:
        """Return when all wanted results are in their spaces; infinity if some never will be."""
        wanted = [(item, space) for item, spaces in self._wanted.items() for space in spaces]
        return max([self._result_s(item).get(space, math.inf) for item, space in wanted], default=0.0)

    def arrivals_s(self) -> list[float]:
        """Return the arrivals of wanted results in their spaces, without those that never arrive."""
        wanted = [(item, space) for item, spaces in self._wanted.items() for space in spaces]
        return [self._result_s(item)[space] for item, space in wanted if space in self._result_s(item)]

    def lost_results(self) -> set[int]:
        """Return the items that were made and are wanted, but will never be where they are wanted."""
        made = self._state.origin
        away = {i for i, spaces in self._wanted.items() if not all(space in self._result_s(i) for space in spaces)}
        return {item for item in away if made[item] != NOTHING or item in self.lost}

    def is_lost(self, task: int) -> bool:
        """Return whether an input of a task is lost."""
        return any(item in self.lost for item in self._state.known.reads[task])

    def lose_updates(self, task: int, device: int) -> None:
        """Record that a running task was stopped: arrays that it updates in place are lost there."""
        reached = self._reached(device)
        for replaced in self._replaces[task]:
            if replaced != NOTHING and self._state.origin[replaced] != NOTHING:
                self._remove_from(replaced, self._read_in(replaced, reached))

    def lose(self, space: int) -> None:
        """Record that a space is lost now, with its items and the unfinished copies from or to it."""
        state = self._state
        state.lost_spaces.add(space)
        kept = []
        for made in self._copies:
            item, source, destination, _, end_s = made
            if end_s > state.now_s and space in (source, destination):
                state.where[item].pop(destination, None)
            else:
                kept.append(made)
        self._copies = kept
        for item in range(len(state.where)):
            self._remove_from(item, space)
        self._channel_free_s = {}
        for _, source, destination, _, end_s in kept:
            for channel in self._channel[source][destination]:
                if channel != NOTHING:
                    self._channel_free_s[channel] = max(end_s, self._channel_free_s.get(channel, 0.0))
        for item in self._wanted:
            sent = self._sent.get(item, {})
            for wanted, (source, end_s) in tuple(sent.items()):
                if wanted == space or (source == space and end_s > state.now_s):
                    del sent[wanted]
            if state.origin[item] != NOTHING:
                self._send_result(item)

    def copies(self) -> Copies | None:
        """Return all copies; None without channels."""
        if not self._has_channels:
            return None
        columns = list(zip(*self._copies, strict=True)) or [()] * 5
        item, source, destination = (np.array(column, dtype=np.int64) for column in columns[:3])
        return Copies(item, source, destination, *(np.array(column, dtype=np.float64) for column in columns[3:]))

    def _devices_by_plan(self, items: int) -> list[list[int]]:
        """Return, for each item, the devices on which a plan reads it."""
        known = self._state.known
        devices_of: list[list[int]] = [[] for _ in range(items)]
        for task, processor in enumerate(known.planned or ()):
            for item in known.reads[task]:
                if known.device_of[processor] not in devices_of[item]:
                    devices_of[item].append(known.device_of[processor])
        return devices_of

    def _add_made(self, item: int, space: int) -> None:
        """Record that an item is made in a space now."""
        state = self._state
        state.origin[item] = space
        state.where[item][space] = state.now_s
        self._send_result(item)
        for device in self._planned_readers[item]:
            if device not in state.gone:
                self._copy_to_device(item, device)

    def _send_result(self, item: int) -> None:
        """Copy a result to where it is wanted, unless it is there or in flight."""
        for wanted in self._wanted.get(item, ()):
            if self._has_channels:
                self._copy(item, wanted)
            elif self._follows_results and wanted not in self._state.lost_spaces:
                end_s = self._slot(item, wanted)[1]
                if end_s < math.inf:
                    self._sent.setdefault(item, {}).setdefault(wanted, (self._state.origin[item], end_s))

    def _result_s(self, item: int) -> dict[int, float]:
        """Return the spaces that have a result, or will, with its arrival times."""
        if self._has_channels:
            return self._state.where[item]
        return {space: end_s for space, (_, end_s) in self._sent.get(item, {}).items()}

    def _remove_from(self, item: int, space: int) -> None:
        """Remove an item from a space; later copies start where it has been longest."""
        locations = self._state.where[item]
        locations.pop(space, None)
        if self._state.origin[item] == space:
            self._state.origin[item] = min(locations, key=lambda s: (locations[s], s), default=NOTHING)
            if not locations:
                self.lost.add(item)

    def _reached(self, device: int) -> tuple[int, ...]:
        """Return the spaces that a device reaches and that are not lost, its home first."""
        reached = self._state.known.reaches[device]
        if not self._state.lost_spaces:
            return reached
        return tuple([space for space in reached if space not in self._state.lost_spaces])

    def _copy_to_device(self, item: int, device: int) -> None:
        """Copy an item to the space of a device in which it arrives first, if it is in none of them yet."""
        state = self._state
        reached = self._reached(device)
        if state.origin[item] == NOTHING or not state.where[item].keys().isdisjoint(reached):
            return
        ends = [self._slot(item, space)[1] for space in reached]
        first = min(range(len(reached)), key=ends.__getitem__)
        if ends[first] < math.inf:
            self._copy(item, reached[first])

    def _slot(self, item: int, space: int) -> tuple[float, float]:
        """Return start and end of a copy of an item to a space, if it were requested now."""
        state = self._state
        origin = state.origin[item]
        begin_s = max(state.now_s, state.where[item][origin])
        if state.known.nbytes[item]:
            for channel in self._channel[origin][space]:
                begin_s = max(begin_s, self._channel_free_s.get(channel, 0.0))
        return begin_s, begin_s + state.known.copy_s(item, origin, space) * self._factor[item]

    def _copy(self, item: int, space: int) -> None:
        """Copy an item to a space, unless it is there or in flight."""
        state = self._state
        if space in state.where[item] or space in state.lost_spaces:
            return
        start_s, end_s = self._slot(item, space)
        if end_s == math.inf:
            return  # no route
        state.where[item][space] = end_s
        if state.known.nbytes[item]:
            origin = state.origin[item]
            self._copies.append((item, origin, space, start_s, end_s))
            for channel in self._channel[origin][space]:
                if channel != NOTHING:
                    self._channel_free_s[channel] = end_s

    def _read_in(self, item: int, reached: tuple[int, ...]) -> int:
        """Return the space in which a device reads an item that it overwrites; the new value will be there."""
        state = self._state
        origin = state.origin[item]
        if origin in reached:
            return origin
        if self._has_channels and state.known.nbytes[item]:
            locations = state.where[item]
            return min(reached, key=lambda space: locations.get(space, math.inf))
        return min(reached, key=lambda space: state.known.copy_s(item, origin, space))
