# SPDX-License-Identifier: Apache-2.0
"""Repeated runs with inputs of the same form: read in place or copied, also after failures."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from support.onednn_calls import linear, needs_onednn
from support.opened import live_on
from support.running import plan_on

from syclsched.devices.submission import native_run
from syclsched.devices.submission.native_run import NativeRun
from syclsched.errors import TaskFailedError
from syclsched.execution import Runner, bind
from syclsched.execution.replay import native_run_cache
from syclsched.execution.replay.input_commands import InputSpec
from syclsched.execution.replay.plan_instance import PlanInstance
from syclsched.kernels.onednn import c_api
from syclsched.kernels.onednn.calls import LoadedPrimitive
from syclsched.kernels.onednn.requests import PrimitiveArgument, PrimitiveRequest
from syclsched.kernels.onednn.tensors import plain
from syclsched.model.access import AccessMode
from syclsched.model.graph import TaskGraph
from syclsched.model.operation import (
    Implementation,
    NativeCall,
    Operation,
    OperationStep,
    Parameter,
    ReadingElsewhere,
    Work,
)
from syclsched.model.sequence import sequence_operation
from syclsched.testing import faults

pytestmark = [pytest.mark.sycl, needs_onednn]
SIZE = 1000
FLOAT = np.dtype("float32")
BUSY = [InputSpec("x", FLOAT, (SIZE,))]


def operation(loaded: Any) -> Operation:
    parameters = (
        Parameter("x", AccessMode.READ, ndim=1, dtypes=("float32",)),
        Parameter("y", AccessMode.WRITE, ndim=1, dtypes=("float32",)),
    )
    way = Implementation("library", "library", lambda _: loaded)
    return Operation("made up", parameters, (way,), lambda _: Work(1e3, 1e3, "float32"))


def doubled() -> Operation:
    """Return y = 2 x + 1."""
    line = plain((SIZE,), "float32")
    ends = PrimitiveArgument("x", c_api.SRC, line), PrimitiveArgument("y", c_api.DST, line)
    return operation(LoadedPrimitive(PrimitiveRequest("eltwise", ends, (c_api.ELTWISE["linear"], 2.0, 1.0))))


class Copied:
    """A library that copies x to y, also from other memory, and fails with a given status."""

    def __init__(self) -> None:
        self.refuses = self.refuses_once = self.refuses_elsewhere = self.refuses_to_move = 0
        self.moves: list[int] = []

    def native(self, queue: Any, arguments: Any) -> NativeCall:
        x, y = (arguments[name].usm_data._pointer for name in "xy")
        return self._call(x, y, elsewhere=False)[0]

    def _call(self, x: int, y: int, *, elsewhere: bool) -> tuple[NativeCall, Any]:
        source = ctypes.c_void_p(x)

        def function(*_: int) -> int:
            status = self.refuses_elsewhere if elsewhere else self.refuses or self.refuses_once
            self.refuses_once = 0
            if not status:
                ctypes.memmove(y, source, 4 * SIZE)
            return status

        def move(_: int, address: int) -> int:
            if not self.refuses_to_move:
                self.moves.append(address)
                source.value = address
            return self.refuses_to_move

        def reading_elsewhere(address: int) -> ReadingElsewhere | None:
            if address != x:
                return None
            call, mover = self._call(x, y, elsewhere=True)
            return ReadingElsewhere(call, _address(mover), 0)

        called = ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_int64] * 6)(function)
        mover = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p)(move)
        keep = called, mover, self
        call = NativeCall(
            _address(called), (0,) * 6, keep, lambda status: "no mood", event=5, reading_elsewhere=reading_elsewhere
        )
        return call, mover

    def __call__(self, queue: Any, arguments: Any, depends: list[Any]) -> Any:
        raise AssertionError("Python is not to be asked")


def _address(function: Any) -> int:
    return ctypes.cast(function, ctypes.c_void_p).value or 0


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Record whether C code accepted the inputs of each run."""
    found: list[bool] = []
    begin = NativeRun.begin_in_place

    def noted(self: NativeRun, arrays: tuple[Any, ...]) -> bool:
        found.append(begin(self, arrays))
        return found[-1]

    monkeypatch.setattr(NativeRun, "begin_in_place", noted)
    return found


def bound(graph: TaskGraph) -> Any:
    platform, live = live_on(None)
    return bind(plan_on(graph, platform, "cpu"), graph, live, trace=False)


def chain(*operations: Operation) -> TaskGraph:
    graph = TaskGraph("chain")
    x = graph.array("x", (SIZE,), "float32")
    for n, each in enumerate(operations):
        y = graph.array(f"y{n}", (SIZE,), "float32")
        graph.kernel(each, name=f"t{n}", x=x, y=y)
        x = y
    return graph


