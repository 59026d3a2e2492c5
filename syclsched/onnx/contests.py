# SPDX-License-Identifier: Apache-2.0
"""Which of two plans of a model is faster: found by running both in turns, and remembered with how sure that is."""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from syclsched.costs.history import HistoryKey
from syclsched.interrupts import interrupts_held
from syclsched.model.graph import TaskGraph
from syclsched.model.platform import Device
from syclsched.model.profile import Quantity
from syclsched.profiling.busy import BUSY_SHARE, CpuTimes, others_share, read_times
from syclsched.profiling.statistics import summarise

if TYPE_CHECKING:
    from syclsched.profiling.calibration import RecordingHistory

#: A plan with kernels must take less than this part of the time it takes without: two equal ones differ by 1 %.
CLEARLY: Final = 0.98
#: Of each of two plans in turns: runs at least and at most, and seconds after which it is enough.
LEAST_RUNS, MOST_RUNS, ENOUGH_S = 5, 25, 1.5
#: Relative error of a ratio that no number of runs takes away: where memory lies, who shares the machine.
_FLOOR: Final = 0.005
#: Standard errors by which a ratio must be off `CLEARLY` to be certain, and to end a race before its time: that is
#: asked after every turn, so that chance has many tries.
_CERTAIN, _EARLY = 2.0, 4.0
#: Samples of each that are kept of a race that goes on to its end, and races after which there is nothing to find out.
_KEPT, _RACES = MOST_RUNS // 2 + 1, 3

Run = Callable[[], object]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is known of two plans, one with kernels for some of the library's tasks and one without."""

    ratio: float  # of their times: below 1 that with kernels is faster
    error: float  # standard error of that
    samples: int  # there are of each

    @property
    def is_faster(self) -> bool:
        """Whether the one with kernels is clearly faster."""
        return self.ratio < CLEARLY

    @property
    def margin(self) -> float:
        """By how many standard errors."""
        return abs(self.ratio - CLEARLY) / self.error

    @property
    def is_certain(self) -> bool:
        """Whether another race would hardly tell otherwise, or there were enough for two that are as good as equal."""
        return self.margin >= _CERTAIN or self.samples >= _RACES * _KEPT


def verdict(without: Quantity, with_kernels: Quantity) -> Verdict | None:
    """Return what the times of two plans say; None if they say nothing."""
    if not without.value or not with_kernels.value:
        return None
    ratio = with_kernels.value / without.value
    relative = math.hypot(_FLOOR, *(_relative_error(each) for each in (without, with_kernels)))
    return Verdict(ratio, ratio * relative, min(without.samples, with_kernels.samples))


def in_turns(runs: Sequence[Run], clock: Callable[[], float] = time.perf_counter) -> list[list[float]]:
    """Return the seconds that runs of two plans take, in turns, once each has run once.

    It ends as soon as it is clear which is faster.
    """
    for run in runs:
        run()
    found: list[list[float]] = [[] for _ in runs]
    begun = clock()
    while len(found[-1]) < MOST_RUNS:
        if len(found[-1]) >= LEAST_RUNS and (clock() - begun > ENOUGH_S or _is_over(found)):
            break
        turn = list(zip(runs, found, strict=True))
        # Who follows whom changes, for what one leaves in the caches is the other's to find.
        for run, seconds in turn if len(found[-1]) % 2 == 0 else reversed(turn):
            start = clock()
            run()
            seconds.append(clock() - start)
    return found


def contest(graph: TaskGraph) -> str:
    """Return what tells a graph with kernels for some tasks from others with other kernels, or with older ones."""
    offered = [
        (task.name, [(each.name, each.revision) for each in task.operation.implementations])
        for task in graph.tasks
        if task.operation is not None
    ]
    return hashlib.sha256(repr((graph.fingerprint(), offered)).encode()).hexdigest()[:32]


def known(device: Device, history: RecordingHistory, mixed: str) -> Verdict | None:
    """Return what earlier races of a plan with kernels and the one without have told; None if there were none."""
    without, with_kernels = (history.lookup(key) for key in _keys_of_both(device, mixed))
    return None if without is None or with_kernels is None else verdict(without, with_kernels)


def is_known_faster(device: Device, history: RecordingHistory, mixed: str) -> bool | None:
    """Return whether a plan with kernels is clearly faster than the one without; None if that is not known for sure."""
    found = known(device, history, mixed)
    return found.is_faster if found is not None and found.is_certain else None


def is_found_faster(
    device: Device, history: RecordingHistory, mixed: str, measure: Callable[[], Sequence[Sequence[float]]]
) -> bool:
    """Measure and remember what `known` tells; False, and forgotten, if others use the machine meanwhile."""
    before = read_times()
    found = measure()
    if is_disturbed(before):
        return False
    with interrupts_held():  # one without the other would stay beside what the next race tells
        for key, seconds in zip(_keys_of_both(device, mixed), found, strict=True):
            history.record(key, _undisturbed(seconds))
    told = known(device, history, mixed)
    return told is not None and told.is_faster


def is_disturbed(before: CpuTimes | None) -> bool:
    """Return whether others have used the machine since."""
    share = others_share(before, read_times())
    return share is not None and share > BUSY_SHARE


def _is_over(found: Sequence[Sequence[float]]) -> bool:
    told = verdict(*(summarise(_undisturbed(seconds)) for seconds in found))
    return told is not None and told.margin >= _EARLY


def _undisturbed(seconds: Sequence[float]) -> list[float]:
    """Return the lesser half: the others were disturbed, if any was."""
    return sorted(seconds)[: len(seconds) // 2 + 1]


def _relative_error(each: Quantity) -> float:
    """Return the standard error of a median, twice that of normal noise: of what was sampled it is the lesser half."""
    return 2.0 * 1.4826 * 1.2533 * each.mad / (each.value * math.sqrt(max(each.samples, 1)))


def _keys_of_both(device: Device, mixed: str) -> list[HistoryKey]:
    return [HistoryKey(device.key, "model", by, mixed, "") for by in ("library", "library and kernels")]
