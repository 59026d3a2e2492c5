# SPDX-License-Identifier: Apache-2.0
"""Every way to run a task graph, behind one interface, for the conformance suite. Only public names are used."""

from __future__ import annotations

import functools
import gc
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Any

import numpy as np
import pytest

import syclsched
from support.gpu_shape import OTHER_DEVICE
from support.opened import until
from support.running import plan_by
from syclsched.errors import DeadlineError
from syclsched.model.graph import TaskGraph
from syclsched.model.operation import Operation, Requirements
from syclsched.model.plan import Plan
from syclsched.model.platform import Platform
from syclsched.model.recovery import Recovery
from syclsched.model.trace import Trace

#: Seconds after which a wait counts as a deadlock.
LIMIT_S = 120.0
STREAM_GENERATIONS = 3
Inputs = Mapping[str, Any] | None


@functools.lru_cache(maxsize=2)
def platform_of(contexts: int) -> Platform:
    """Return the CPU device with two lanes; with two contexts also the emulator or another runtime's CPU device."""
    names = ("cpu",) if contexts == 1 else ("cpu", OTHER_DEVICE, "cpu1")
    return syclsched.discover(where=lambda device: device.name in names, lanes=2)


class Handle(ABC):
    """One execution of a graph, started by a `Session`."""

    @abstractmethod
    def wait(self) -> None:
        """Wait for the end; raise the error of the run."""

    @abstractmethod
    def result(self, name: str) -> Any:
        """Return the value of an array; wait for it."""

    @abstractmethod
    def trace(self) -> Trace:
        """Return the trace of the run, which has ended."""

    def cancel(self) -> None:
        """Cancel the run; return at once."""
        raise NotImplementedError

    def close(self) -> None:  # noqa: B027 - a call leaves nothing to release
        """Release the run."""

    @property
    def recoveries(self) -> tuple[Recovery, ...]:
        """Recoveries of the run, which has ended."""
        return self.trace().recoveries


class RunHandle(Handle):
    """A `syclsched.execution.Run`."""

    def __init__(self, run: Any) -> None:
        self.run = run

    def wait(self) -> None:
        self.run.wait(LIMIT_S)

    def result(self, name: str) -> Any:
        return self.run.result(name, timeout=LIMIT_S)

    def trace(self) -> Trace:
        return self.run.trace()

    def cancel(self) -> None:
        self.run.cancel()

    def close(self) -> None:
        self.run.close()

    @property
    def recoveries(self) -> tuple[Recovery, ...]:
        return self.run.recoveries


class CallHandle(Handle):
    """A call of a runner, made by the first `wait`."""

    def __init__(self, runner: Any, inputs: Inputs) -> None:
        self._runner, self._inputs = runner, inputs
        self._found: Mapping[str, Any] | None = None

    def wait(self) -> None:
        if self._found is None:
            self._found = self._runner(self._inputs)

    def result(self, name: str) -> Any:
        self.wait()
        assert self._found is not None
        return self._found[name]

    def trace(self) -> Trace:
        return self._runner.traces()[-1]


class StreamHandle(Handle):
    """A stream that runs the same inputs several times; all results must be the same."""

    def __init__(self, runner: Any, inputs: Inputs, generations: int, in_flight: int) -> None:
        self.stream = runner.stream((inputs for _ in range(generations)), in_flight=in_flight)
        self._runner = runner
        self._found: list[Mapping[str, Any]] | None = None

    def wait(self) -> None:
        """Read the stream to its end; raise the first error of a generation."""
        if self._found is not None:
            return
        found, errors = list[Mapping[str, Any]](), list[Exception]()
        while True:
            try:
                found.append(next(self.stream))
            except StopIteration:
                break
            except DeadlineError:
                raise  # later instructions may be blocked by the late task
            except Exception as error:
                errors.append(error)
        if errors:
            raise errors[0]
        self._found = found

    def result(self, name: str) -> Any:
        self.wait()
        assert self._found is not None
        first = self._found[0][name]
        assert all(results[name].tobytes() == first.tobytes() for results in self._found), name
        return first

    def trace(self) -> Trace:
        return self.stream.trace()

    def close(self) -> None:
        self.stream.close()

    @property
    def recoveries(self) -> tuple[Recovery, ...]:
        return tuple(recovery for trace in self._runner.traces() for recovery in trace.recoveries)