def values(turn: int) -> Any:
    return np.arange(SIZE, dtype=np.float32) + 1000 * turn


def repeat_of(runner: Runner, results: tuple[str, ...], inputs: Any = BUSY) -> Any:
    runner({name: np.zeros(shape, dtype) for name, dtype, shape, _ in inputs}, results)
    return runner.repeat(inputs, results)


@pytest.fixture(params=[0, native_run.SHORT_NS, 10**12], ids=["by a thread", "as it comes", "by the caller"])
def runner(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Runner]:
    """A bound plan, with one of two ways to wait for the ends of its runs."""
    monkeypatch.setattr(native_run, "SHORT_NS", request.param)
    with bound(chain(doubled(), doubled())) as made:
        yield made


def test_inputs_with_one_reader_are_read_in_place(runner: Runner, begun: list[bool]) -> None:
    again = repeat_of(runner, ("y1",))
    for turn in range(6):
        x = values(turn)
        assert np.array_equal(again((x,))["y1"], 4 * x + 3)
        assert np.array_equal(again((x,))["y1"], 4 * x + 3)
        assert np.array_equal(x, values(turn))
        # The usual path reads its own inputs, and leaves the other path unchanged.
        assert np.array_equal(runner({"x": -x}, ["y1"])["y1"], 3 - 4 * x)
    assert begun == [True] * 12


def test_repeated_calls_are_refused_until_the_next_call(runner: Runner, begun: list[bool]) -> None:
    again = repeat_of(runner, ("y1",))
    with runner.run({"x": values(1)}) as run:
        assert again((values(2),)) is None
        assert np.array_equal(run.result("y1"), 4 * values(1) + 3)
    assert again((values(2),)) is None
    runner({"x": values(3)}, ("y1",))
    assert np.array_equal(again((values(4),))["y1"], 4 * values(4) + 3)
    runner({"x": values(3)}, ("y0",))
    assert again((values(4),)) is None  # other results were read last
    with faults.inject():
        assert again((values(4),)) is None
    runner({"x": values(3)}, ("y1",))
    assert again((values(4).astype("f8"),)) is None
    assert again((values(5),)) is not None
    runner.close()
    assert again((values(5),)) is None
    assert begun == [True, False, True]


def test_inputs_read_twice_or_written_are_copied() -> None:
    graph = TaskGraph("several")
    x, y, z, w = (graph.array(name, (SIZE,), "float32") for name in "xyzw")
    graph.kernel(doubled(), name="first", x=x, y=y)
    graph.kernel(doubled(), name="second", x=x, y=z)
    graph.kernel(linear(), name="third", y=w, alpha=2.0, beta=0.0)
    inputs = [
        InputSpec("w", FLOAT, (SIZE,)),
        InputSpec(None, np.dtype("int64"), (3,)),
        InputSpec("x", FLOAT, (SIZE,)),
    ]
    with bound(graph) as made:
        made({"x": values(0), "w": values(0)}, ("y", "z", "w"))
        again = made.repeat(inputs, ("y", "z", "w"))
        for turn in range(4):
            x, w = values(turn), values(turn + 7)
            found = again((w, np.zeros(3, np.int64), x))
            assert np.array_equal(w, values(turn + 7))
            assert np.array_equal(found["y"], 2 * x + 1) and np.array_equal(found["z"], 2 * x + 1)
            assert np.array_equal(found["w"], 2 * w)
            assert again((w, np.zeros(4, np.int64), x)) is None


def test_inputs_of_several_steps_of_a_task_are_copied() -> None:
    steps = [OperationStep(doubled(), (("x", "x"), ("y", name))) for name in "yz"]
    graph = TaskGraph("branches")
    x, y, z = (graph.array(name, (SIZE,), "float32") for name in "xyz")
    graph.kernel(sequence_operation(steps, [("library", "library")]), name="both", x=x, y=y, z=z)
    with bound(graph) as made:
        again = repeat_of(made, ("y", "z"))
        for turn in range(1, 3):
            found = again((values(turn),))
            assert np.array_equal(found["y"], 2 * values(turn) + 1) and np.array_equal(found["z"], found["y"])


def test_a_library_gets_a_new_input_address_once(begun: list[bool]) -> None:
    library = Copied()
    with bound(chain(operation(library), doubled())) as made:
        again = repeat_of(made, ("y1",))
        x, other = values(1), values(2)
        for given in (x, x, other, x):
            assert np.array_equal(again((given,))["y1"], 2 * given + 1)
        assert library.moves == [x.ctypes.data, other.ctypes.data, x.ctypes.data]
        library.refuses_to_move = 3
        assert again((other,)) is None
        library.refuses_to_move = 0
        assert np.array_equal(made({"x": other}, ("y1",))["y1"], 2 * other + 1)
        assert np.array_equal(again((x,))["y1"], 2 * x + 1)
    assert begun == [True] * 4 + [False, True]


