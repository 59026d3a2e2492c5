# SPDX-License-Identifier: Apache-2.0
"""A hung device without deadlines: every wait ends all the same, and memory is kept until the device is done."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.opened import live_on, until
from support.running import DTYPE, MIX, plan_by

from syclsched.devices.backends.registry import backend_of
from syclsched.errors import ExecutionError
from syclsched.execution import bind
from syclsched.execution.core import stall_timeout
from syclsched.execution.core.progress import LaneProgress
from syclsched.execution.core.stall_timeout import HANG_TIMES, StallTimeout
from syclsched.execution.runner.bound_plan import Runner
from syclsched.execution.runner.stream_launchers import StagedLauncher
from syclsched.model.graph import TaskGraph
from syclsched.testing import faults

SIZE = 64
DEVICE = "cpu"


def at(number: int, *, predicted_s: float = 0.0) -> LaneProgress:
    return LaneProgress("cpu:0", "cpu", number, f"task 't{number}'", f"t{number}", 1, 9, None, True, predicted_s)


@given(st.lists(st.integers(0, 3), min_size=2, max_size=60))
@settings(deadline=None)
def test_a_stall_is_measured_from_the_last_progress(places: list[int]) -> None:
    patient, since = StallTimeout(5.0), 0
    for second, place in enumerate(places):
        if second and place != places[second - 1]:
            since = second
        held_s = patient.stalled_s([at(place)], float(second))
        assert held_s == (second - since if second - since >= 5 else None)


def test_tasks_predicted_long_have_a_longer_stall_timeout() -> None:
    patient = StallTimeout(1.0)
    assert patient.stalled_s([at(1, predicted_s=1.0)], 0.0) is None
    assert patient.stalled_s([at(1, predicted_s=1.0)], HANG_TIMES - 1.0) is None
    assert patient.stalled_s([at(1, predicted_s=1.0)], HANG_TIMES) == HANG_TIMES


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stall_timeout, "HANG_S", 0.3)


def graph_and_plan() -> tuple[TaskGraph, Any, Any]:
    platform, live = live_on(None)
    graph = TaskGraph("hangs")
    x, y = graph.array("x", data=np.ones(SIZE, DTYPE)), graph.array("y", data=np.ones(SIZE, DTYPE))
    graph.kernel(MIX, name="first", x=x, y=y, a=1)
    graph.kernel(MIX, name="second", x=x, y=y, a=1)
    return graph, plan_by(graph, platform, lambda name: (DEVICE, 0, "opencl-c")), live


@pytest.fixture
def runner() -> Iterator[Runner]:
    graph, plan, live = graph_and_plan()
    with bind(plan, graph, live) as bound:
        yield bound


def in_use() -> int:
    _, live = live_on(None)
    return sum(info.in_use_bytes for info in live.memory().values())


@pytest.mark.sycl
@pytest.mark.usefixtures("impatient")
def test_a_hung_run_blocks_neither_the_next_run_nor_close() -> None:
    graph, plan, live = graph_and_plan()
    before = in_use()
    runner = bind(plan, graph, live)
    with faults.inject(faults.hang(DEVICE, after=1)) as injection:
        run = runner.run()
        with pytest.raises(ExecutionError, match="given up") as found:
            runner.run()
        assert "no progress for" in str(found.value.__cause__)
        runner.close()
        assert in_use() > before
        injection.release()
        run._resources.engine.join(60)
        del run, runner, found
        until(lambda: in_use() == before)


@pytest.mark.sycl
@pytest.mark.usefixtures("impatient")
def test_an_unresponsive_device_clock_blocks_neither_run_nor_close() -> None:
    graph, plan, live = graph_and_plan()
    before = in_use()
    runner = bind(plan, graph, live)
    assert runner._bound.instances is not None
    queue = next(iter(runner._bound.instances._clocks._queues.values()))
    open_gate = backend_of(queue).hold(queue)
    assert open_gate is not None
    for _ in range(2):
        with pytest.raises(ExecutionError, match="its clock could not be read"):
            runner.run()
    runner.close()
    assert in_use() > before
    open_gate()
    del runner
    until(lambda: in_use() == before)


@pytest.mark.sycl
def test_close_can_be_given_a_limit() -> None:
    graph, plan, live = graph_and_plan()
    runner = bind(plan, graph, live)
    with faults.inject(faults.hang(DEVICE, after=1)) as injection:
        run = runner.run()
        runner.close(timeout=0.05)
        assert "awaited for 0.05 s" in str(run.hang_error)
        injection.release()
        run._resources.engine.join(60)


@pytest.mark.sycl
def test_hung_bound_plan_does_not_block_garbage_collection() -> None:
    graph, plan, live = graph_and_plan()
    gc.collect()
    before = in_use()
    with faults.inject(faults.hang(DEVICE, after=1)) as injection:
        runner = bind(plan, graph, live)
        run = runner.run()
        engine, dropped = run._resources.engine, weakref.ref(runner)
        del run, runner
        collected = threading.Thread(target=gc.collect, daemon=True)
        collected.start()
        collected.join(60)
        assert not collected.is_alive()
        assert dropped() is None
        assert not engine.finished.is_set()
        assert in_use() > before
        injection.release()
        engine.join(60)
        del engine
        until(lambda: in_use() == before)


@pytest.mark.sycl
@pytest.mark.usefixtures("impatient")
def test_hung_stream_fails_by_generation_and_can_be_closed(runner: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    if not runner.replayed:
        return  # without the compiled parts there is no replay
    with faults.inject(faults.hang(DEVICE, after=1)) as injection:
        stream = runner.stream(({} for _ in range(4)), in_flight=2, return_exceptions=True)
        found = list(stream)
        assert len(found) == 4
        assert all(isinstance(each, ExecutionError) for each in found)
        assert "no progress for" in str(found[0])
        stream.close()
        with pytest.raises(ExecutionError, match="given up"):
            runner.run()
        injection.release()
    until(lambda: runner._bound.instances is not None and runner._bound.instances.idle)
    monkeypatch.undo()  # the next run has the usual time
    assert runner({})["y"].shape == (SIZE,)


@pytest.mark.sycl
def test_watchdog_checks_while_generations_begin(runner: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    with runner.stream([{}] * 3, in_flight=3) as stream:
        next(stream)
        launcher = stream._launcher
        assert isinstance(launcher, StagedLauncher)
        began: list[Any] = []

        class Growing(weakref.WeakKeyDictionary[Any, Any]):
            """A set to which another thread adds a generation during iteration."""

            def values(self) -> Iterator[Any]:
                for each in super().values():
                    if not began:
                        began.append(object)
                        self[object] = each
                    yield each

        replays = list(launcher._replays.values())
        monkeypatch.setattr(launcher, "_replays", Growing(launcher._replays))
        for replay in replays:
            replay.positions()
        assert began
