# SPDX-License-Identifier: Apache-2.0
"""Generations of a plan on their way: submitted in stages to the same lanes, or each dispatched for itself."""

from __future__ import annotations

import asyncio
import time
import weakref
from collections.abc import Callable, Mapping
from typing import Protocol

from syclsched.errors import MemoryLimitError
from syclsched.execution.buffers import NumpyArray
from syclsched.execution.patience import LOOK_S
from syclsched.execution.ring import Ring
from syclsched.execution.run import Run
from syclsched.execution.stream_replay import StagedReplay
from syclsched.execution.stream_rounds import Rounds
from syclsched.execution.stream_wake import Alarm
from syclsched.model.platform import Platform
from syclsched.model.units import format_bytes

#: Makes the run of an engine.
MakeRun = Callable[[StagedReplay, dict[str, NumpyArray]], Run]


class Flight(Protocol):
    """Starts generations."""

    def begin(self, values: dict[str, NumpyArray]) -> Run:
        """Start a generation, and let those before go on."""

    def push(self, run: Run) -> None:
        """Submit what is left of a generation, and let the others go on, though no new one begins."""

    def push_all(self) -> None:
        """Submit what is left of all."""

    def wait(self, run: Run) -> None:
        """Wait for the end of a run, however it ends."""

    async def wait_async(self, run: Run) -> None:
        """Do so in a coroutine."""


class StagedFlight:
    """Replays over the same lanes; each generation's memory is used again by the one that is ``in_flight`` later."""

    def __init__(self, ring: Ring, rounds: Rounds, in_flight: int, record: bool, make_run: MakeRun) -> None:
        self._generations = ring.generations[:in_flight]
        if rounds.stages > 1:  # as they are, launches may be joined
            for generation in self._generations:
                generation.arrange(rounds.order)
        self._rounds = rounds
        self._record = record
        self._make_run = make_run
        self._alarm = Alarm()
        weakref.finalize(self, self._alarm.close).atexit = False
        self._begun = 0
        #: Those that are not wholly submitted, with their next stage.
        self._active: dict[StagedReplay, int] = {}
        self._replays: weakref.WeakKeyDictionary[Run, StagedReplay] = weakref.WeakKeyDictionary()

    def begin(self, values: dict[str, NumpyArray]) -> Run:
        """Start a generation, and let those before go on."""
        generation = self._generations[self._begun % len(self._generations)]
        in_flight = len(self._generations)
        replay = generation.replay(values, record=self._record, kind=StagedReplay, in_flight=in_flight)
        replay.alarm = self._alarm
        replay.rivals = self._all
        run = self._make_run(replay, values)
        self._begun += 1
        self._active[replay] = 0
        self._replays[run] = replay
        try:
            self._round()
        except BaseException:
            for each in self._active:
                each.cancel()
            raise
        return run

    def push(self, run: Run) -> None:
        """Submit what is left of a generation, and let the others go on, though no new one begins."""
        while self._replays.get(run) in self._active:
            self._round()

    def push_all(self) -> None:
        """Submit what is left of all."""
        while self._active:
            self._round()

    def wait(self, run: Run) -> None:
        """Wait for the end of a run, however it ends."""
        replay, begun_s, waits = self._replays[run], time.perf_counter(), run.waits()
        while not (replay.finish() or run.done()):
            self._alarm.sleep(begun_s, replay.rings)
            waits.look()
        run.join()

    async def wait_async(self, run: Run) -> None:
        """Do so in a coroutine."""
        replay, begun_s, waits = self._replays[run], time.perf_counter(), run.waits()
        while not (replay.finish() or run.done()):
            await self._alarm.sleep_async(begun_s, replay.rings)
            waits.look()
        await _ended(run)

    def _all(self) -> tuple[StagedReplay, ...]:
        """Return all there are; for any thread."""
        while True:
            try:
                return tuple(self._replays.values())
            except RuntimeError:  # another one begins, or is dropped: the watchdog must not lose sight of them for that
                continue

    def _round(self) -> None:
        at = {stage: replay for replay, stage in self._active.items()}
        for stage, end in self._rounds.pieces:
            if stage in at:
                at[stage].submit_until(end)
        self._active = {r: stage + 1 for r, stage in self._active.items() if stage + 1 < self._rounds.stages}
        for replay in self._active:
            replay.lend()


class DispatchedFlight:
    """Generations that are watched over, each by a dispatcher of its own."""

    def __init__(self, start: Callable[[dict[str, NumpyArray]], Run]) -> None:
        self._start = start

    def begin(self, values: dict[str, NumpyArray]) -> Run:
        """Start a generation."""
        return self._start(values)

    def push(self, run: Run) -> None:
        """Do nothing: dispatchers go on by themselves."""

    def push_all(self) -> None:
        """Do nothing: dispatchers go on by themselves."""

    def wait(self, run: Run) -> None:
        """Wait for the end of a run, however it ends."""
        run.join()

    async def wait_async(self, run: Run) -> None:
        """Do so in a coroutine."""
        await _ended(run)


async def _ended(run: Run) -> None:
    """Wait for the end of a run in a coroutine; give it up if nothing goes on in it any more."""
    if run.done():
        return
    ended, waits = asyncio.get_running_loop().create_future(), run.waits()
    run.settle(ended)
    while not ended.done():
        await asyncio.wait([ended], timeout=LOOK_S)
        waits.look()


def most_in_flight(platform: Platform, nbytes: Mapping[str, int]) -> tuple[int | None, str]:
    """Return how many generations fit in memory, and where it is shortest."""
    fits = [
        (place.capacity_bytes // nbytes[place.name], place.name)
        for place in platform.spaces
        if place.capacity_bytes > 0 and nbytes.get(place.name)
    ]
    return min(fits, default=(None, ""))


def check_room(platform: Platform, nbytes: Mapping[str, int], in_flight: int, name: str) -> None:
    """Raise if so many generations do not fit."""
    most, space = most_in_flight(platform, nbytes)
    if most is not None and in_flight > most:
        raise MemoryLimitError(
            f"{in_flight} generations need {format_bytes(in_flight * nbytes[space])} "
            f"({format_bytes(nbytes[space])} each), and {space!r} has "
            f"{format_bytes(platform.space(space).capacity_bytes)}",
            where=f"stream of plan {name!r}",
            hint=f"in_flight={most} fits" if most else "Not even one fits: plan for less memory",
        )
