# SPDX-License-Identifier: Apache-2.0
"""Helpers of tests that run plans: small operations with several implementations, plans, a sequential reference."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from hypothesis import strategies as st

import syclsched
from syclsched.model.access import AccessMode
from syclsched.model.constant import Constant, constant
from syclsched.model.graph import TaskGraph
from syclsched.model.operation import Implementation, Launch, OpenCLSource, Operation, Parameter, Signature, Work
from syclsched.model.plan import Plan
from syclsched.model.platform import HOST, Device, Link, MemorySpace, Platform
from syclsched.model.schedule import Assignment, Schedule
from syclsched.model.task import LogicalArray, Task
from syclsched.model.trace import Trace
from syclsched.planning import build_plan
from syclsched.simulation import predict

# Integers that wrap around: every device and NumPy agree to the last bit.
DTYPE = "int64"

# No kernel has the name of a built-in function (mix), which is reserved: PoCL gives it another one.
OPENCL = """
__kernel void mixed(__global const long *x, __global long *y, long a) {
    size_t i = get_global_id(0);
    y[i] = a * x[i] + 3 * y[i] + (long)i;
}
__kernel void assign(__global const long *x, __global long *y) {
    y[get_global_id(0)] = x[get_global_id(0)];
}
__kernel void spin(__global long *y, long turns) {
    long value = y[0];
    for (long i = 0; i < turns; i++) value = value * 6364136223846793005L + 1442695040888963407L;
    y[0] = value;
}
__kernel void judge(__global const long *x, __global int *status) {
    status[0] = x[0] < 0 ? 7 : 0;
}
"""


def _whole_range(signature: Signature, _: object) -> Launch:
    return Launch(next(iter(signature.shapes.values())))


def _cheap(_: Signature) -> Work:
    return Work(flops=1e3, bytes=1e3, dtype=DTYPE)


@syclsched.kernel
def _mix_kernel(item: Any, x: Any, y: Any, a: Any) -> None:
    i = item.get_id(0)
    y[i] = a * x[i] + 3 * y[i] + i


def mix_on_host(x: Any, y: Any, a: int) -> None:
    y[...] = a * x + 3 * y + np.arange(x.size)


MIX = Operation(
    "mix",
    (Parameter("x", AccessMode.READ, ndim=1), Parameter("y", AccessMode.UPDATE, ndim=1), Parameter("a")),
    (
        Implementation("opencl-c", "opencl-c", lambda _: OpenCLSource(OPENCL, "mixed"), _whole_range),
        Implementation("python", "python", lambda _: _mix_kernel, _whole_range),
        Implementation("host", "host", lambda _: mix_on_host),
    ),
    _cheap,
)


def _set_by_copy(queue: Any, arguments: Mapping[str, Any], depends: list[Any]) -> Any:
    x, y = arguments["x"], arguments["y"]
    return queue.memcpy_async(y.usm_data, x.usm_data, x.nbytes, depends)


ASSIGN = Operation(
    "assign",
    (Parameter("x", AccessMode.READ), Parameter("y", AccessMode.WRITE, like="x")),
    (
        Implementation("library", "library", lambda _: _set_by_copy),
        Implementation("host", "host", lambda _: lambda x, y: np.copyto(y, x)),
    ),
    _cheap,
)

#: `ASSIGN` by a kernel.
ASSIGN_KERNEL = Operation(
    "assign by kernel",
    (Parameter("x", AccessMode.READ, ndim=1), Parameter("y", AccessMode.WRITE, ndim=1, like="x")),
    (
        Implementation("opencl-c", "opencl-c", lambda _: OpenCLSource(OPENCL, "assign"), _whole_range),
        Implementation("host", "host", lambda _: lambda x, y: np.copyto(y, x)),
    ),
    _cheap,
)

SPIN = Operation(
    "spin",
    (Parameter("y", AccessMode.UPDATE), Parameter("turns")),
    (Implementation("opencl-c", "opencl-c", lambda _: OpenCLSource(OPENCL, "spin"), launch=lambda s, d: Launch((1,))),),
    _cheap,
)


def with_host(function: Any) -> Operation:
    """Return an operation of one host function on one array."""
    return Operation(
        "host function",
        (Parameter("y", AccessMode.UPDATE),),
        (Implementation("host", "host", lambda _: function),),
        lambda _: Work(1e3, 1e3),
    )


class Gate:
    """A host function that waits until it is opened, so that tests determine the order of events."""

    def __init__(self) -> None:
        self.entered, self.opened = threading.Event(), threading.Event()

    def __call__(self, y: Any) -> None:
        self.entered.set()
        assert self.opened.wait(300)
        y += 1


def chain(length: int = 5, size: int = 100) -> TaskGraph:
    """Return a chain of kernels, on inputs that every run is given."""
    graph = TaskGraph("chain")
    x, y = graph.array("x", (size,), DTYPE), graph.array("y", (size,), DTYPE)
    for i in range(length):
        graph.kernel(MIX, name=f"mix{i}", x=x, y=y, a=i)
    return graph


def given_chain(length: int = 5, size: int = 100) -> TaskGraph:
    """Return `chain` with data in the graph."""
    graph = TaskGraph("chain")
    x = graph.array("x", data=np.arange(size, dtype=DTYPE))
    y = graph.array("y", data=np.arange(size, dtype=DTYPE) * 7)
    for i in range(length):
        graph.kernel(MIX, name=f"mix{i}", x=x, y=y, a=i)
    return graph


def inputs_of(graph: TaskGraph, seed: int) -> dict[str, Any]:
    """Return values for every array a run has to be given."""
    rng = np.random.default_rng(seed)
    return {name: rng.integers(-(2**40), 2**40, graph.arrays[name].shape) for name in graph.inputs()}


def check_spans(trace: Trace, graph: TaskGraph) -> None:
    """Check that a trace has all tasks, each done, and that all spans lie within the makespan."""
    assert {s.task for s in trace.spans if s.kind != "copy"} == {t.name for t in graph.tasks}
    assert all(s.outcome == "done" and s.start_s <= s.finish_s <= trace.makespan_s for s in trace.spans)


def check_results(run: Any, graph: TaskGraph, expected: Mapping[str, Any], timeout_s: float = 240.0) -> None:
    """Wait for a run, and compare the bits of its arrays."""
    run.wait(timeout_s)
    for name, array in graph.arrays.items():
        if not array.temporary:
            np.testing.assert_array_equal(run.result(name, timeout=timeout_s), expected[name], err_msg=name)


def mixed_chain(length: int, rows: int = 1000) -> tuple[TaskGraph, dict[str, Any]]:
    """Return a graph of tasks that all update the same array, and its data."""
    graph = TaskGraph("chain")
    data = {"x": np.arange(rows, dtype=DTYPE), "y": np.arange(rows, dtype=DTYPE) * 7}
    x, y = (graph.array(name, data=value) for name, value in data.items())
    for i in range(length):
        graph.kernel(MIX, name=f"mix{i}", x=x, y=y, a=i)
    return graph, data


JUDGE = Operation(
    "judge",
    (Parameter("x", AccessMode.READ), Parameter("status", AccessMode.WRITE, dtypes=("int32",))),
    (
        Implementation(
            "opencl-c", "opencl-c", lambda _: OpenCLSource(OPENCL, "judge"), launch=lambda s, d: Launch((1,))
        ),
    ),
    _cheap,
    status="status",
    explain_status=lambda value: f"x is negative (status {value})",
)


def _device(name: str, space: str, lanes: int = 1) -> Device:
    host = space == HOST
    kind, backend = ("host", "host") if host else ("gpu", "opencl")
    return Device(name, name, kind, backend, name, space=space, reaches=(space,), lanes=lanes, dtypes=(DTYPE,))


#: Two devices with memory of their own, the first with two lanes.
TWO_DEVICES = Platform(
    "two",
    devices=(_device("a", "a", 2), _device("b", "b"), _device("host", HOST)),
    spaces=(MemorySpace("a", 10_000), MemorySpace("b", 10_000), MemorySpace(HOST, 10**9, host_accessible=True)),
    links=tuple(Link(one, other, 1e-6, 1e9) for one in ("a", "b", HOST) for other in ("a", "b", HOST) if one != other),
)


def plan_by(
    graph: TaskGraph,
    platform: Platform,
    place: Callable[[str], tuple[str, int, str | None]],
    task_s: float = 1e-5,
) -> Plan:
    """Plan a graph by ``place``: device, lane and implementation by task name; each takes a predicted ``task_s``."""
    assignments = tuple(
        Assignment(name, *place(name), start_s=float(position), finish_s=position + 1.0)
        for position, name in enumerate(graph.order())
    )
    durations = dict.fromkeys((t.name for t in graph.tasks), task_s)
    return predict(build_plan(graph, platform, Schedule("by hand", assignments), durations))


def plan_on(graph: TaskGraph, platform: Platform, device: str, task_s: float = 1e-5) -> Plan:
    """Plan everything on one device; host tasks go to the host."""

    def place(name: str) -> tuple[str, int, str | None]:
        task = graph.find_task(name)
        if task.operation is None:
            return device, 0, None
        first = task.operation.implementations[0]
        return ("host", 0, first.name) if first.kind == "host" else (device, 0, first.name)

    return plan_by(graph, platform, place, task_s)


def sequential(graph: TaskGraph, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Return every array's last value by NumPy, one task after another."""
    values = {name: np.array(inputs.get(name, np.zeros(a.shape, a.dtype))) for name, a in graph.arrays.items()}
    for name in graph.order():
        run_task(graph.find_task(name), values)
    return values


