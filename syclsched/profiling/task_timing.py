# SPDX-License-Identifier: Apache-2.0
"""Timing of one implementation of a task on one device, with given or synthetic data."""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import cycle, islice
from queue import SimpleQueue
from typing import Any

import numpy as np

from syclsched.costs.history import HistoryKey
from syclsched.devices.native.sycl_types import SyclQueue
from syclsched.devices.programs.task_compiler import CompileRequest, compile_task
from syclsched.errors import ExecutionError
from syclsched.library_threads import LIBRARY_THREADS
from syclsched.model.access import AccessMode
from syclsched.model.graph import TaskGraph
from syclsched.model.operation import Implementation, Operation, Parameter, Signature
from syclsched.model.platform import Device
from syclsched.model.task import Task
from syclsched.model.usm import UsmKind
from syclsched.oneapi.dpctl_interface import usm_arrays
from syclsched.profiling.measure.bench import Array, Bench, QueueProvider, event_seconds
from syclsched.profiling.statistics import Sampler

#: Back-to-back library calls per sample, at most; target seconds of such a row; pause before it, in seconds.
_MOST_IN_A_ROW, _ROW_S, _PAUSE_S = 32, 2e-3, 3e-3
#: A row this many times longer than the shortest ran on fewer threads.
_ALONE = 1.5

#: Seconds of a sample of several lanes: several times the interval at which Python's threads take turns (5 ms); and the
#: memory of their arrays at most.
_LANES_S, _LANES_BYTES = 20e-3, 256 << 20

#: Sets of arrays that samples rotate through, and their total memory at most.
_SETS, _SETS_BYTES = 8, 64 << 20

_SEED = 20240229

#: Gives valid data for an array of a task, or None.
SampleData = Callable[[Task, str], Any]


@dataclass(frozen=True, slots=True)
class TimedCase:
    """One implementation of a task on one device, to be timed."""

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
        """Return the request to compile it for a queue."""
        return CompileRequest(self.operation, self.implementation, self.signature, queue, self.device.limits)

    @property
    def label(self) -> str:
        """Its name in messages."""
        return f"{self.key.operation} ({self.implementation.name}) on {self.device.name}"


def time_implementation(
    case: TimedCase,
    graph: TaskGraph,
    sample_data: SampleData | None,
    devices: QueueProvider,
    sampler: Sampler,
    budget_s: float,
    too_slow_s: float,
) -> list[float]:
    """Return samples of an implementation's seconds: two, if it takes longer than ``too_slow_s``."""
    data = _task_data(graph, case, sample_data)
    timing = _time_on_host if case.device.is_host else _time_on_device
    return timing(case, data, devices, sampler, budget_s, too_slow_s)


def _task_data(graph: TaskGraph, case: TimedCase, sample_data: SampleData | None) -> dict[str, Array]:
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
                value = to_numpy(value).reshape(signature.shapes[parameter.name])
            rows = task.rows.get(parameter.name)
            if value is not None and rows is not None:
                value = value[rows[0] : rows[1]]
        if value is None:
            value = synthetic_data(parameter, signature)
        data[parameter.name] = np.asarray(to_numpy(value), order="C")  # ascontiguousarray makes 0-d arrays 1-d
    return data


def to_numpy(value: Any) -> Array:
    """Return an array of the host or in USM memory as one of NumPy."""
    if isinstance(value, np.ndarray):
        return value
    if hasattr(value, "__sycl_usm_array_interface__"):
        view = value.get_array() if hasattr(value, "get_array") else value
        result: Array = usm_arrays().asnumpy(view)
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
    case: TimedCase,
    data: Mapping[str, Array],
    devices: QueueProvider,
    sampler: Sampler,
    budget_s: float,
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

    with LIBRARY_THREADS.at_most(case.device.library_threads):
        if case.device.lanes > 1:
            return _time_on_host_lanes(case, data, function, sampler, budget_s)
        if (slow := _times_if_too_slow(sample, too_slow_s)) is not None:
            return slow
        return sampler.samples_until(sample, budget_s)


