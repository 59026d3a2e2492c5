# SPDX-License-Identifier: Apache-2.0
"""Conformance of every way to run a graph: the same results, traces, memory limits and use by several threads."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.conformance import Way, check, check_run, over_all_ways, platform_of, releasing, spread
from support.conformance_graphs import SIZE
from support.examples import examples
from support.library_calls import alternating, expected
from support.onednn_calls import linear, needs_onednn
from support.running import ASSIGN, ASSIGN_KERNEL, DTYPE, MIX, SPIN, graphs, inputs_of, plans, sequential

import syclsched
from syclsched.model.graph import TaskGraph
from syclsched.model.operation import Operation

pytestmark = [pytest.mark.sycl, pytest.mark.usefixtures("own_history", "compiled_policies")]


def array(graph: TaskGraph, name: str, factor: int = 1, size: int = SIZE) -> Any:
    return graph.array(name, data=np.arange(size, dtype=DTYPE) * factor)


def everything(assign: Operation = ASSIGN_KERNEL) -> TaskGraph:
    """Return a graph of kernels, host tasks, copies, a reduction, rows, a constant, a barrier, a temporary, an edge."""
    graph = TaskGraph("everything")
    x, y, z = (graph.array(name, (SIZE,), DTYPE) for name in "xyz")
    total, kept = graph.array("total", (1,), DTYPE), graph.array("kept", (SIZE,), DTYPE)
    between = graph.array("between", (SIZE,), DTYPE, temporary=True)
    graph.kernel(MIX, name="first", x=x, y=y, a=2)
    graph.kernel(MIX, name="second", x=x, y=z, a=3)
    graph.kernel(assign, name="set", x=z, y=between)
    graph.kernel(MIX, name="rows", x=z[: SIZE // 2], y=y[SIZE // 2 :], a=5)
    graph.copy(between, kept, name="copied")
    graph.kernel(MIX, name="constant", x=syclsched.constant(np.arange(SIZE), DTYPE, name="c"), y=kept, a=7)
    for name, part in (("sum y", y), ("sum z", z)):
        graph.host(add_sum, name=name, part=part.read(), total=total.reduce(), pure=True)
    graph.host(add_total, name="spread total", y=y.update(), total=total.read(), pure=True)
    graph.barrier(name="barrier")
    graph.kernel(MIX, name="third", x=kept, y=x, a=-1)
    graph.kernel(MIX, name="fourth", x=y, y=z, a=11)
    graph.edge("third", "fourth")
    return graph


def add_sum(part: Any, total: Any) -> None:
    total += part.sum()


def add_total(y: Any, total: Any) -> None:
    y += total[0]


# --- results -----------------------------------------------------------------------------------------


@over_all_ways("results", ["one context", "two contexts", "python library"])
@releasing
def test_results_equal_those_of_the_sequential_program(way: Way, case: str) -> None:
    graph = everything(ASSIGN if case == "python library" else ASSIGN_KERNEL)
    inputs = inputs_of(graph, 1)
    untouched = {name: value.copy() for name, value in inputs.items()}
    wanted = sequential(graph, inputs)
    plan = spread(graph, platform_of(1 if case == "one context" else 2))
    with way.open(graph, plan, inputs) as session:
        for turn in range(2):
            check_run(session, inputs, wanted, graph)
            others = inputs_of(graph, turn + 2)
            check_run(session, others, sequential(graph, others), graph)
    for name, value in untouched.items():
        np.testing.assert_array_equal(inputs[name], value, err_msg=f"input {name} was written to")


@pytest.mark.instruction_sets
@needs_onednn
@over_all_ways("results of a library")
@releasing
def test_results_of_a_library_called_from_c(way: Way) -> None:
    graph = alternating(6, 64, linear())
    inputs = {"y": np.arange(64, dtype=np.float32)}
    with way.open(graph, spread(graph, platform_of(1)), inputs) as session:
        for _ in range(2):
            check_run(session, inputs, {"y": expected(inputs["y"], 6)}, graph)
        if way.name == "called again":
            assert session.runner.handed_over_ns is not None, "not one call of C"  # type: ignore[attr-defined]


@over_all_ways("random graphs")
@releasing
@given(data=st.data())
@settings(max_examples=examples(6), suppress_health_check=list(HealthCheck))
def test_random_graphs(way: Way, data: st.DataObject) -> None:
    graph = data.draw(graphs(max_tasks=10, ranges=data.draw(st.booleans())))
    plan = data.draw(plans(graph, platform_of(data.draw(st.sampled_from([1, 2])))))
    inputs = inputs_of(graph, len(graph))
    with way.open(graph, plan, inputs) as session:
        handle = session.start(inputs)
        handle.wait()
        wanted = sequential(graph, inputs)
        for name, value in written_as_a_whole(graph, inputs).items():
            np.testing.assert_array_equal(handle.result(name), wanted[name], err_msg=value)
        handle.close()


def written_as_a_whole(graph: TaskGraph, inputs: dict[str, Any]) -> dict[str, str]:
    """Return the written arrays whose full value every engine keeps: those without row ranges, and inputs."""
    ranged = {t.arguments[p] for t in graph.tasks for p in t.rows}
    written = {a.array for t in graph.tasks for a in t.accesses if a.mode.writes}
    kept = [n for n in sorted(written) if not graph.arrays[n].temporary and (n in inputs or n not in ranged)]
    return {name: f"array {name}" for name in kept}


# --- traces ------------------------------------------------------------------------------------------


def spins() -> TaskGraph:
    """Return tasks of some milliseconds on all lanes and on the host, so that wrong times are visible."""
    graph = TaskGraph("spins")
    first, second = array(graph, "first"), array(graph, "second")
    for index in range(3):
        graph.kernel(SPIN, name=f"first{index}", y=first, turns=1_000_000)
        graph.kernel(SPIN, name=f"second{index}", y=second, turns=1_000_000)
    graph.host(add_sum, name="host", part=first.read(), total=array(graph, "total", size=1).update())
    graph.barrier(name="barrier")
    graph.kernel(SPIN, name="end", y=first, turns=1_000_000)
    graph.edge("first0", "second1")
    return graph


@over_all_ways("trace", ["one context", "two contexts"])
@releasing
def test_a_trace_has_every_task_once_and_in_order(way: Way, case: str) -> None:
    graph = spins()
    plan = spread(graph, platform_of(1 if case == "one context" else 2))
    with way.open(graph, plan, trace=True) as session:
        handle = session.start()
        handle.wait()
        trace = handle.trace()
        assert {s.outcome for s in trace.spans} == {"done"}
        assert trace.recoveries == ()
        for generation in range(session.runs_per_handle):
            spans = [s for s in trace.spans if s.generation == generation]
            tasks = Counter(s.task for s in spans if s.kind in ("launch", "host", "barrier"))
            assert tasks == {task.name: 1 for task in graph.tasks}
            if not way.decides_while_running:
                planned = [i for _, i in plan.instructions() if i.kind not in ("alloc", "free")]
                assert len(spans) == len(planned)
            by_task = {s.task: s for s in spans if s.kind in ("launch", "host")}
            for dependency in graph.dependencies():
                if dependency.before in by_task and dependency.after in by_task:
                    before, after = by_task[dependency.before], by_task[dependency.after]
                    assert before.finish_s <= after.start_s + 1e-3, (before, after)
            by_number = {s.instruction: s for s in spans}
            assert len(by_number) == len(spans)
            for s in spans:
                assert s.start_s <= s.finish_s
                assert all(by_number[n].finish_s <= s.start_s + 1e-3 for n in s.waits)
        handle.close()


# --- memory ------------------------------------------------------------------------------------------


@over_all_ways("memory", ["one context", "two contexts"])
@releasing
def test_memory_stays_within_the_limit_and_the_plans_proof(way: Way, case: str) -> None:
    """Eight arrays, and memory for three on each device."""
    size = 1000
    graph = TaskGraph("tight")
    arrays = [array(graph, f"a{n}", n + 1, size) for n in range(8)]
    for step in range(2):
        for n in range(8):
            graph.kernel(MIX, name=f"t{step}_{n}", x=arrays[(n + step) % 8], y=arrays[(n + step + 1) % 8], a=n)
    free = platform_of(1 if case == "one context" else 2)
    limits = {device.name: 3 * 8 * size for device in free.compute_devices}
    plan = spread(graph, syclsched.with_memory_limit(free, limits))
    assert any(instruction.kind == "free" for _, instruction in plan.instructions())
    options: dict[str, Any] = {"in_flight": 1} if way.name == "stream" else {}
    with way.open(graph, plan, trace=True, **options) as session:
        handle = session.start()
        check(handle, sequential(graph, graph.data), graph)
        for space, peak in handle.trace().peak_bytes.items():
            if space != "host":
                assert peak <= limits[space]
            if not way.decides_while_running:
                assert peak <= plan.peak_bytes[space]
        handle.close()


# --- threads -----------------------------------------------------------------------------------------


def in_threads(work: Callable[[int], None], count: int = 4) -> None:
    """Call a function on several threads at once; raise what it raises."""
    begin, errors = threading.Barrier(count), list[BaseException]()

    def body(number: int) -> None:
        try:
            begin.wait(60)
            work(number)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=body, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(180)
    assert not any(thread.is_alive() for thread in threads)
    if errors:
        raise errors[0]


@over_all_ways("shared handle")
@releasing
def test_several_threads_may_read_one_run(way: Way) -> None:
    graph = everything()
    inputs = inputs_of(graph, 1)
    wanted = sequential(graph, inputs)
    with way.open(graph, spread(graph, platform_of(2)), inputs) as session:
        handle = session.start(inputs)
        in_threads(lambda _: check(handle, wanted, graph))
        handle.close()


@over_all_ways("shared session")
@releasing
def test_several_threads_may_run_one_graph(way: Way) -> None:
    graph = everything()
    given_inputs = [inputs_of(graph, seed) for seed in range(4)]
    wanted = [sequential(graph, inputs) for inputs in given_inputs]
    with way.open(graph, spread(graph, platform_of(2)), given_inputs[0]) as session:
        in_threads(lambda n: [check_run(session, given_inputs[n], wanted[n], graph) for _ in range(2)])


@over_all_ways("sessions at once")
@releasing
def test_several_threads_may_run_graphs_of_their_own(way: Way) -> None:
    def one(number: int) -> None:
        graph = everything()
        inputs = inputs_of(graph, number)
        with way.open(graph, spread(graph, platform_of(2)), inputs) as session:
            check_run(session, inputs, sequential(graph, inputs), graph)

    in_threads(one)
