# SPDX-License-Identifier: Apache-2.0
"""Recovery of streams: the bits of single runs, in order; and deadlines, which fail at their input."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest
from support.injected import FAULTS
from support.opened import live_on
from support.running import ASSIGN_KERNEL, DTYPE, MIX, plan_by, sequential

from syclsched.errors import DeadlineError, MemoryLimitError
from syclsched.execution import Safeguards, bind
from syclsched.execution.recovery.health import MOST_STRIKES
from syclsched.execution.runner import plan_binding
from syclsched.model.graph import TaskGraph
from syclsched.model.plan import Plan
from syclsched.model.platform import Platform
from syclsched.testing import faults

pytestmark = pytest.mark.sycl


def coupled_updates(tasks: int = 8) -> TaskGraph:
    graph = TaskGraph("coupled updates")
    arrays = [graph.array(f"x{n}", (64,), DTYPE) for n in range(3)]
    for index in range(tasks):
        graph.kernel(MIX, name=f"mix{index}", x=arrays[(index + 1) % 3], y=arrays[index % 3], a=index + 2)
    return graph


def given_inputs(count: int) -> list[dict[str, Any]]:
    return [{f"x{n}": np.arange(64, dtype=DTYPE) * (n + 1) + turn for n in range(3)} for turn in range(count)]


def spread(graph: TaskGraph, platform: Platform, devices: list[str]) -> Plan:
    lanes = {d.name: d.lanes for d in platform.compute_devices}
    places = [(name, lane) for name in devices for lane in range(lanes[name])]
    return plan_by(graph, platform, lambda n: (*places[int(n[3:]) % len(places)], "opencl-c"))


def check(found: list[Any], inputs: list[dict[str, Any]], graph: TaskGraph) -> None:
    assert len(found) == len(inputs)
    for number, (results, each) in enumerate(zip(found, inputs, strict=True)):
        assert isinstance(results, dict), results
        expected = sequential(graph, each)
        for name, value in results.items():
            np.testing.assert_array_equal(value, expected[name], err_msg=f"{name} of generation {number}")


@pytest.mark.parametrize("kind", FAULTS)
@pytest.mark.parametrize("whole", [True, False])
def test_a_fault_in_a_stream_changes_no_bit(whole: bool, kind: str) -> None:
    platform, devices = live_on(None if whole else 2)
    graph, inputs = coupled_updates(), given_inputs(7)
    names = ["cpu"] if whole else [d.name for d in platform.compute_devices]
    plan = spread(graph, platform, names)
    for number in range(1, 80, 13):
        with bind(plan, graph, devices, recover=True) as runner, faults.inject(FAULTS[kind](number)) as seen:
            stream = runner.stream(inputs, in_flight=3)
            check(list(stream), inputs, graph)
            if seen.injected:
                assert stream.statistics.failed == 0
                recovered = [trace.recoveries for trace in runner.traces() if trace.recoveries]
                assert len(recovered) == 1


@pytest.mark.parametrize("in_flight", [1, 3])
def test_a_stream_continues_without_a_lost_device(in_flight: int) -> None:
    platform, devices = live_on(2)
    graph, inputs = coupled_updates(), given_inputs(9)
    names = [d.name for d in platform.compute_devices]
    with bind(spread(graph, platform, names), graph, devices, recover=True) as runner:
        with faults.inject(faults.lose(names[1], after=11)) as seen:
            stream = runner.stream(inputs, in_flight=in_flight)
            check(list(stream), inputs, graph)
            assert seen.injected
        assert names[1] not in {lane.device for lane in runner.plan.lanes}
        assert stream.statistics.in_flight == in_flight
        check([runner(inputs[0])], inputs[:1], graph)


def test_stream_is_replayed_on_the_other_device() -> None:
    platform, devices = live_on(2)
    graph, inputs = coupled_updates(), given_inputs(9)
    with bind(spread(graph, platform, ["cpu.0", "cpu.1"]), graph, devices, recover=True) as runner:
        assert runner.replayed, runner.why_not_replayed
        with faults.inject(faults.lose("cpu.1", after=6)):
            check(list(runner.stream(inputs, in_flight=3)), inputs, graph)
        assert "cpu.1" not in {lane.device for lane in runner.plan.lanes}


def test_a_fault_in_an_asynchronous_stream_changes_no_bit() -> None:
    platform, devices = live_on(None)
    graph, inputs = coupled_updates(), given_inputs(6)

    async def gather(runner: Any) -> list[Any]:
        return [results async for results in runner.stream(inputs, in_flight=3)]

    with bind(spread(graph, platform, ["cpu"]), graph, devices, recover=True) as runner:
        for fault in (faults.fail_submission(12), faults.fail_on_device(20)):
            with faults.inject(fault) as seen:
                check(asyncio.run(gather(runner)), inputs, graph)
                assert seen.injected


# --- deadlines --------------------------------------------------------------------------------------


@pytest.mark.parametrize("of", ["task", "run"])
@pytest.mark.parametrize("way", ["replayed", "replayed, with a task on the host", "dispatched"])
def test_a_late_generation_fails_alone_at_its_place(
    of: str, way: str, release_when_late: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    if way == "dispatched":
        monkeypatch.setattr(plan_binding, "why_dispatcher_needed", lambda *_: "the test says so")
    platform, devices = live_on(None)
    graph = TaskGraph("late")
    x, y = graph.array("x", (64,), DTYPE), graph.array("y", (64,), DTYPE)
    if way != "replayed":
        graph.host(lambda z: z.fill(1), name="host", z=graph.array("z", (4,), DTYPE).write())
    graph.kernel(MIX, name="first", x=x, y=y, a=1, deadline_s=0.2 if of == "task" else None)
    graph.kernel(ASSIGN_KERNEL, name="second", x=y, y=graph.array("w", (64,), DTYPE))
    places = {"host": ("host", 0, "host")}
    plan = plan_by(graph, platform, lambda n: places.get(n, ("cpu", 0, "opencl-c")))
    inputs = [{"x": np.arange(64), "y": np.arange(64) + turn} for turn in range(4)]
    safeguards = Safeguards(deadline_s=0.2 if of == "run" else None)
    with bind(plan, graph, devices, safeguards=safeguards) as runner:
        assert runner.replayed == (way != "dispatched")
        assert len(list(runner.stream(inputs, in_flight=1))) == 4
        with faults.inject(faults.hang("cpu", after=2)) as injection:
            release_when_late(injection)
            found = list(runner.stream(inputs, in_flight=1, return_exceptions=True))
        late = [isinstance(each, DeadlineError) for each in found]
        assert any(late) and not all(late), found
        assert "generation" in str(next(each for each in found if isinstance(each, DeadlineError)))
        for each, wrong in zip(found, late, strict=True):
            assert wrong or isinstance(each, dict)


def test_waiting_for_another_generation_does_not_count_as_late() -> None:
    platform, devices = live_on(None)
    graph = TaskGraph("behind")
    x, y = graph.array("x", (64,), DTYPE), graph.array("y", (64,), DTYPE)
    graph.kernel(MIX, name="mix", x=x, y=y, a=1)
    plan = plan_by(graph, platform, lambda _: ("cpu", 0, "opencl-c"))
    inputs = [{"x": np.arange(64), "y": np.arange(64) + turn} for turn in range(3)]
    with bind(plan, graph, devices) as runner, faults.inject(faults.hang("cpu")) as injection:
        stream = runner.stream(inputs, in_flight=3)
        while stream._has_room:
            stream._begin(stream._ask(stream._inputs))  # type: ignore[arg-type]
        replays = list(stream._launcher._replays.values())  # type: ignore[attr-defined]
        waits = [p.waits_for for replay in replays for p in replay.positions() if p.begun]
        assert waits.count(None) == 1
        assert sum(1 for each in waits if each and "of another generation on" in each) == 2
        injection.release()
        assert len(list(stream)) == 3


@pytest.mark.other_device
@pytest.mark.gpu_shape
@pytest.mark.parametrize("times", [1, 2, 4])
def test_bind_recovers_from_failed_allocations(times: int) -> None:
    platform, devices = live_on(2)
    graph, inputs = coupled_updates(), given_inputs(4)
    plan = spread(graph, platform, [d.name for d in platform.compute_devices])
    with faults.inject(faults.fail_allocation(1, times=times)) as seen:
        with pytest.raises(MemoryLimitError):
            bind(plan, graph, devices)
        assert len(seen.injected) == 1
    with (
        faults.inject(faults.fail_allocation(1, times=times)) as seen,
        bind(plan, graph, devices, recover=True) as runner,
    ):
        assert len(seen.injected) == times
        with runner.run(inputs[0]) as run:
            check([{name: run.result(name) for name in graph.arrays}], inputs[:1], graph)
            assert [recovery.reason for recovery in run.recoveries] == ["memory"] * times
            assert run.trace().recoveries == run.recoveries
            assert (run.plan == plan) == (times < MOST_STRIKES)
        with runner.run(inputs[1]) as run:
            run.wait()
            assert not run.recoveries
        check(list(runner.stream(inputs)), inputs, graph)
