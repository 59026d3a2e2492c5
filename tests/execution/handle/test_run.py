# SPDX-License-Identifier: Apache-2.0
"""Runs of plans on live devices: equal bits for all placements, the memory of the plan, and refusals."""

from __future__ import annotations

import gc
import threading
import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.examples import examples
from support.gpu_shape import OTHER_DEVICE
from support.opened import REFUSED, check_refused, live_on, refused_graph
from support.running import (
    ASSIGN,
    DTYPE,
    MIX,
    Gate,
    check_spans,
    given_chain,
    graphs,
    inputs_of,
    plan_by,
    plan_on,
    plans,
    sequential,
)

import syclsched
from syclsched.api import with_lanes
from syclsched.devices.native.memory_range import MemoryRange
from syclsched.errors import (
    ArgumentError,
    ExecutionError,
    IncompletePlanError,
    RaceError,
    TaskFailedError,
    UnknownArrayError,
    UnseenFailureWarning,
    WaitTimeoutError,
)
from syclsched.execution import Run, bind, execute
from syclsched.model.graph import TaskGraph
from syclsched.model.platform import Platform
from syclsched.oneapi.dpctl_interface import usm_arrays

pytestmark = [pytest.mark.sycl, pytest.mark.usefixtures("nothing_is_left_running")]


# --- same answer ----------------------------------------------------------------------------------


