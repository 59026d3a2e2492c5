# SPDX-License-Identifier: Apache-2.0
"""Calibration: time each distinct task kind of a graph on each device that supports it, into the history."""

from __future__ import annotations

import ctypes
import math
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import cycle, islice
from typing import Any, Protocol

import numpy as np

from syclsched.costs.history import HistoryKey, history_key, signature_text
from syclsched.costs.model import CostModel
from syclsched.devices.native.sycl_types import SyclQueue
from syclsched.devices.programs.task_compiler import CompileRequest, build_ahead, compile_task
from syclsched.errors import CapabilityError, ExecutionError
from syclsched.model.access import AccessMode
from syclsched.model.graph import TaskGraph
from syclsched.model.operation import Implementation, Operation, Parameter, Signature
from syclsched.model.platform import Device, Platform
from syclsched.model.profile import Quantity
from syclsched.model.task import Task
from syclsched.model.usm import UsmKind
from syclsched.profiling.measure.bench import Array, Bench, QueueProvider, event_seconds
from syclsched.profiling.statistics import InterruptedMeasurement, Sampler

#: Time per implementation and device, and the number of samples.
_SECONDS_EACH = 0.15
_MIN_SAMPLES, _MAX_SAMPLES = 5, 15

#: Back-to-back library calls per sample, at most; target seconds of such a row; pause before it, in seconds.
_MOST_IN_A_ROW, _ROW_S, _PAUSE_S = 32, 2e-3, 3e-3
#: A row this many times longer than the shortest ran on fewer threads.
_ALONE = 1.5

#: Sets of arrays that samples rotate through, and their total memory at most.
_SETS, _SETS_BYTES = 8, 64 << 20

#: An implementation this many times slower than another on the same device gets no further samples.
_TOO_SLOW = 5.0

#: An implementation within this factor of the device's roofline cannot be beaten noticeably.
_UNBEATABLE = 1.25

#: Implementation kinds that are, or may contain, OpenCL C.
_BUILT = ("opencl-c", "sequence")

#: Share of the graph's total time that justifies compiling an implementation.
_NOTICED = 0.01

_SEED = 20240229

#: Gives valid data for an array of a task, or None.
SampleData = Callable[[Task, str], Any]
Progress = Callable[[int, int, str], None]


class RecordingHistory(Protocol):
    """A history that accepts new samples, such as `HistoryStore`."""

    def lookup(self, key: HistoryKey) -> Quantity | None:
        """Return the measured seconds of a key, or None."""
        ...

    def record(self, key: HistoryKey, seconds: list[float]) -> None:
        """Add samples."""
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
    failures: tuple[tuple[str, str], ...] = ()  # label and error of each case that could not be timed
    #: Labels of the failures that are refusals by a device or library: such implementations are not planned. Other
    #: failures, such as a lack of memory, may pass, and do not keep an implementation out of plans.
    refused: tuple[str, ...] = ()
    complete: bool = True  # false if it was interrupted; finished measurements are recorded
    #: Implementations not timed: another is close to the device's roofline, or there is no alternative.
    left_out: int = 0


