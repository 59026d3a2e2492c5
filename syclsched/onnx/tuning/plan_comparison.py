# SPDX-License-Identifier: Apache-2.0
"""A/B comparison of two plans of a model: alternating runs, and a stored ratio with its standard error."""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from syclsched.costs.history import HistoryKey
from syclsched.interrupts import interrupts_deferred
from syclsched.model.graph import TaskGraph
from syclsched.model.platform import Device
from syclsched.model.profile import Quantity
from syclsched.profiling.busy import BUSY_SHARE, CpuTimes, others_share, read_times
from syclsched.profiling.statistics import summarise

if TYPE_CHECKING:
    from syclsched.profiling.calibration import RecordingHistory

#: A plan with kernels must take less than this share of the time without: two equal plans differ by 1 %.
CLEARLY: Final = 0.98
#: A plan with kernels alone is kept unless it takes more than this share: all its work is on the same threads, and a
#: plan with both has to wake others, which differs more from call to call.
NO_SLOWER: Final = 1.0 / CLEARLY
#: As `CLEARLY`, while others use the machine: the times of both vary, one of them maybe by more.
_CLEARLY_BUSY: Final = 0.75
#: Runs of each plan, at least and at most, and seconds after which `FEW_RUNS` suffice.
LEAST_RUNS, MOST_RUNS, ENOUGH_S = 5, 25, 0.15
FEW_RUNS: Final = 2
#: Processor time of others that may be a matter of counting.
_FEW_TICKS_S: Final = 0.025
#: Relative error of a ratio that more runs do not reduce: memory placement, other users of the machine.
_FLOOR: Final = 0.005
#: Distance of a ratio from its limit, in standard errors, to be certain, and to end a comparison early. The latter is
#: tested after every turn, so it must be stricter.
_CERTAIN, _EARLY = 2.0, 4.0
#: Part of the keys of stored ratios: increased when the way in which plans are run changes.
_REVISION: Final = 4
#: Pauses before the runs of a short plan whose times are added. After a pause, threads have to be woken, which takes
#: some plans as long as their work; callers make calls with pauses, and without.
SHORT_PAUSES_S: Final = (1e-3, 0.0)
#: Samples of each plan stored by a full comparison, and the number of comparisons after which the ratio is final.
_KEPT, _RACES = MOST_RUNS // 2 + 1, 3

Run = Callable[[], object]


@dataclass(frozen=True, slots=True)
class _PlanRatio:
    """Measured ratio of two plans: with kernels for some of the library's tasks, to without."""

    ratio: float  # of their times; below 1 the plan with kernels is faster
    error: float  # standard error of the ratio
    samples: int  # of each plan
    limit: float  # below which the plan with kernels is kept

    @property
    def is_kept(self) -> bool:
        """Whether the plan with kernels is kept."""
        return self.ratio < self.limit

    @property
    def is_kept_busy(self) -> bool:
        """The same if others used the machine meanwhile: only a large and significant difference counts.

        Without one, the plan with kernels is kept if its limit is above 1.
        """
        is_clear = self.margin >= _EARLY
        if self.limit > 1.0:
            return not (is_clear and self.ratio * _CLEARLY_BUSY > 1.0)
        return is_clear and self.ratio < _CLEARLY_BUSY

    @property
    def margin(self) -> float:
        """Distance of the ratio from the limit in standard errors."""
        return abs(self.ratio - self.limit) / self.error

    @property
    def is_certain(self) -> bool:
        """Whether the ratio is significant, or there are enough samples of two practically equal plans."""
        return self.margin >= _CERTAIN or self.samples >= _RACES * _KEPT


def plan_ratio(without: Quantity, with_kernels: Quantity, limit: float = CLEARLY) -> _PlanRatio | None:
    """Return the ratio of two plans' times; None if a time is zero."""
    if not without.value or not with_kernels.value:
        return None
    ratio = with_kernels.value / without.value
    relative = math.hypot(_FLOOR, *(_relative_error(each) for each in (without, with_kernels)))
    return _PlanRatio(ratio, ratio * relative, min(without.samples, with_kernels.samples), limit)