class Session(ABC):
    """A graph opened for one way to run it. Use it in a ``with`` statement."""

    #: How often one handle runs the graph.
    runs_per_handle = 1

    @abstractmethod
    def start(self, inputs: Inputs = None) -> Handle:
        """Start a run."""

    def close(self) -> None:  # noqa: B027 - runs made one by one share nothing
        """Release everything."""

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


class OneOff(Session):
    """`syclsched.run` with the same arguments every time."""

    def __init__(self, graph: TaskGraph, **options: Any) -> None:
        self._graph, self._options = graph, options

    def start(self, inputs: Inputs = None) -> Handle:
        return RunHandle(syclsched.run(self._graph, inputs=inputs, calibrate=False, **self._options))


class Bound(Session):
    """`syclsched.bind`, and one kind of handle."""

    def __init__(self, graph: TaskGraph, plan: Plan, make: Callable[[Any, Inputs], Handle], **options: Any) -> None:
        self.runner = syclsched.bind(graph, plan=plan, calibrate=False, **options)
        self._make = make

    def start(self, inputs: Inputs = None) -> Handle:
        return self._make(self.runner, inputs)

    def close(self) -> None:
        self.runner.close()


@dataclass(frozen=True)
class Way:
    """A way to run a graph."""

    name: str
    #: Opens a graph and its plan; the options are those of `syclsched.run` and `syclsched.bind`.
    opener: Callable[..., Session]
    #: Behaviours that do not exist for this way, with the reason.
    lacks: Mapping[str, str] = field(default_factory=dict)
    decides_while_running: bool = False
    #: Runs of a session before the tested run.
    warm_up_runs: int = 0
    #: Whether results can be read from a run that failed, and the run can be told apart from others.
    has_run: bool = True

    def open(
        self, graph: TaskGraph, plan: Plan, inputs: Inputs = None, *, warm: bool = True, **options: Any
    ) -> Session:
        """Return a session, after the runs that precede the tested one."""
        session = self.opener(graph, plan, **options)
        for _ in range(self.warm_up_runs if warm else 0):
            session.start(inputs).wait()
        return session

    def __str__(self) -> str:
        return self.name


def _planned(graph: TaskGraph, plan: Plan, *, trace: bool = True, **options: Any) -> Session:
    return OneOff(graph, plan=plan, **options)


def _in_turns(graph: TaskGraph, plan: Plan, *, trace: bool = True, **options: Any) -> Session:
    return OneOff(graph, plan=plan, priority=-1, share=2.0, **options)


def _debugged(graph: TaskGraph, plan: Plan, *, trace: bool = True, **options: Any) -> Session:
    return OneOff(graph, plan=plan, debug=True, **options)


def _dynamic(policy: str) -> Callable[..., Session]:
    def opener(graph: TaskGraph, plan: Plan, *, trace: bool = True, **options: Any) -> Session:
        where = {"plan": plan} if policy == "hybrid" else {"platform": plan.platform}
        return OneOff(graph, dynamic=policy, **where, **options)

    return opener


def _bound(graph: TaskGraph, plan: Plan, **options: Any) -> Session:
    return Bound(graph, plan, lambda runner, inputs: RunHandle(runner.run(inputs)), **options)


def _called(graph: TaskGraph, plan: Plan, *, trace: bool = False, **options: Any) -> Session:
    """Return a call without a trace, which may be a single C call."""
    return Bound(graph, plan, CallHandle, trace=trace, **options)


def _streamed(graph: TaskGraph, plan: Plan, *, in_flight: int = 2, **options: Any) -> Session:
    def make(runner: Any, inputs: Inputs) -> Handle:
        return StreamHandle(runner, inputs, STREAM_GENERATIONS, in_flight)

    session = Bound(graph, plan, make, **options)
    session.runs_per_handle = STREAM_GENERATIONS
    return session


POLICIES = ("eager", "priority", "dmdas", "stealing", "hybrid")
_NO_HANDLE = "a call returns its results and nothing to ask, cancel or share"
_ONE_READER = "a stream's results are taken by the one caller that iterates over it"
_CALL_LACKS = {"cancel": _NO_HANDLE, "shared handle": _NO_HANDLE}
_COMPILED_BEFORE = "bind compiles before the run begins: a lane is always at work until the run ends"

