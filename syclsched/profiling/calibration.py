# SPDX-License-Identifier: Apache-2.0
"""Calibration: time each distinct task kind of a graph on each device that supports it, into the history.

Provisional times (see `syclsched.profiling.estimation`) are measured again, within a time limit, unless other
processes use the machine.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from syclsched.costs.capability import platform_for_all
from syclsched.costs.history import (
    HistoryKey,
    Source,
    history_key,
    is_provisional,
    measured_seconds,
    signature_text,
)
from syclsched.costs.model import CostModel
from syclsched.devices.programs.task_compiler import build_ahead, compile_tasks
from syclsched.errors import SyclschedError
from syclsched.model.graph import TaskGraph
from syclsched.model.operation import Implementation
from syclsched.model.platform import Device, Platform
from syclsched.model.profile import Quantity
from syclsched.profiling.busy import LoadMeter, is_quiet
from syclsched.profiling.calibration_failures import CalibrationFailure
from syclsched.profiling.measure.bench import QueueProvider
from syclsched.profiling.statistics import InterruptedMeasurement, Sampler
from syclsched.profiling.task_timing import SampleData, TimedCase, time_implementation

#: Time per implementation and device, and the number of samples.
_SECONDS_EACH = 0.15
_MIN_SAMPLES, _MAX_SAMPLES = 5, 15

#: An implementation this many times slower than another on the same device gets no further samples in a calibration;
#: its few samples are provisional, so that later calibrations find out if a disturbance made them slow.
_TOO_SLOW = 5.0

#: Time limit of a calibration for measuring provisional times again.
_AGAIN_S = 2.0

#: An implementation within this factor of the device's roofline cannot be beaten noticeably.
_UNBEATABLE = 1.25

#: A kernel that takes a second or more to compile is not timed if its estimates, by the roofline and by the stated
#: efficiencies of the implementations, both exceed this multiple of the fastest measured time.
_CANNOT_WIN = 1.5

#: Kernels take up to this multiple of their estimate.
_AT_WORST = 5.0

#: Implementation kinds that are, or may contain, OpenCL C.
_BUILT = ("opencl-c", "sequence")

#: Share of the graph's total time that justifies compiling an implementation.
_NOTICED = 0.01

Progress = Callable[[int, int, str], None]


class RecordingHistory(Protocol):
    """A history that accepts new samples, such as `HistoryStore`."""

    def lookup(self, key: HistoryKey) -> Quantity | None:
        """Return the measured seconds of a key, or None."""
        ...

    def record(
        self, key: HistoryKey, seconds: list[float], *, load: float | None = None, source: Source = "calibration"
    ) -> None:
        """Add samples taken under a load."""
        ...

    def distrust(self, key: HistoryKey) -> None:
        """Trust the samples of a key, and of its alternatives, no longer."""
        ...

    def refuse(self, key: HistoryKey, reason: str) -> None:
        """Note that a device or library refuses an implementation, so that it is not planned."""
        ...


@dataclass(frozen=True, slots=True)
class Calibration:
    """Result of a calibration."""

    #: Implementations timed now, and known before.
    measured: int
    known: int
    failures: tuple[CalibrationFailure, ...] = ()  # tasks that could not be timed
    complete: bool = True  # false if it was interrupted; finished measurements are recorded
    #: Implementations not timed: another is close to the device's roofline, or there is no alternative.
    left_out: int = 0
    #: Implementations known from few, scattered or disturbed samples, after this calibration.
    provisional: int = 0


def calibrate(
    graph: TaskGraph,
    platform: Platform,
    devices: QueueProvider,
    history: RecordingHistory,
    costs: CostModel | None = None,
    *,
    sample_data: SampleData | None = None,
    sampler: Sampler | None = None,
    seconds_each: float = _SECONDS_EACH,
    progress: Progress | None = None,
    again: bool = False,
    choices_only: bool = False,
    meter: LoadMeter | None = None,
) -> Calibration:
    """Time each distinct (operation, implementation, signature) of a graph on each device that supports it."""
    costs = costs if costs is not None else CostModel(platform)
    sampler = replace(sampler or Sampler(), min_samples=_MIN_SAMPLES, max_samples=_MAX_SAMPLES)
    cases, choices = _cases(graph, platform, costs, choices_only=choices_only)
    if again:
        for case in cases:
            history.distrust(case.key)
    known = {case.key: history.lookup(case.key) for case in cases}
    unknown = [c for c in cases if known[c.key] is None]
    doubtful = [c for c in cases if (found := known[c.key]) is not None and is_provisional(found)]
    open_cases = [c for c in unknown if not choices_only or c.key in choices]
    run = _CalibrationRun(
        graph, devices, history, costs, sample_data, sampler, seconds_each, progress, meter or LoadMeter()
    )
    for case in cases:
        run.update_best(case)
    run.build([*open_cases, *(doubtful if again else ())])
    # Compilation takes seconds per kernel: a smaller gain for the whole graph does not justify it.
    noticed_s = _NOTICED * _whole_seconds(graph, platform, history) if choices_only and open_cases else None
    tasks = Counter(
        (task.operation.name, signature_text(task.signature))
        for task in (graph.tasks if noticed_s is not None else ())
        if task.operation is not None and task.signature is not None
    )
    gains_s = {
        c.key: None if noticed_s is None else noticed_s / tasks[c.key.operation, c.key.signature] for c in open_cases
    }
    complete = run.time_unknown(open_cases, gains_s)
    if complete:
        complete = run.time_again(doubtful, math.inf if again else _AGAIN_S, in_any_case=again)
    if progress is not None and complete and run.told:
        progress(run.told, run.told, "")
    left_out = len(unknown) - len(open_cases) + run.left_out
    now = [history.lookup(case.key) for case in cases]
    return Calibration(
        measured=run.measured,
        known=len(cases) - len(unknown) - run.repeated,
        failures=tuple(run.failures),
        complete=complete,
        left_out=left_out,
        provisional=sum(found is not None and is_provisional(found) for found in now),
    )


class _CalibrationRun:
    """One calibration: its measurements so far."""

    def __init__(
        self,
        graph: TaskGraph,
        devices: QueueProvider,
        history: RecordingHistory,
        costs: CostModel,
        sample_data: SampleData | None,
        sampler: Sampler,
        seconds_each: float,
        progress: Progress | None,
        meter: LoadMeter,
    ) -> None:
        self._graph, self._devices, self._history, self._costs = graph, devices, history, costs
        self._sample_data, self._sampler, self._seconds_each = sample_data, sampler, seconds_each
        self._progress = progress
        self._meter = meter
        #: The fastest implementation and its time, by device, operation and signature.
        self._best: dict[tuple[str, str, str], tuple[Implementation, Quantity]] = {}
        self.failures: list[CalibrationFailure] = []
        self.measured = self.repeated = self.left_out = 0
        #: Cases reported to the progress callback.
        self.told = 0

    def update_best(self, case: TimedCase) -> None:
        """Note the time of an implementation if it is the fastest of its work."""
        known, best = self._history.lookup(case.key), self._best.get(case.work)
        if known is not None and (best is None or known.value < best[1].value):
            self._best[case.work] = case.implementation, known

    def build(self, cases: Sequence[TimedCase]) -> None:
        """Build the OpenCL C kernels to be timed as few programs."""
        built = [c for c in cases if c.implementation.kind in _BUILT and not self._is_needless(c)]
        if len(built) > 1:
            self._tell(0, len(cases), f"building {len(built)} kernels")
            _build_ahead(built, self._devices)

    def time_unknown(self, cases: Sequence[TimedCase], gains_s: Mapping[HistoryKey, float | None]) -> bool:
        """Time implementations that were never timed; return False if that was interrupted."""
        for index, case in enumerate(cases):
            self._tell(index, len(cases), case.label)
            if self._is_needless(case, gains_s[case.key]):
                self.left_out += 1
            elif not self._time(case):
                return False
        return True

    def time_again(self, cases: Sequence[TimedCase], limit_s: float, *, in_any_case: bool) -> bool:
        """Measure provisional times again, the least certain first; return False if that was interrupted.

        Ends at the time limit, and when other processes use the machine: then nothing better can be learnt.
        """
        end_s = self._sampler.clock() + limit_s
        order = sorted(cases, key=lambda case: -self._uncertainty(case))
        for index, case in enumerate(order):
            if not in_any_case and (self._sampler.clock() >= end_s or not is_quiet(self._meter.load())):
                break
            self._tell(index, len(order), case.label)
            self.repeated += 1
            if not self._time(case):
                return False
        return True

    def _time(self, case: TimedCase) -> bool:
        """Time an implementation and record it; return False on an interrupt."""
        best = self._best.get(case.work)
        too_slow_s = math.inf if best is None or self._is_best(case, best[1]) else _TOO_SLOW * best[1].value
        try:
            given = self._graph, self._sample_data, self._devices, self._sampler
            seconds = time_implementation(case, *given, self._seconds_each, too_slow_s)
            self._history.record(case.key, seconds, load=self._meter.load())
            self.update_best(case)
            self.measured += 1
        except InterruptedMeasurement:
            return False
        except Exception as error:  # dpctl's errors share no base class
            failure = CalibrationFailure(case, error)
            if failure.is_refusal:
                self._history.refuse(case.key, str(error))
            self.failures.append(failure)
        return True

    def _is_best(self, case: TimedCase, best: Quantity) -> bool:
        known = self._history.lookup(case.key)
        return known is not None and known.value <= best.value

    def _is_needless(self, case: TimedCase, gains_s: float | None = None) -> bool:
        if gains_s is not None and self._is_same_code_known(case):
            return True
        return _is_needless(case, self._costs, self._best.get(case.work), gains_s)

    def _is_same_code_known(self, case: TimedCase) -> bool:
        """Return whether the same code in another language was timed, whose time is expected of this, too."""
        others = [i for i in case.operation.implementations if i.name == case.implementation.same_code_as]
        keys = [history_key(case.key.device_key, case.operation, each, case.signature) for each in others]
        return any(self._history.lookup(key) is not None for key in keys)

    def _uncertainty(self, case: TimedCase) -> float:
        found = self._history.lookup(case.key)
        return 0.0 if found is None else found.uncertainty or 0.0

    def _tell(self, done: int, total: int, label: str) -> None:
        if self._progress is not None:
            self._progress(done, total, label)
            self.told = total


def _build_ahead(cases: Sequence[TimedCase], devices: QueueProvider) -> None:
    """Build OpenCL C kernels as few programs: separate builds take twice as long, and the runtime keeps each."""
    build_ahead(c.request(devices.queue(c.device.name)) for c in cases)


class RefusalHistory(Protocol):
    """A history that keeps refusals, such as `HistoryStore` and `MemoryHistory`."""

    def lookup(self, key: HistoryKey) -> Quantity | None:
        """Return the measured seconds of a key, or None."""
        ...

    def refuse(self, key: HistoryKey, reason: str) -> None:
        """Note that a device or library refuses an implementation, so that it is not planned."""
        ...


def note_refusals(
    cases: Iterable[TimedCase], devices: QueueProvider, history: RefusalHistory, progress: Progress | None = None
) -> tuple[CalibrationFailure, ...]:
    """Compile implementations that were never timed, and note those that are refused; return these.

    Other errors are left to the run, which reuses the kernels compiled here.
    """
    untried = [c for c in cases if not c.device.is_host and measured_seconds(history, c.key) is None]
    requests = [case.request(devices.queue(case.device.name)) for case in untried]
    if progress is not None and len(requests) > 1:
        progress(0, len(requests), f"compiling {len(requests)} implementations")
    build_ahead(requests)
    refused: list[CalibrationFailure] = []
    for number, (case, request) in enumerate(zip(untried, requests, strict=True)):
        if progress is not None:
            progress(number, len(requests), f"compiling {case.label}")
        try:
            compile_tasks([request])
        except SyclschedError as error:
            failure = CalibrationFailure(case, error)
            if failure.is_refusal:
                history.refuse(case.key, str(error))
                refused.append(failure)
    if progress is not None and requests:
        progress(len(requests), len(requests), "")
    return tuple(refused)


def _is_needless(
    case: TimedCase, costs: CostModel, best: tuple[Implementation, Quantity] | None, gains_s: float | None = None
) -> bool:
    """Return whether timing an implementation cannot change a plan: another one is near the roofline.

    Of a kernel that takes a second to compile, also whether it cannot win, or with ``gains_s`` is expected to save less
    than that; of one without a rival whether it is so short that no other could save as much. A roofline measured on a
    busy machine is too low, and a provisional time may be wrong: neither proves anything alone.
    """
    profile, by = case.device.profile, case.implementation
    is_python = by.is_python_kernel or any(name == "python" for name in by.parts)
    if profile is None or (by.kind == "sequence" and not is_python):
        return False
    guess_s = costs.task_seconds(case.task, by, case.device).seconds
    if best is None:
        return gains_s is not None and by.is_kernel and not profile.provenance.busy and _AT_WORST * guess_s < gains_s
    other, fastest = best
    if by.is_python_kernel:
        by_other_s = fastest.value * other.efficiency / by.efficiency
        if min(guess_s, by_other_s) > _CANNOT_WIN * fastest.value:
            return True
    if profile.provenance.busy:
        return False
    # A time measured on a busy machine, or too rarely, is rather too long: then even less is gained.
    if gains_s is not None and is_python and fastest.value - guess_s < gains_s:
        return True
    if is_provisional(fastest) or by.kind == "sequence":
        return False
    ideal_s = costs.task_seconds(case.task, replace(by, efficiency=1.0), case.device).seconds
    return guess_s > fastest.value and fastest.value <= _UNBEATABLE * ideal_s


def _whole_seconds(graph: TaskGraph, platform: Platform, history: RecordingHistory) -> float:
    """Return the total seconds of a graph's tasks, each on its best device by known times and estimates."""
    costs = CostModel(platform, history)
    best = (costs.choices(task, platform.devices) for task in graph.tasks if task.operation is not None)
    return sum(min((one[1].seconds for one in each if one is not None), default=0.0) for each in best)


