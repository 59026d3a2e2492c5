# SPDX-License-Identifier: Apache-2.0
"""Busy shares of a graph's lanes over the last seconds, from recorded times of ended runs and samples of running ones.

Recorded times are exact. Samples alone would mislead where runs are short: the sampling thread gets the interpreter's
lock mostly when the thread that starts the runs waits for one.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Collection, Mapping
from typing import Any, Final

import numpy as np

from syclsched.execution.core.execution_records import record_seconds
from syclsched.execution.core.program import Program
from syclsched.execution.handle.engine import Engine
from syclsched.execution.replay.replay import Replay

#: Seconds over which a busy share is the mean.
WINDOW_S: Final = 10.0
#: Records beyond this number are not read: each is an object of Python.
_MOST_RECORDS: Final = 2000


class LaneBusyMeter:
    """Busy shares of one graph's lanes. The caller passes the time in seconds; this class reads no clock."""

    def __init__(self, now_s: float) -> None:
        self._since_s = now_s
        #: Samples of runs: time, run, seconds since the previous sample, and the lanes that executed something.
        self._samples: deque[tuple[float, int, float, Collection[str]]] = deque()
        #: Ended runs: start, end, and seconds for which each lane executed something.
        self._ended: deque[tuple[float, float, Mapping[str, float]]] = deque()
        self._unknown_until_s = now_s

    def add_sample(self, now_s: float, run: int, weight_s: float, busy: Collection[str]) -> None:
        """Add a sample of a run in flight, which stands for the seconds since the previous one."""
        self._samples.append((now_s, run, weight_s, busy))

    def replace_samples(
        self, runs: Collection[int], begun_s: float, ended_s: float, busy_s: Mapping[str, float]
    ) -> None:
        """Replace the samples of runs that have ended by the seconds for which their lanes were busy."""
        self._samples = deque(each for each in self._samples if each[1] not in runs)
        self._ended.append((begun_s, ended_s, busy_s))

    def note_unknown(self, now_s: float) -> None:
        """Note that a run has ended of which nothing is known."""
        self._unknown_until_s = now_s + WINDOW_S

    def shares(self, now_s: float) -> dict[str, float] | None:
        """Return the busy share of each lane that was busy in the last seconds; None if it is not known."""
        first_s = now_s - WINDOW_S
        while self._samples and self._samples[0][0] < first_s:
            self._samples.popleft()
        while self._ended and self._ended[0][1] < first_s:
            self._ended.popleft()
        span_s = min(WINDOW_S, now_s - self._since_s)
        if span_s <= 0.0 or now_s < self._unknown_until_s:
            return None
        busy_s: defaultdict[str, float] = defaultdict(float)
        for _, _, weight_s, lanes in self._samples:
            for lane in lanes:
                busy_s[lane] += weight_s
        for begun_s, ended_s, each in self._ended:
            within = min(1.0, (ended_s - first_s) / (ended_s - begun_s)) if ended_s > begun_s else 1.0
            for lane, seconds in each.items():
                busy_s[lane] += seconds * within
        return {lane: min(1.0, seconds / span_s) for lane, seconds in busy_s.items()}


def busy_seconds(engine: Engine) -> dict[str, float] | None:
    """Return for how many seconds each lane executed instructions in a run that has ended; None if it is not known."""
    program = engine.program
    if isinstance(engine, Replay):
        times = engine.times
        if times is None:
            return None
        seconds = np.maximum(times.finish_ns - times.start_ns, 0) * 1e-9
        lane_of = _lane_of(program)[times.numbers]
        sums = np.bincount(lane_of, weights=seconds, minlength=len(program.plan.lanes)).tolist()
        for number, s in record_seconds(times.on_host).items():
            sums[program.nodes[number].lane] += s
        return {lane.name: s for lane, s in zip(program.plan.lanes, sums, strict=True) if s > 0.0}
    if not engine.recording or len(engine.records) > _MOST_RECORDS:
        return None
    measured = record_seconds(engine.records)
    busy_s = {lane.name: sum(measured.get(i.id, 0.0) for i in lane.instructions) for lane in program.plan.lanes}
    return {name: s for name, s in busy_s.items() if s > 0.0}


def _lane_of(program: Program) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return the index of the lane of each instruction, by number."""
    known: np.ndarray[Any, np.dtype[np.int64]] | None = program.derived.get("lane of instruction")
    if known is None:
        known = np.zeros(program.slots, np.int64)
        for number, node in program.nodes.items():
            known[number] = node.lane
        program.derived["lane of instruction"] = known
    return known