def _time_on_host_lanes(
    case: TimedCase, data: Mapping[str, Array], function: Callable[..., Any], sampler: Sampler, budget_s: float
) -> list[float]:
    """Return samples of a host function's seconds while all lanes of the host call it.

    Calls that hold Python's interpreter lock, or need the whole memory bandwidth, then take as much longer as in a run.
    """
    updated = [p.name for p in case.operation.arrays if p.mode is not None and p.mode.writes and p.mode.reads]
    size = sum(value.nbytes for value in data.values())
    lanes = max(1, min(case.device.lanes, _LANES_BYTES // max(1, size)))
    sets = [{name: value.copy() for name, value in data.items()} for _ in range(lanes)]

    begin = threading.Barrier(lanes)

    def call(arrays: Mapping[str, Array], count: int) -> None:
        begin.wait()  # so that each lane takes one request of a sample
        for _ in range(count):
            for name in updated:
                np.copyto(arrays[name], data[name])
            function(**arrays, **case.signature.scalars)

    with _calls_in_lanes([partial(call, arrays) for arrays in sets]) as call_all:

        def sample(count: int) -> float:
            start = sampler.clock()
            call_all(count)
            return (sampler.clock() - start) / count

        sample(1)
        once = sample(1)
        count = max(1, min(_MOST_IN_A_ROW, round(_LANES_S / max(once, 1e-9))))
        return sampler.samples_until(lambda: sample(count), budget_s)


@contextmanager
def _calls_in_lanes(functions: Sequence[Callable[[int], None]]) -> Iterator[Callable[[int], None]]:
    """Yield a function that calls each function once with a number, all at once, on threads of their own.

    The executors of `concurrent.futures` refuse work, and their import, in handlers of `atexit`.
    """
    requests: SimpleQueue[int | None] = SimpleQueue()
    ended: SimpleQueue[BaseException | None] = SimpleQueue()

    def serve(function: Callable[[int], None]) -> None:
        while (count := requests.get()) is not None:
            try:
                function(count)
            except BaseException as error:  # raised by `call_all`
                ended.put(error)
            else:
                ended.put(None)

    def call_all(count: int) -> None:
        for _ in functions:
            requests.put(count)
        errors = [ended.get() for _ in functions]
        for error in filter(None, errors):
            raise error

    threads = [threading.Thread(target=serve, args=(function,), daemon=True) for function in functions]
    for thread in threads:
        thread.start()
    try:
        yield call_all
    finally:
        for _ in threads:
            requests.put(None)
        for thread in threads:
            thread.join()


def _time_on_device(
    case: TimedCase,
    data: Mapping[str, Array],
    devices: QueueProvider,
    sampler: Sampler,
    budget_s: float,
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
                bench.queue.memcpy_async(arrays[name].memory, pristine[name].memory, data[name].nbytes)
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
            return sampler.samples_until(sample, budget_s)
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
        rows = sampler.samples_until(sample_row, budget_s)
        # Drop rows that still ran on fewer threads: runs do not behave so, and other implementations cannot compare.
        return [seconds for seconds in rows if seconds < _ALONE * min(rows)]


def _times_if_too_slow(sample: Callable[[], float], too_slow_s: float) -> list[float] | None:
    """Warm up; return two samples alone if both are too slow, the second after a pause, else None."""
    if sample() < too_slow_s or (first := sample()) < too_slow_s:
        return None
    time.sleep(_PAUSE_S)
    second = sample()
    return [first, second] if second >= too_slow_s else None


def _caller(submission: Any, queue: SyclQueue) -> Callable[[], Any]:
    """Return a function that submits a library's work as a run does: by its native function if it has one."""
    if not hasattr(getattr(submission, "call", None), "native"):
        return lambda: submission.submit(queue, [])
    calls = submission.native(queue)
    functions = [ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_void_p] * len(c.arguments))(c.function) for c in calls]

    def call() -> None:
        for function, native in zip(functions, calls, strict=True):
            status = function(*native.arguments)
            if status:
                raise ExecutionError(f"a library's function returned {status}", where="calibration")

    return call