@dataclass(frozen=True, slots=True)
class _Case:
    task: Task
    operation: Operation
    signature: Signature
    device: Device
    implementation: Implementation
    key: HistoryKey

    @property
    def work(self) -> tuple[str, str, str]:
        """Device, operation and signature, without the implementation."""
        return self.key.device_key, self.key.operation, self.key.signature

    def request(self, queue: SyclQueue) -> CompileRequest:
        return CompileRequest(self.operation, self.implementation, self.signature, queue, self.device.limits)

    @property
    def label(self) -> str:
        return f"{self.key.operation} ({self.implementation.name}) on {self.device.name}"


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
) -> Calibration:
    """Time each distinct (operation, implementation, signature) of a graph on each device that supports it."""
    costs = costs if costs is not None else CostModel(platform)
    sampler = replace(sampler or Sampler(), min_samples=_MIN_SAMPLES, max_samples=_MAX_SAMPLES)
    cases = list(_cases(graph, platform, costs))
    unknown = [c for c in cases if again or history.lookup(c.key) is None]
    n_alternatives = Counter(case.key.operation + " " + case.key.signature for case in cases)
    open_cases = [c for c in unknown if not choices_only or n_alternatives[c.key.operation + " " + c.key.signature] > 1]
    failures: list[tuple[str, str]] = []
    refused: list[str] = []
    measured, left_out, complete = 0, len(unknown) - len(open_cases), True
    best: dict[tuple[str, str, str], float] = {}
    for case in cases:
        _update_best(best, case, history)
    built = [
        c
        for c in open_cases
        if c.implementation.kind in _BUILT and (again or not _is_needless(c, costs, best.get(c.work, math.inf)))
    ]
    if len(built) > 1:
        if progress is not None:
            progress(0, len(open_cases), f"building {len(built)} kernels")
        _build_ahead(built, devices)
    # Compilation takes seconds per kernel: a smaller gain for the whole graph does not justify it.
    noticed_s = _NOTICED * _whole_seconds(graph, platform, history) if choices_only and open_cases else None
    tasks = Counter(
        (task.operation.name, signature_text(task.signature))
        for task in (graph.tasks if noticed_s is not None else ())
        if task.operation is not None and task.signature is not None
    )
    for index, case in enumerate(open_cases):
        if progress is not None:
            progress(index, len(open_cases), case.label)
        fastest_s = best.get(case.work, math.inf)
        gains_s = None if noticed_s is None else noticed_s / tasks[case.key.operation, case.key.signature]
        if not again and _is_needless(case, costs, fastest_s, gains_s):
            left_out += 1
            continue
        try:
            data = _task_data(graph, case, sample_data)
            timing = _time_on_host if case.device.is_host else _time_on_device
            history.record(case.key, timing(case, data, devices, sampler, seconds_each, _TOO_SLOW * fastest_s))
            _update_best(best, case, history)
            measured += 1
        except InterruptedMeasurement:
            complete = False
            break
        except CapabilityError as error:
            history.refuse(case.key, str(error))
            refused.append(case.label)
            failures.append((case.label, f"{type(error).__name__}: {error}"))
        except Exception as error:  # dpctl's errors share no base class
            failures.append((case.label, f"{type(error).__name__}: {error}"))
    if progress is not None and complete and open_cases:
        progress(len(open_cases), len(open_cases), "")
    return Calibration(
        measured, len(cases) - len(unknown), tuple(failures), tuple(refused), complete=complete, left_out=left_out
    )


def _build_ahead(cases: Sequence[_Case], devices: QueueProvider) -> None:
    """Build OpenCL C kernels as few programs: separate builds take twice as long, and the runtime keeps each."""
    build_ahead(c.request(devices.queue(c.device.name)) for c in cases)


def _update_best(best: dict[tuple[str, str, str], float], case: _Case, history: RecordingHistory) -> None:
    known = history.lookup(case.key)
    if known is not None and known.value < best.get(case.work, math.inf):
        best[case.work] = known.value


def _is_needless(case: _Case, costs: CostModel, fastest_s: float, gains_s: float | None = None) -> bool:
    """Return whether timing an implementation cannot change a plan: another one is near the roofline.

    With ``gains_s``, also whether a kernel that takes a second to compile is expected to save less than that.
    """
    if case.device.profile is None or case.implementation.kind == "sequence":
        return False
    ideal_s = costs.task_seconds(case.task, replace(case.implementation, efficiency=1.0), case.device).seconds
    guess_s = costs.task_seconds(case.task, case.implementation, case.device).seconds
    if gains_s is not None and case.implementation.kind == "numba-dpex" and fastest_s - guess_s < gains_s:
        return True
    return guess_s > fastest_s and fastest_s <= _UNBEATABLE * ideal_s