def run_task(task: Task, values: Mapping[str, Any]) -> None:
    """Run a task by NumPy, in place."""
    if task.operation is None or task.signature is None:
        return
    host = next(i for i in task.operation.implementations if i.kind == "host")
    arguments = {parameter: values[array] for parameter, array in task.arguments.items()}
    arguments |= {parameter: arguments[parameter][i:j] for parameter, (i, j) in task.rows.items()}
    arguments |= {name: arguments[name].reshape(task.signature.shapes[name]) for name in task.reshaped}
    arguments |= {parameter: constant.data for parameter, constant in task.constants.items()}
    with np.errstate(over="ignore"):
        host.load(task.signature)(**arguments, **task.signature.scalars)


@st.composite
def parts(draw: st.DrawFn, first: LogicalArray, second: LogicalArray) -> tuple[Any, Any]:
    """Draw equal numbers of rows of two arrays, or of one array without overlap; sometimes all."""
    size = first.shape[0]
    count = draw(st.one_of(st.integers(1, max(size, 1)), st.just(size)))
    if draw(st.booleans()) and 2 * count <= size:  # both of the first
        start = draw(st.integers(0, size - 2 * count))
        other = draw(st.integers(start + count, size - count))
        return first[start : start + count], first[other : other + count]
    starts = [draw(st.integers(0, size - count)) for _ in range(2)] if count <= size else [0, 0]
    return first[starts[0] : starts[0] + min(count, size)], second[starts[1] : starts[1] + min(count, size)]