@pytest.mark.parametrize("short_ns", [0, 10**12])
def test_refused_calls_are_retried_with_their_inputs(
    begun: list[bool], monkeypatch: pytest.MonkeyPatch, short_ns: int
) -> None:
    monkeypatch.setattr(native_run, "SHORT_NS", short_ns)
    library = Copied()
    with bound(chain(operation(library), doubled())) as made:
        again = repeat_of(made, ("y1",))
        library.refuses_elsewhere = 7
        for turn in range(1, 4):
            assert np.array_equal(again((values(turn),))["y1"], 2 * values(turn) + 1)
            made({"x": values(9)}, ("y1",))
        library.refuses = 8
        with pytest.raises(TaskFailedError, match=r"t0.*no mood \(status 8\)"):
            again((values(4),))
        library.refuses = library.refuses_elsewhere = 0
        made({"x": values(9)}, ("y1",))
        assert np.array_equal(again((values(5),))["y1"], 2 * values(5) + 1)
    assert begun == [True] * 5


def test_calls_refused_before_an_input_copy_are_retried() -> None:
    # "late" is copied to the place of b, which is read after the refused command.
    library = Copied()
    graph = TaskGraph("late")
    called = "x", "late", *"abcdefg"
    array = {name: graph.array(name, (SIZE,), "float32", temporary=name in "abcd") for name in called}
    for n, (one, other) in enumerate(("xa", "xb", "xc", "ad", "be", "cf")):
        graph.kernel(operation(library) if n == 3 else doubled(), name=f"t{n}", x=array[one], y=array[other])
    graph.kernel(doubled(), name="last", x=array["late"], y=array["g"])
    with bound(graph) as made:
        again = repeat_of(made, ("e", "f", "g"), [*BUSY, InputSpec("late", FLOAT, (SIZE,))])
        library.refuses_once = 7
        found = again((values(1), values(5)))
        assert np.array_equal(found["e"], 4 * values(1) + 3) and np.array_equal(found["f"], found["e"])
        assert np.array_equal(found["g"], 2 * values(5) + 1)


def test_slow_calls_continue_as_runs(runner: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    again = repeat_of(runner, ("y1",))
    monkeypatch.setattr(native_run_cache, "SLICE_S", 0.0)
    monkeypatch.setattr(native_run_cache, "LONGEST_S", 0.0)
    done = 0
    for turn in range(40):
        found = again((values(turn),))
        done += found is not None
        found = runner({"x": values(turn)}, ("y1",)) if found is None else found
        assert np.array_equal(found["y1"], 4 * values(turn) + 3)
    assert done


def test_an_interrupted_call_ends_before_the_next_begins(runner: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    again = repeat_of(runner, ("y1",))

    def interrupted(self: NativeRun, targets: Any, seconds: float) -> int:
        raise KeyboardInterrupt

    for turn in range(5):
        with monkeypatch.context() as patch:
            patch.setattr(NativeRun, "run_blocking", interrupted)
            with pytest.raises(KeyboardInterrupt):
                again((values(turn),))
        assert again((values(turn),)) is None
        assert np.array_equal(runner({"x": values(turn)}, ("y1",))["y1"], 4 * values(turn) + 3)


def test_interrupted_calls_leave_no_results_for_the_next_call(runner: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    again = repeat_of(runner, ("y1",))

    def interrupted(*_: Any, **__: Any) -> Any:
        raise KeyboardInterrupt

    for turn in range(3):
        with monkeypatch.context() as patch:
            patch.setattr(NativeRun, "run_blocking", interrupted)
            patch.setattr(PlanInstance, "_made", interrupted)
            with pytest.raises(KeyboardInterrupt):
                again((values(turn),))
        assert again((values(9),)) is None
        assert np.array_equal(runner({"x": values(turn)}, ("y1",))["y1"], 4 * values(turn) + 3)
        assert again((values(turn),)) is not None


def test_there_is_none_for_other_inputs_than_the_plan_has(runner: Runner) -> None:
    assert runner.repeat(BUSY, ("y1",)) is None  # there was no call before
    assert repeat_of(runner, ("y1",)) is not None
    assert runner.repeat([], ("y1",)) is None
    assert runner.repeat([*BUSY, InputSpec("more", FLOAT, (1,))], ("y1",)) is None