def _whole_seconds(graph: TaskGraph, platform: Platform, history: RecordingHistory) -> float:
    """Return the total seconds of a graph's tasks, each on its best device by known times and estimates."""
    costs = CostModel(platform, history)
    best = (costs.choices(task, platform.devices) for task in graph.tasks if task.operation is not None)
    return sum(min((one[1].seconds for one in each if one is not None), default=0.0) for each in best)


def _cases(graph: TaskGraph, platform: Platform, costs: CostModel) -> Iterator[_Case]:
    seen: set[HistoryKey] = set()
    for task in graph.tasks:
        if task.operation is None or task.signature is None:
            continue
        written = [
            parameter.name
            for parameter in task.operation.arrays
            if parameter.mode is not None and parameter.mode.writes
        ]
        if written and all(0 in task.signature.shapes[name] for name in written):
            continue  # an empty task is never submitted
        for device in platform.devices:
            for implementation in task.operation.implementations:
                if implementation.kind == "cost-only":
                    continue
                key = history_key(device.key, task.operation, implementation, task.signature)
                if key not in seen and costs.supports(task, implementation, device) is None:
                    seen.add(key)
                    yield _Case(task, task.operation, task.signature, device, implementation, key)


def _task_data(graph: TaskGraph, case: _Case, sample_data: SampleData | None) -> dict[str, Array]:
    task, signature = case.task, case.signature
    given = graph.data
    data = {}
    for parameter in case.operation.arrays:
        if parameter.name in task.constants and not case.device.is_host:
            continue  # devices have constants in their own layout
        value = sample_data(task, parameter.name) if sample_data is not None else None
        if parameter.name in task.constants:
            value = task.constants[parameter.name].data
        elif value is None and parameter.mode is not AccessMode.WRITE:
            value = given.get(task.arguments[parameter.name])
            if value is not None and parameter.name in task.reshaped:
                value = _to_numpy(value).reshape(signature.shapes[parameter.name])
            rows = task.rows.get(parameter.name)
            if value is not None and rows is not None:
                value = value[rows[0] : rows[1]]
        if value is None:
            value = synthetic_data(parameter, signature)
        data[parameter.name] = np.asarray(_to_numpy(value), order="C")  # ascontiguousarray makes 0-d arrays 1-d
    return data


def _to_numpy(value: Any) -> Array:
    if isinstance(value, np.ndarray):
        return value
    if hasattr(value, "__sycl_usm_array_interface__"):
        from dpctl import tensor

        view = value.get_array() if hasattr(value, "get_array") else value
        result: Array = tensor.asnumpy(view)
        return result
    return np.asarray(value)


def synthetic_data(parameter: Parameter, signature: Signature) -> Array:
    """Return plausible data for a parameter: small random values; square matrices are diagonally dominant."""
    shape, dtype = signature.shapes[parameter.name], np.dtype(signature.dtypes[parameter.name])
    if parameter.mode is AccessMode.WRITE:
        return np.zeros(shape, dtype)
    random = np.random.default_rng(_SEED)
    values = random.integers(0, 7, shape) if dtype.kind in "iub" else random.random(shape)
    array: Array = np.asarray(values).astype(dtype)
    if array.ndim == 2 and shape[0] == shape[1] and dtype.kind in "fc":
        array[np.diag_indices(shape[0])] += dtype.type(shape[0])
    return array


def _time_on_host(
    case: _Case,
    data: Mapping[str, Array],
    devices: QueueProvider,
    sampler: Sampler,
    seconds_each: float,
    too_slow_s: float,
) -> list[float]:
    signature = case.signature
    function = compile_task(case.operation, case.implementation, signature, None, None).function
    assert function is not None
    arrays = {name: value.copy() for name, value in data.items()}

    def sample() -> float:
        for name, value in data.items():
            np.copyto(arrays[name], value)
        start = sampler.clock()
        function(**arrays, **signature.scalars)
        return sampler.clock() - start

    if (slow := _times_if_too_slow(sample, too_slow_s)) is not None:
        return slow
    return sampler.samples_until(sample, seconds_each)