@st.composite
def graphs(draw: st.DrawFn, max_tasks: int = 16, ranges: bool = False) -> TaskGraph:
    """Draw random graphs of `MIX` and `ASSIGN`, with barriers, explicit edges, temporaries and possibly row ranges."""
    graph = TaskGraph("random")
    size = draw(st.sampled_from([1, 5, 64, 1000] if ranges else [0, 1, 5, 64, 1000]))
    arrays = [
        graph.array(f"a{i}", (size,), DTYPE, temporary=draw(st.integers(0, 3)) == 0)
        for i in range(draw(st.integers(2, 5)))
    ]
    constants = [constant(np.arange(n, n + size), DTYPE, name=f"c{n}") for n in range(2)]
    for index in range(draw(st.integers(1, max_tasks))):
        x, y = draw(st.permutations(arrays))[:2]
        x, y = draw(parts(x, y)) if ranges else (x, y)
        if draw(st.integers(0, 5)) == 0:
            x = draw(st.sampled_from(constants)).part((0, y.shape[0]))
        choice = draw(st.integers(0, 9))
        if choice == 0:
            graph.barrier(name=f"t{index}")
        elif choice == 1 and size % 2 == 0 and not isinstance(x, Constant) and x.shape == y.shape == (size,):
            shape = draw(st.sampled_from([(size // 2, 2), (2, size // 2), (1, size, 1)]))
            one, other = (graph.arrays[getattr(a, "array", a).name].reshaped(shape) for a in (x, y))
            graph.kernel(ASSIGN, name=f"t{index}", x=one, y=other)
        elif choice < 4:
            graph.kernel(ASSIGN, name=f"t{index}", x=x, y=y)
        else:
            graph.kernel(MIX, name=f"t{index}", x=x, y=y, a=draw(st.integers(-3, 3)))
    names = [t.name for t in graph.tasks]
    first, second = sorted(draw(st.tuples(*[st.sampled_from(range(len(names)))] * 2)))
    if first != second:
        graph.edge(names[first], names[second])
    return graph


@st.composite
def plans(draw: st.DrawFn, graph: TaskGraph, platform: Platform) -> Plan:
    """Plan every task at a random place where it can run."""

    def place(name: str) -> tuple[str, int, str | None]:
        device = draw(st.sampled_from(platform.devices))
        lane = draw(st.integers(0, device.lanes - 1))
        operation = graph.find_task(name).operation
        if operation is None:
            return device.name, lane, None
        fitting = [i.name for i in operation.implementations if (i.kind == "host") == device.is_host]
        return device.name, lane, draw(st.sampled_from(fitting))

    return plan_by(graph, platform, place)