def _other_hosts(graph: TaskGraph, platform: Platform) -> Iterator[Device]:
    """Yield the host with fewer threads for each task, as plans use it: on several lanes, and beside other devices."""
    for variant in (platform.with_most_host_lanes(), platform_for_all(graph, platform)):
        if variant is not None and variant is not platform:
            yield variant.host


def _cases(
    graph: TaskGraph, platform: Platform, costs: CostModel, *, choices_only: bool
) -> tuple[list[TimedCase], set[HistoryKey]]:
    """Return the cases of a graph, and the keys of those that some task has an alternative to.

    Of equal tasks, one may offer the library only, and another kernels.
    """
    cases: dict[HistoryKey, TimedCase] = {}
    choices: set[HistoryKey] = set()
    kinds: set[tuple[int, int]] = set()  # identities of operation and signature, which many tasks share
    devices = (*platform.devices, *(() if choices_only else _other_hosts(graph, platform)))
    for task in graph.tasks:
        if task.operation is None or task.signature is None:
            continue
        kind = id(task.operation), id(task.signature)
        if kind in kinds:
            continue
        kinds.add(kind)
        written = [
            parameter.name
            for parameter in task.operation.arrays
            if parameter.mode is not None and parameter.mode.writes
        ]
        if written and all(0 in task.signature.shapes[name] for name in written):
            continue  # an empty task is never submitted
        if not task.operation.pure:
            continue  # a function with side effects is called by runs only, which measure it
        offered = [
            TimedCase(
                task,
                task.operation,
                task.signature,
                device,
                implementation,
                history_key(device.timing_key, task.operation, implementation, task.signature),
            )
            for device in devices
            for implementation in task.operation.implementations
            if implementation.kind != "cost-only" and costs.supports(task, implementation, device) is None
        ]
        for case in offered:
            cases.setdefault(case.key, case)
        if len(offered) > 1:
            choices.update(case.key for case in offered)
    return list(cases.values()), choices