def _time_on_device(
    case: _Case,
    data: Mapping[str, Array],
    devices: QueueProvider,
    sampler: Sampler,
    seconds_each: float,
    too_slow_s: float,
) -> list[float]:
    operation, signature = case.operation, case.signature
    written = [p.name for p in operation.arrays if p.mode is not None and p.mode.writes and p.mode.reads]
    with Bench(devices, case.device, sampler) as bench:
        kind: UsmKind = "shared" if "usm_shared_allocations" in case.device.aspects else "device"
        pristine = {name: bench.array(data[name], kind) for name in written}
        executable = compile_task(operation, case.implementation, signature, bench.queue, case.device.limits)
        executable = devices.uploads.bind(executable, case.request(bench.queue), case.task.constants, case.device.space)
        # In a run other tasks execute between two uses of the same data, so little of it is still cached.
        size = sum(value.nbytes for value in data.values())
        sets = [
            {name: bench.array(value, kind) for name, value in data.items()}
            for _ in range(max(1, min(_SETS, _SETS_BYTES // max(1, size))))
        ]
        submissions = cycle([(arrays, executable.bind({**arrays, **signature.scalars})) for arrays in sets])

        def sample() -> float:
            arrays, submission = next(submissions)
            # In-place updates start from the same data every time: a factorised matrix cannot be factorised again.
            for name in written:
                bench.queue.memcpy_async(arrays[name].usm_data, pristine[name].usm_data, data[name].nbytes)
            bench.wait()
            start = sampler.clock()
            event = submission.submit(bench.queue, [])
            event.wait()
            wall = sampler.clock() - start
            bench.wait()
            # A library may submit several kernels and returns the last one's event: only the host's time covers all.
            device = event_seconds(event) if case.implementation.is_kernel else 0.0
            return device if 0.0 < device <= wall else wall

        if (slow := _times_if_too_slow(sample, too_slow_s)) is not None:
            return slow
        once = sample()
        if case.implementation.kind != "library" or written:
            return sampler.samples_until(sample, seconds_each)
        # A single call would include the host's round trip to the device, which tasks within a run do not pay.
        calls = [_caller(submission, bench.queue) for _, submission in islice(submissions, len(sets))]
        in_a_row = max(1, min(_MOST_IN_A_ROW, round(_ROW_S / max(once, 1e-9))))
        following = cycle(calls)

        def sample_row() -> float:
            # While its threads are still awake, the runtime may give a whole row to one of them.
            time.sleep(_PAUSE_S)
            start = sampler.clock()
            for _ in range(in_a_row):
                next(following)()
            bench.wait()
            return (sampler.clock() - start) / in_a_row

        sample_row()
        rows = sampler.samples_until(sample_row, seconds_each)
        # Drop rows that still ran on fewer threads: runs do not behave so, and other implementations cannot compare.
        return [seconds for seconds in rows if seconds < _ALONE * min(rows)]


def _times_if_too_slow(sample: Callable[[], float], too_slow_s: float) -> list[float] | None:
    """Warm up; return the second sample alone if even that is too slow, else None."""
    if sample() < too_slow_s:
        return None
    second = sample()
    return [second] if second >= too_slow_s else None


def _caller(submission: Any, queue: SyclQueue) -> Callable[[], Any]:
    """Return a function that submits a library's work as a run does: by its native function if it has one."""
    if not hasattr(getattr(submission, "call", None), "native"):
        return lambda: submission.submit(queue, [])
    native = submission.call.native(queue, submission.arguments)
    if native is None:
        return lambda: submission.submit(queue, [])
    function = ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_void_p] * len(native.arguments))(native.function)

    def call(keep: Any = native) -> None:
        status = function(*keep.arguments)
        if status:
            raise ExecutionError(f"a library's function returned {status}", where="calibration")

    return call
