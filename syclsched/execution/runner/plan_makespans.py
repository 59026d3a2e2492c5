# SPDX-License-Identifier: Apache-2.0
"""Makespans of a plan's runs, for the history: by them the fastest of several plans is found."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from syclsched.costs.history import HistoryKey, RunKind
from syclsched.execution.core.execution_records import Times
from syclsched.execution.core.history_feed import Makespan
from syclsched.execution.handle.engine import Engine
from syclsched.execution.replay.replay import Replay

#: Returns the key under which makespans of runs of a kind are kept.
MakespanKey = Callable[[RunKind], HistoryKey]

#: Keys of the first runs of plans in this process.
_HAVE_RUN: Final[set[HistoryKey]] = set()

os.register_at_fork(after_in_child=_HAVE_RUN.clear)


@dataclass(frozen=True, slots=True)
class PlanMakespans:
    """The makespans of one plan's runs, each with its key."""

    key: MakespanKey

    def of_run(self, engine: Engine, ended_ns: int) -> Makespan | None:
        """Return the makespan of a run that has ended, from its first submission on."""
        times = engine.times if isinstance(engine, Replay) else None
        begun_ns = (
            times.origin_ns
            if isinstance(times, Times)
            else min((record.submit_ns for record in engine.records.values()), default=1 << 62)
        )
        return self._measured((ended_ns - begun_ns) * 1e-9, "later") if begun_ns < ended_ns else None

    def of_call(self, seconds: float) -> Makespan:
        """Return the makespan of a run that was one call of compiled code."""
        return self._measured(seconds, "call")

    def failed(self) -> Makespan:
        """Return the stored record of a run that failed on a device."""
        return self.key("failed"), math.inf

    def _measured(self, seconds: float, kind: RunKind) -> Makespan:
        """Return a makespan under its kind: the first run in a process finds nothing in caches."""
        first = self.key("first")
        is_first = first not in _HAVE_RUN
        _HAVE_RUN.add(first)
        return first if is_first else self.key(kind), seconds
