# SPDX-License-Identifier: Apache-2.0
"""Durations of executed tasks on their way into the history, written by a background thread.

A run only queues what is to be measured; reading its times and writing the file happen on a thread of the pool, so
that neither the run nor its caller waits. A failure to write is logged and fails no run.
"""

from __future__ import annotations

import atexit
import logging
import math
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from syclsched.costs.estimate import relative_uncertainty
from syclsched.costs.history import PROVISIONAL, HistoryKey, Sample, in_run_key, is_provisional
from syclsched.execution.core.thread_pool import THREADS
from syclsched.model.text.units import format_seconds, plural

if TYPE_CHECKING:
    from syclsched.profiling import HistoryStore
    from syclsched.profiling.busy import LoadMeter

_LOGGER = logging.getLogger("syclsched")

#: Returns the durations of a run's tasks in seconds, by the key of the task timed alone.
Durations = Callable[[], Sequence[tuple[HistoryKey, float]]]

#: Key and seconds of a run's makespan.
Makespan = tuple[HistoryKey, float]

#: Most runs that wait to be written; the oldest are dropped.
_MOST_WAITING: Final = 32
#: Seconds for which interpreter exit waits for the thread.
_GRACE_S: Final = 2.0

#: Number of runs that must agree to contradict a calibration.
_RUNS: Final = 2
#: A task between others takes up to this share, and these seconds, more or less than alone, for natural reasons such as
#: warm caches and sleeping threads.
_NATURAL: Final = 0.25
_NATURAL_S: Final = 1e-5


def _open_store() -> HistoryStore:
    from syclsched.profiling import HistoryStore

    return HistoryStore()


class HistoryFeed:
    """Queue of measured runs, and the thread that writes them; thread-safe."""

    def __init__(
        self, open_store: Callable[[], HistoryStore] = _open_store, clock: Callable[[], float] = time.time
    ) -> None:
        self._open_store, self._clock = open_store, clock
        self._meter: LoadMeter | None = None
        self.forget()

    def forget(self) -> None:
        """Drop waiting measurements, without the thread: in a forked child, which has no such thread."""
        self._waiting: deque[tuple[Durations | None, Makespan | None]] = deque(maxlen=_MOST_WAITING)
        self._state = threading.Condition()
        self._writing = False

    def begin(self) -> None:
        """Note that runs are about to begin: the load of the machine is measured from now on."""
        if self._meter is None:
            from syclsched.profiling.busy import LoadMeter

            self._meter = LoadMeter()
        else:
            self._meter.load()

    def add(self, durations: Durations | None, makespan: Makespan | None = None) -> None:
        """Queue the durations, the makespan, or both, of a run that has ended; return at once."""
        with self._state:
            self._waiting.append((durations, makespan))
            if self._writing:
                return
            self._writing = True
        THREADS.start(self._write, "syclsched history")

    def flush(self, timeout_s: float | None = None) -> None:
        """Wait until everything queued is written."""
        with self._state:
            self._state.wait_for(lambda: not self._writing, timeout_s)

    def _write(self) -> None:
        while True:
            with self._state:
                if not self._waiting:
                    self._writing = False
                    self._state.notify_all()
                    return
                durations, makespan = self._waiting.popleft()
            try:
                measured = [] if durations is None else durations()
                if measured or makespan is not None:
                    self._record(measured, makespan)
            except Exception as error:  # a file, a driver's events: a run must not fail for its measurement
                _LOGGER.info("the measured times of a run are not kept: %s: %s", type(error).__name__, error)

    def _record(self, measured: Sequence[tuple[HistoryKey, float]], makespan: Makespan | None) -> None:
        from syclsched.profiling.busy import is_quiet

        load = None if self._meter is None else self._meter.load()
        now_s, quiet = self._clock(), is_quiet(load)
        samples = {key: Sample(seconds, now_s, load, "run", quiet) for key, seconds in measured}
        added = [(in_run_key(key), sample) for key, sample in samples.items()]
        if makespan is not None:
            key, seconds = makespan
            failed = not math.isfinite(seconds)  # under no load would it have been trusted
            added.append((key, Sample(0.0 if failed else seconds, now_s, load, "selection", quiet and not failed)))
        with self._open_store() as store:
            store.add(added)
            wrong = [key for key in samples if quiet and _is_contradicted(store, key)]
            said = ", ".join(_difference(store, key) for key in wrong[:2])
            for key in wrong:
                store.distrust(key)
        if wrong:
            _LOGGER.warning(
                "%s took other times in runs than when timed alone (%s%s): timed again, and planned again, before the "
                "next run",
                plural(len(wrong), "kind of task", "kinds of tasks"),
                said,
                ", ..." if len(wrong) > 2 else "",
            )


def _is_contradicted(store: HistoryStore, key: HistoryKey) -> bool:
    """Return whether the last runs agree that a calibration is wrong; reported once, when the second one has ended."""
    alone, in_run = store.lookup(key), store.lookup(in_run_key(key))
    if alone is None or in_run is None or is_provisional(alone):
        return False
    if in_run.samples != _RUNS or (in_run.uncertainty or 0.0) > PROVISIONAL:
        return False
    return abs(in_run.value - alone.value) > (relative_uncertainty(alone) + _NATURAL) * alone.value + _NATURAL_S


def _difference(store: HistoryStore, key: HistoryKey) -> str:
    alone, in_run = store.lookup(key), store.lookup(in_run_key(key))
    assert alone is not None
    assert in_run is not None
    times = f"{format_seconds(in_run.value)} instead of {format_seconds(alone.value)}"
    return f"{key.operation} by {key.implementation}: {times}"


#: The feed of this process.
FEED = HistoryFeed()

os.register_at_fork(after_in_child=FEED.forget)
atexit.register(FEED.flush, _GRACE_S)
