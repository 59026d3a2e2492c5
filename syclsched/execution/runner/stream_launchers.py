# SPDX-License-Identifier: Apache-2.0
"""Launchers of a stream's plan instances: staged submission to shared lanes, or one dispatcher per instance."""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Mapping
from typing import Protocol, TypeVar

from syclsched.devices.memory.resident_array import InputValue
from syclsched.errors import MemoryLimitError
from syclsched.execution.core.stall_timeout import CHECK_INTERVAL_S
from syclsched.execution.handle.run import Run
from syclsched.execution.lanes.eventfd_wakeup import EventFd
from syclsched.execution.replay.end_watch import PolledEndWatch
from syclsched.execution.replay.instance_pool import InstancePool
from syclsched.execution.replay.replay import Replay
from syclsched.execution.runner.stream_rounds import Rounds
from syclsched.model.platform import Platform
from syclsched.model.text.units import format_bytes

#: Creates the run of an engine.
MakeRun = Callable[[Replay, dict[str, InputValue]], Run]


RunT = TypeVar("RunT")


class InstanceLauncher(Protocol[RunT]):
    """Starts plan instances, and waits for them."""

    def begin(self, values: dict[str, InputValue]) -> RunT:
        """Start an instance, and submit the next stage of each earlier one."""

    def submit_rest(self, run: RunT) -> None:
        """Submit the remaining stages of an instance; the other instances advance with it."""

    def submit_all(self) -> None:
        """Submit the remaining stages of all instances."""

    def wait(self, run: RunT) -> None:
        """Wait for the end of a run, with or without an error."""

    async def wait_async(self, run: RunT) -> None:
        """Wait for the end of a run in a coroutine."""


class StagedLauncher:
    """Replays on shared lanes; an instance reuses the memory of the one ``in_flight`` starts before it."""

    def __init__(
        self, instances: InstancePool, rounds: Rounds, in_flight: int, record: bool, make_run: MakeRun
    ) -> None:
        self._generations = instances.generations[:in_flight]
        if rounds.stages > 1:  # with a single stage, joined launches are kept
            for generation in self._generations:
                generation.set_submission_order(rounds.order)
        self._rounds = rounds
        self._record = record
        self._make_run = make_run
        self._alarm = EventFd()
        weakref.finalize(self, self._alarm.close).atexit = False
        self._begun = 0
        #: Next stage of each instance that is not completely submitted.
        self._active: dict[Replay, int] = {}
        self._replays: weakref.WeakKeyDictionary[Run, Replay] = weakref.WeakKeyDictionary()

    def begin(self, values: dict[str, InputValue]) -> Run:
        """Start an instance, and submit the next stage of each earlier one."""
        generation = self._generations[self._begun % len(self._generations)]
        in_flight = len(self._generations)
        watch = PolledEndWatch(self._alarm, self._all_replays)
        replay = generation.replay(values, record=self._record, polled=watch, in_flight=in_flight)
        run = self._make_run(replay, values)
        self._begun += 1
        self._active[replay] = 0
        self._replays[run] = replay
        try:
            self._round()
        except BaseException:
            for active in self._active:
                active.cancel()
            raise
        return run

    def submit_rest(self, run: Run) -> None:
        """Submit the remaining stages of an instance; the other instances advance with it."""
        while self._replays.get(run) in self._active:
            self._round()

    def submit_all(self) -> None:
        """Submit the remaining stages of all instances."""
        while self._active:
            self._round()

    def wait(self, run: Run) -> None:
        """Wait for the end of a run, with or without an error."""
        replay, begun_s, stall_detector = self._replays[run], time.perf_counter(), run.waits()
        while not (replay.end_if_complete() or run.done()):
            self._alarm.sleep(begun_s, replay.watch.signals)
            stall_detector.check()
        run.join()

    async def wait_async(self, run: Run) -> None:
        """Wait for the end of a run in a coroutine."""
        replay, begun_s, stall_detector = self._replays[run], time.perf_counter(), run.waits()
        while not (replay.end_if_complete() or run.done()):
            await self._alarm.sleep_async(begun_s, replay.watch.signals)
            stall_detector.check()
        await _wait_ended(run)

    def _all_replays(self) -> tuple[Replay, ...]:
        """Return all replays; callable on any thread."""
        while True:
            try:
                return tuple(self._replays.values())
            except RuntimeError:  # the dictionary changed during iteration: a replay was added or dropped
                continue

    def _round(self) -> None:
        replay_at = {stage: replay for replay, stage in self._active.items()}
        for stage, end in self._rounds.pieces:
            if stage in replay_at:
                replay_at[stage].submit_until(end)
        self._active = {r: stage + 1 for r, stage in self._active.items() if stage + 1 < self._rounds.stages}
        for replay in self._active:
            replay.wait_on_worker()


class DispatchedLauncher:
    """One dispatcher per instance, for plans that cannot be replayed."""

    def __init__(self, start: Callable[[dict[str, InputValue]], Run]) -> None:
        self._start = start

    def begin(self, values: dict[str, InputValue]) -> Run:
        """Start an instance."""
        return self._start(values)

    def submit_rest(self, run: Run) -> None:
        """Do nothing: a dispatcher submits everything by itself."""

    def submit_all(self) -> None:
        """Do nothing: a dispatcher submits everything by itself."""

    def wait(self, run: Run) -> None:
        """Wait for the end of a run, with or without an error."""
        run.join()

    async def wait_async(self, run: Run) -> None:
        """Wait for the end of a run in a coroutine."""
        await _wait_ended(run)


async def _wait_ended(run: Run) -> None:
    """Wait for the end of a run in a coroutine; give it up if it stalls."""
    if run.done():
        return
    import asyncio  # imports fifty modules, which only coroutines need

    ended, stall_detector = asyncio.get_running_loop().create_future(), run.waits()
    run.settle(ended)
    while not ended.done():
        await asyncio.wait([ended], timeout=CHECK_INTERVAL_S)
        stall_detector.check()


def most_in_flight(platform: Platform, nbytes: Mapping[str, int]) -> tuple[int | None, str]:
    """Return the number of instances that fit in memory (None: no limit), and the limiting memory space."""
    fits = [
        (place.capacity_bytes // nbytes[place.name], place.name)
        for place in platform.spaces
        if place.capacity_bytes > 0 and nbytes.get(place.name)
    ]
    return min(fits, default=(None, ""))


def check_stream_memory(platform: Platform, nbytes: Mapping[str, int], in_flight: int, name: str) -> None:
    """Raise if the instances do not fit in memory."""
    most, space = most_in_flight(platform, nbytes)
    if most is not None and in_flight > most:
        raise MemoryLimitError(
            f"{in_flight} generations need {format_bytes(in_flight * nbytes[space])} "
            f"({format_bytes(nbytes[space])} each), and {space!r} has "
            f"{format_bytes(platform.space(space).capacity_bytes)}",
            where=f"stream of plan {name!r}",
            hint=f"in_flight={most} fits" if most else "Not even one fits: plan for less memory",
        )