@given(data=st.data())
@settings(max_examples=examples(20), suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@pytest.mark.parametrize("sub_devices", [None, 2])
def test_random_graphs_have_the_bits_of_numpy_for_any_placement(sub_devices: int | None, data: st.DataObject) -> None:
    platform, live = live_on(sub_devices)
    graph = data.draw(graphs())
    plan = data.draw(plans(graph, platform))
    inputs = inputs_of(graph, len(graph))
    untouched = {name: value.copy() for name, value in inputs.items()}
    with execute(plan, graph, live, inputs) as run:
        run.wait()
        expected = sequential(graph, inputs)
        for array in plan.arrays:
            if not array.temporary:
                np.testing.assert_array_equal(run.result(array.name), expected[array.name], err_msg=array.name)
        trace = run.trace()
    for name, value in untouched.items():
        np.testing.assert_array_equal(inputs[name], value, err_msg=f"input {name} was written to")
    check_spans(trace, graph)
    assert all(held <= plan.peak_bytes[space] for space, held in trace.peak_bytes.items())
    assert trace.submissions == sum(1 for s in trace.spans if s.lane_kind != "host")


def test_refused_kernel_among_others_names_its_task(live: tuple[Platform, Any]) -> None:
    platform, devices = live
    graph = refused_graph()
    run = execute(plan_on(graph, platform, "cpu"), graph, devices)
    check_refused(run)
    run.close()


def failing(platform: Platform, devices: Any) -> Run:
    """Start a run whose only task fails, and wait for its end without reading its error."""
    graph = TaskGraph("unseen")
    graph.kernel(REFUSED, name="bad", x=graph.array("x", data=np.arange(100)), y=graph.array("y", (100,), DTYPE), a=1)
    run = execute(plan_on(graph, platform, "cpu"), graph, devices, {"y": np.zeros(100, DTYPE)})
    run.join()
    return run


def test_an_unseen_failure_is_warned_of_when_the_run_is_deleted(
    live: tuple[Platform, Any], caplog: pytest.LogCaptureFixture
) -> None:
    run = failing(*live)
    with pytest.warns(UnseenFailureWarning, match=r"'unseen': the run failed, and nothing has waited.*task 'bad'"):
        del run
    assert "task 'bad'" in caplog.text


def test_an_unseen_failure_is_warned_of_at_the_next_run(live: tuple[Platform, Any]) -> None:
    platform, devices = live
    graph = TaskGraph("unseen")
    graph.kernel(
        REFUSED, name="bad", x=graph.array("x", data=np.arange(100)), y=graph.array("y", data=np.arange(100)), a=1
    )
    with bind(plan_on(graph, platform, "cpu"), graph, devices) as runner:
        first = runner.run()
        first.join()
        with pytest.warns(UnseenFailureWarning, match="task 'bad'"):
            second = runner.run()
        with pytest.raises(TaskFailedError, match="'bad'"):
            second.wait()


@pytest.mark.parametrize("look", ["wait", "result", "trace", "close"])
def test_a_failure_that_was_seen_is_not_warned_of(look: str, live: tuple[Platform, Any]) -> None:
    run = failing(*live)
    if look in ("wait", "result"):
        with pytest.raises(TaskFailedError, match="'bad'"):
            run.wait() if look == "wait" else run.result("y")
    elif look == "trace":
        assert [s.outcome for s in run.trace().spans if s.kind == "launch"] == ["failed"]
    else:
        run.close()
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        del run
    assert not told


@pytest.mark.parametrize("device", ["cpu", OTHER_DEVICE, "host"])
@pytest.mark.parametrize("like", ["numpy", "dpnp", "usm_ndarray"])
def test_result_has_the_requested_array_type(device: str, like: Any, live: tuple[Platform, Any]) -> None:
    platform, devices = live
    if device not in {d.name for d in platform.devices}:
        pytest.skip(f"no device {device!r} here")
    graph = given_chain()
    implementation = "host" if device == "host" else "opencl-c"
    plan = plan_by(graph, platform, lambda _: (device, 0, implementation))
    expected = sequential(graph, graph.data)
    with execute(plan, graph, devices) as run:
        run.wait()
        value, source = run.result("y", like=like), run.result(graph.arrays["x"], like=like)
    kind = {"numpy": np.ndarray, "dpnp": "dpnp_array", "usm_ndarray": "usm_ndarray"}[like]
    assert isinstance(value, kind) if isinstance(kind, type) else type(value).__name__ == kind
    if like != "numpy":
        tensor = usm_arrays()

        value, source = (tensor.asnumpy(v.get_array() if like == "dpnp" else v) for v in (value, source))
    np.testing.assert_array_equal(value, expected["y"])
    np.testing.assert_array_equal(source, graph.data["x"])


def test_inputs_may_be_device_arrays_and_strided(live: tuple[Platform, Any]) -> None:
    import dpnp

    tensor = usm_arrays()

    platform, devices = live
    graph = TaskGraph("inputs")
    arrays = [graph.array(n, (6,), DTYPE) for n in "abc"]
    graph.kernel(MIX, x=arrays[0], y=arrays[1], a=2)
    graph.kernel(MIX, x=arrays[1], y=arrays[2], a=2)
    inputs = {"a": dpnp.arange(6, dtype=DTYPE), "b": tensor.arange(6, dtype=DTYPE), "c": np.arange(12)[::2]}
    with execute(plan_on(graph, platform, "cpu"), graph, devices, inputs) as run:
        got = run.result("c")
    values = {"a": np.arange(6), "b": np.arange(6), "c": np.arange(12)[::2]}
    np.testing.assert_array_equal(got, sequential(graph, values)["c"])


def test_many_waits_become_one_fence(live: tuple[Platform, Any]) -> None:
    platform, devices = live
    platform = with_lanes(platform, 12)
    graph = TaskGraph("fan-in")
    size = 1 << 21  # kernels so long that most still run when the last is submitted: only their events are fenced
    x = graph.array("x", data=np.ones(size, DTYPE))
    parts = [graph.array(f"p{i}", data=np.full(size, i)) for i in range(11)]
    for i, part in enumerate(parts):
        graph.kernel(MIX, name=f"part{i}", x=x, y=part, a=1)
    graph.barrier(name="meet")
    graph.kernel(MIX, name="after", x=x, y=x_copy(graph, x), a=1)

    def place(name: str) -> tuple[str, int, str | None]:
        lane = int(name[4:]) if name.startswith("part") else 11
        implementation = graph.find_task(name).operation
        return "cpu", lane, None if implementation is None else implementation.implementations[0].name

    with execute(plan_by(graph, platform, place), graph, devices) as run:
        run.wait()
        assert run.trace().barriers >= 1
        np.testing.assert_array_equal(run.result("copy"), sequential(graph, graph.data)["copy"])


def x_copy(graph: TaskGraph, x: Any) -> Any:
    copy = graph.array("copy", x.shape, x.dtype)
    graph.kernel(ASSIGN, name="copy", x=x, y=copy)
    return copy


def test_result_of_an_early_task_does_not_wait_for_the_end(live: tuple[Platform, Any]) -> None:
    platform, devices = live
    gate = Gate()
    graph = given_chain(3)
    z = graph.array("z", data=np.zeros(1, DTYPE))
    graph.host(gate, y=z.update(), name="gate")
    with execute(plan_on(graph, platform, "cpu"), graph, devices) as run:
        assert gate.entered.wait(60)
        np.testing.assert_array_equal(run.result("y"), sequential(given_chain(3), graph.data)["y"])
        assert not run.done()
        left = r"lane host:0 is at task 'gate' \(1 of \d+\)$"
        with pytest.raises(WaitTimeoutError, match=rf"array 'z': not there after 0.01 s: {left}|{left}"):
            run.result("z", timeout=0.01)
        with pytest.raises(WaitTimeoutError, match="lane host:0 is at task 'gate'"):
            run.wait(timeout=0.01)
        gate.opened.set()
        run.wait()
        assert run.result("z").tolist() == [1]


def test_arrays_no_task_touches(live: tuple[Platform, Any]) -> None:
    platform, devices = live
    graph = given_chain(1)
    graph.array("idle", data=np.arange(3))
    graph.array("empty", (3,))
    with execute(plan_on(graph, platform, "cpu"), graph, devices) as run:
        assert run.result("idle").tolist() == [0, 1, 2]
        with pytest.raises(UnknownArrayError, match="no value was given"):
            run.result("empty")
        with pytest.raises(ArgumentError, match="like="):
            run.result("idle", like="torch")


def test_a_wrong_result_name_suggests_the_right_one() -> None:
    graph = syclsched.TaskGraph("sum")
    graph.submit(np.sum, graph.array("numbers", data=np.arange(3)), name="total")
    with syclsched.run(graph) as run:
        with pytest.raises(UnknownArrayError, match=r"A result of that task is 'total\.result'"):
            run.result("total")
        with pytest.raises(UnknownArrayError, match=r"no value was given for it. There are numbers, total\.result"):
            run.result("y")
        with pytest.raises(UnknownArrayError, match="Did you mean 'numbers'"):
            run.result("nubmers")


def test_a_graph_without_tasks_is_done_at_once(live: tuple[Platform, Any]) -> None:
    platform, devices = live
    graph = TaskGraph("nothing")
    with execute(plan_on(graph, platform, "cpu"), graph, devices) as run:
        run.wait()
        assert run.trace().spans == ()


# --- memory ---------------------------------------------------------------------------------------


def test_temporaries_stay_within_the_planned_peak_memory(live: tuple[Platform, Any]) -> None:
    platform, devices = live
    graph = TaskGraph("temporaries")
    size = 1000
    x = graph.array("x", data=np.arange(size, dtype=DTYPE))
    y = graph.array("y", data=np.zeros(size, DTYPE))
    for i in range(20):
        temporary = graph.array(f"t{i}", (size,), DTYPE, temporary=True)
        graph.kernel(ASSIGN, name=f"set{i}", x=x, y=temporary)
        graph.kernel(MIX, name=f"use{i}", x=temporary, y=y, a=1)
    plan = plan_by(graph, platform, lambda n: ("cpu", int(n[3:]) % 2, "library" if n[:3] == "set" else "opencl-c"))
    assert plan.peak_bytes["cpu"] < 10 * 8 * size
    with execute(plan, graph, devices) as run:
        np.testing.assert_array_equal(run.result("y"), sequential(graph, graph.data)["y"])
        assert run.trace().peak_bytes["cpu"] <= plan.peak_bytes["cpu"]
        assert len(run._resources.engine.buffers) <= 4  # x and y, on the host and on the device
        with pytest.raises(UnknownArrayError, match="temporary"):
            run.result("t3")


def test_memory_is_freed_at_close(live: tuple[Platform, Any]) -> None:
    import weakref

    platform, devices = live
    graph = given_chain()
    with execute(plan_on(graph, platform, "cpu"), graph, devices) as run:
        run.wait()
        held = run._resources.engine.buffers["y", "cpu"]
        alive = weakref.ref(held)
        assert held.storage.nbytes == 800
    del held
    gc.collect()
    assert alive() is None
    with pytest.raises(ExecutionError, match="closed"):
        run.result("y")


def test_kernels_need_no_dpctl_arrays(live: tuple[Platform, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[MemoryRange] = []
    make = MemoryRange._on

    def noted(self: MemoryRange, queue: Any) -> Any:
        made.append(self)
        return make(self, queue)

    monkeypatch.setattr(MemoryRange, "_on", noted)
    platform, devices = live
    for length in (1, 20):  # launches one by one, and joined
        graph = given_chain(length)
        with execute(plan_on(graph, platform, "cpu"), graph, devices) as run:
            np.testing.assert_array_equal(run.result("y"), sequential(graph, graph.data)["y"])
    assert not made, "each takes tens of microseconds"
    with execute(plan_on(graph, platform, "cpu"), graph, devices) as run:
        run.result("y", like="usm_ndarray")
    assert made


def test_device_array_outlives_the_run(live: tuple[Platform, Any]) -> None:
    tensor = usm_arrays()

    platform, devices = live
    graph = given_chain()
    with execute(plan_on(graph, platform, "cpu"), graph, devices) as run:
        run.wait()
        value = run.result("y", like="usm_ndarray")
    del run
    gc.collect()
    np.testing.assert_array_equal(tensor.asnumpy(value), sequential(graph, graph.data)["y"])


def test_a_deleted_run_ends_and_frees_its_memory(live: tuple[Platform, Any]) -> None:
    platform, devices = live
    gate = Gate()
    graph = TaskGraph("dropped")
    y = graph.array("y", data=np.zeros(4, DTYPE))
    graph.host(gate, y=y.update(), name="gate")
    graph.kernel(MIX, name="later", x=graph.array("x", data=np.zeros(4, DTYPE)), y=y, a=1)
    run = execute(plan_on(graph, platform, "cpu"), graph, devices)
    dispatcher = run._resources.engine
    assert gate.entered.wait(60)
    del run
    gc.collect()
    gate.opened.set()
    dispatcher.join(60)
    assert dispatcher.finished.is_set()
    assert len(dispatcher.buffers) == 0
    outcome = {dispatcher.program.nodes[n].instruction.task: r.outcome for n, r in dispatcher.records.items()}
    assert outcome["later"] == "cancelled"


# --- refused before anything runs -----------------------------------------------------------------


def test_bad_inputs_are_refused(live: tuple[Platform, Any]) -> None:
    platform, devices = live
    graph = TaskGraph("inputs")
    graph.kernel(MIX, x=graph.array("x", (3,), DTYPE), y=graph.array("y", (3,), DTYPE), a=1)
    plan = plan_on(graph, platform, "cpu")
    good = {"x": np.zeros(3, DTYPE), "y": np.zeros(3, DTYPE)}
    with pytest.raises(ArgumentError, match="no value is given for y"):
        execute(plan, graph, devices, {"x": good["x"]})
    with pytest.raises(UnknownArrayError, match="'typo'"):
        execute(plan, graph, devices, {**good, "typo": good["x"]})
    with pytest.raises(ArgumentError, match="shape \\(4,\\)"):
        execute(plan, graph, devices, {**good, "x": np.zeros(4, DTYPE)})
    with pytest.raises(ArgumentError, match="float32"):
        execute(plan, graph, devices, {**good, "x": np.zeros(3, "float32")})


def test_plan_for_another_graph_is_refused(live: tuple[Platform, Any]) -> None:
    platform, devices = live
    with pytest.raises(IncompletePlanError, match="another graph"):
        execute(plan_on(given_chain(2), platform, "cpu"), given_chain(3), devices)


def test_plan_with_a_dropped_wait_is_refused(live: tuple[Platform, Any]) -> None:
    platform, devices = live
    graph = given_chain(2)
    plan = plan_by(graph, platform, lambda n: ("cpu", int(n[3:]), "opencl-c"))
    lanes = tuple(replace(n, instructions=tuple(replace(i, waits=()) for i in n.instructions)) for n in plan.lanes)
    with pytest.raises(RaceError):
        execute(replace(plan, lanes=lanes), graph, devices)


def test_plan_with_an_unknown_implementation_is_refused(live: tuple[Platform, Any]) -> None:
    platform, devices = live
    graph = given_chain(1)
    plan = plan_by(graph, platform, lambda _: ("cpu", 0, "no-such"))
    with pytest.raises(IncompletePlanError, match="no implementation 'no-such'"):
        execute(plan, graph, devices)
    plan = plan_by(graph, platform, lambda _: ("cpu", 0, "host"))
    with pytest.raises(IncompletePlanError, match="cannot be run by a launch"):
        execute(plan, graph, devices)


# --- pace -----------------------------------------------------------------------------------------


def test_a_long_chain_is_paced_and_right(live: tuple[Platform, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    from syclsched.execution.lanes import pacing

    monkeypatch.setattr(pacing, "FEWEST_AHEAD", 1)
    monkeypatch.setattr(pacing, "MOST_AHEAD", 4)
    platform, devices = live
    graph = given_chain(60)
    x, y = graph.arrays["x"], graph.arrays["y"]
    for i in range(20):
        temporary = graph.array(f"t{i}", x.shape, x.dtype, temporary=True)
        graph.kernel(ASSIGN, name=f"set{i}", x=y, y=temporary)
        graph.kernel(MIX, name=f"use{i}", x=temporary, y=y, a=1)
    place = {"mix": "opencl-c", "set": "library", "use": "opencl-c"}
    names = sorted(d.name for d in platform.compute_devices)
    plan = plan_by(graph, platform, lambda n: (names[len(n) % len(names)], int(n[3:]) % 2, place[n[:3]]))
    with execute(plan, graph, devices) as run:
        np.testing.assert_array_equal(run.result("y", timeout=120), sequential(graph, graph.data)["y"])


def test_a_run_is_shown_as_its_report_when_it_has_ended() -> None:
    graph = TaskGraph("<shown>")
    begun = threading.Event()
    x = graph.array("x", (4,))
    graph.host(lambda x: (begun.wait(60), x.fill(1.0)), x=x.write(), name="fill")
    with syclsched.run(graph) as run:
        assert str(run) == repr(run) == "<Run of '<shown>': running>"
        assert "&lt;Run of &#x27;&lt;shown&gt;" in run._repr_html_()
        begun.set()
        run.wait()
        shown = run._repr_html_()
        assert "Run of &lt;shown&gt;" in shown and "data:image/png" in shown
        assert str(run).startswith("Run of <shown>\n  Makespan")
        for heading in ("Where every kind of task ran", "How busy every device was"):
            assert heading in str(run) and heading in shown
    assert str(run).startswith("Run of <shown>")