def time_alternating(
    runs: Sequence[Run],
    pauses_s: Sequence[float] = (0.0,),
    clock: Callable[[], float] = time.perf_counter,
    *,
    limit: float = CLEARLY,
) -> list[list[float]]:
    """Return the seconds of alternating runs of two plans, after one warm-up run of each.

    In each turn a plan runs once after each pause, and the times of these runs are added. Stops as soon as the ratio of
    their times is clearly on one side of the limit.
    """
    for run in runs:
        run()
    found: list[list[float]] = [[] for _ in runs]
    begun = clock()
    while len(found[-1]) < MOST_RUNS:
        elapsed_s = clock() - begun
        if len(found[-1]) >= FEW_RUNS and elapsed_s > ENOUGH_S:  # long runs differ less from each other
            break
        if len(found[-1]) >= LEAST_RUNS and _is_over(found, limit):
            break
        turn = list(zip(runs, found, strict=True))
        # The order alternates, because each run starts with the caches that the other left.
        for run, seconds in turn if len(found[-1]) % 2 == 0 else reversed(turn):
            seconds.append(sum(_seconds_after(pause_s, run, clock) for pause_s in pauses_s))
    return found


def _seconds_after(pause_s: float, run: Run, clock: Callable[[], float]) -> float:
    """Return the seconds of a run after a pause."""
    if pause_s:
        time.sleep(pause_s)
    start = clock()
    run()
    return clock() - start


def comparison_key(graph: TaskGraph) -> str:
    """Return a key of a graph and the revisions of its implementations."""
    offered = [
        (task.name, [(each.name, each.revision) for each in task.operation.implementations])
        for task in graph.tasks
        if task.operation is not None
    ]
    return hashlib.sha256(repr((_REVISION, graph.fingerprint(), offered)).encode()).hexdigest()[:32]


def stored_ratio(device: Device, history: RecordingHistory, mixed: str, limit: float = CLEARLY) -> _PlanRatio | None:
    """Return the stored ratio of a plan with kernels to the one without; None if there is none."""
    without, with_kernels = (history.lookup(key) for key in _keys_of_both(device, mixed))
    return None if without is None or with_kernels is None else plan_ratio(without, with_kernels, limit)


def is_known_faster(device: Device, history: RecordingHistory, mixed: str, limit: float = CLEARLY) -> bool | None:
    """Return whether a plan with kernels takes less than a share of the time without; None if that is uncertain."""
    found = stored_ratio(device, history, mixed, limit)
    return found.is_kept if found is not None and found.is_certain else None


def measure_is_faster(
    device: Device,
    history: RecordingHistory,
    mixed: str,
    measure: Callable[[], Sequence[Sequence[float]]],
    limit: float = CLEARLY,
) -> bool:
    """Measure and store the ratio; under other load, store nothing, and count only a significant difference."""
    before = read_times()
    found = measure()
    if is_disturbed(before):
        measured = _ratio(found, limit)
        return measured is not None and measured.is_kept_busy
    with interrupts_deferred():  # the samples of both must be stored together
        for key, seconds in zip(_keys_of_both(device, mixed), found, strict=True):
            history.record(key, _undisturbed(seconds), source="selection")
    measured = stored_ratio(device, history, mixed, limit)
    return measured is not None and measured.is_kept


def is_disturbed(before: CpuTimes | None) -> bool:
    """Return whether other processes have used the machine since."""
    after = read_times()
    share = others_share(before, after)
    if share is None or before is None or after is None:
        return False
    # The system counts ticks of 10 ms: one or two that it gave to others in a short time tell nothing.
    return share > BUSY_SHARE and share * (after.total_s - before.total_s) > _FEW_TICKS_S


def _is_over(found: Sequence[Sequence[float]], limit: float) -> bool:
    measured = _ratio(found, limit)
    return measured is not None and measured.margin >= _EARLY


def _ratio(found: Sequence[Sequence[float]], limit: float) -> _PlanRatio | None:
    """Return the ratio of both plans' undisturbed samples."""
    without, with_kernels = (summarise(_undisturbed(seconds)) for seconds in found)
    return plan_ratio(without, with_kernels, limit)


def _undisturbed(seconds: Sequence[float]) -> list[float]:
    """Return the lower half of the samples: disturbances only make times longer."""
    return sorted(seconds)[: len(seconds) // 2 + 1]


def _relative_error(each: Quantity) -> float:
    """Return the relative standard error of a median, doubled because only the lower half was sampled."""
    return 2.0 * 1.4826 * 1.2533 * each.mad / (each.value * math.sqrt(max(each.samples, 1)))


def _keys_of_both(device: Device, mixed: str) -> list[HistoryKey]:
    return [HistoryKey(device.key, "model", by, mixed, "") for by in ("library", "library and kernels")]