WAYS = (
    Way("run", _planned),
    Way("in turns", _in_turns),
    Way(
        "bound",
        _bound,
        {
            "shared session": "a run's results lie in the runner's memory, and the next run begins there",
            "deadline while compiling": _COMPILED_BEFORE,
        },
    ),
    Way("called", _called, _CALL_LACKS | {"deadline while compiling": _COMPILED_BEFORE}, has_run=False),
    Way(
        "called again",
        _called,
        _CALL_LACKS | {"deadline while compiling": _COMPILED_BEFORE},
        warm_up_runs=2,
        has_run=False,
    ),
    Way(
        "stream",
        _streamed,
        {
            "cancel": "a stream is left by close(), which has a test of its own",
            "shared handle": _ONE_READER,
            "shared session": "a runner has one open stream at a time",
            "deadline while compiling": _COMPILED_BEFORE,
        },
        has_run=False,
    ),
    *(Way(name, _dynamic(name), decides_while_running=True) for name in POLICIES),
    Way("debug", _debugged, {"recovery": "runs done step by step are not recovered (docs/explanation/failures.md)"}),
)  # fmt: skip


def over_all_ways(behaviour: str, cases: Iterable[str] = ()) -> pytest.MarkDecorator:
    """Parametrise a test over ``way``, and ``case`` if there are several; skip unsupported behaviour."""
    named, found = tuple(cases), []
    for case in named or ("",):
        for way in WAYS:
            reason = way.lacks.get(behaviour)
            marks = [] if reason is None else [pytest.mark.skip(reason=f"{way.name}: {reason}")]
            values = (way, case) if named else (way,)
            found.append(pytest.param(*values, marks=marks, id="-".join(filter(None, (way.name, case)))))
    return pytest.mark.parametrize(("way", "case") if named else ("way",), found)


# --- graphs and plans -------------------------------------------------------------------------------


def spread(graph: TaskGraph, platform: Platform) -> Plan:
    """Plan device tasks round robin over all devices and lanes, and host tasks on the host."""
    places = [(device.name, lane) for lane in range(2) for device in platform.compute_devices]
    turn = 0

    def place(name: str) -> tuple[str, int, str | None]:
        nonlocal turn
        operation = graph.find_task(name).operation
        if operation is not None and all(each.kind == "host" for each in operation.implementations):
            return "host", 0, operation.implementations[0].name
        turn += 1
        device, lane = places[turn % len(places)]
        if operation is None:
            return device, lane, None
        kind = platform.device(device).kind
        fitting = [
            i for i in operation.implementations if not i.requires.device_kinds or kind in i.requires.device_kinds
        ]
        if fitting:
            return device, lane, fitting[0].name
        wanted = operation.implementations[0].requires.device_kinds[0]
        other = next(d.name for d in platform.compute_devices if d.kind == wanted)
        return other, lane, operation.implementations[0].name

    return plan_by(graph, platform, place)


def only_on(operation: Operation, kind: str) -> Operation:
    """Return an operation with its first implementation only, restricted to one kind of device."""
    first = replace(operation.implementations[0], requires=Requirements(device_kinds=(kind,)))
    return replace(operation, name=f"{operation.name} on {kind}", implementations=(first,))


# --- checks ---------------------------------------------------------------------------------------


def check(handle: Handle, wanted: dict[str, Any], graph: TaskGraph) -> None:
    """Assert that all values written by tasks equal the sequential program's, to the last bit."""
    handle.wait()
    written = {access.array for task in graph.tasks for access in task.accesses if access.mode.writes}
    for name in sorted(written):
        if not graph.arrays[name].temporary:
            np.testing.assert_array_equal(handle.result(name), wanted[name], err_msg=name)


def check_run(session: Session, inputs: Any, wanted: dict[str, Any], graph: TaskGraph) -> None:
    """Run once more, and check all results."""
    handle = session.start(inputs)
    try:
        check(handle, wanted, graph)
    finally:
        handle.close()


def in_use() -> dict[str, int]:
    return {space: info.in_use_bytes for space, info in syclsched.memory_info().items()}


def releasing(test: Callable[..., None]) -> Callable[..., None]:
    """Fail a test that leaves memory in use."""

    @functools.wraps(test)
    def body(**arguments: Any) -> None:
        gc.collect()
        before = in_use()
        test(**arguments)
        gc.collect()
        until(lambda: all(held <= before.get(space, 0) for space, held in in_use().items()))

    return body
