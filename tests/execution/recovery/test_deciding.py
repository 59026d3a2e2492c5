# SPDX-License-Identifier: Apache-2.0
"""Recovery of dynamic runs: equal bits for every fault at any time."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.examples import examples
from support.injected import FAULTS
from support.opened import REFUSED
from support.running import DTYPE, JUDGE, MIX, check_results, graphs, inputs_of, sequential
from support.starting import live_called, start

from syclsched.errors import TaskFailedError
from syclsched.model.graph import TaskGraph
from syclsched.testing import faults

pytestmark = [pytest.mark.sycl, pytest.mark.usefixtures("compiled_policies")]

DEADLINE_S = 240.0
POLICIES = ("eager", "dmdas", "stealing", "hybrid")


def coupled_updates(tasks: int = 12) -> TaskGraph:
    graph = TaskGraph("coupled updates")
    arrays = [graph.array(f"x{n}", data=np.arange(64, dtype=DTYPE) * (n + 1)) for n in range(3)]
    for index in range(tasks):
        mine, other = arrays[index % 3], arrays[(index + 1) % 3]
        if index % 4 == 3:
            between = graph.array(f"t{index}", (64,), DTYPE, temporary=True)
            graph.host(lambda x, y: np.copyto(y, x), name=f"set{index}", x=other.read(), y=between.write(), pure=True)
            other = between
        graph.kernel(MIX, name=f"mix{index}", x=other, y=mine, a=index + 2)
    return graph


@pytest.mark.parametrize("kind", FAULTS)
@pytest.mark.parametrize("where", ["all", "cpu"])
def test_a_fault_at_any_point_changes_no_bit(where: str, kind: str) -> None:
    live = live_called(where)
    graph = coupled_updates()
    expected = sequential(graph, graph.data)
    injected = 0
    for number in range(1, 40, 5):
        policy = POLICIES[number // 5 % len(POLICIES)]
        with faults.inject(FAULTS[kind](number)) as seen, start(graph, live, policy, recover=True) as run:
            check_results(run, graph, expected)
            injected += len(seen.injected)
            assert len(run.recoveries) == len(seen.injected)
            assert run.trace().recoveries == run.recoveries
            done = {s.task for s in run.trace().spans if s.outcome == "done"}
            assert done >= {t.name for t in graph.tasks}
    assert injected


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("after", [0, 2, 5])
def test_runs_continue_without_a_lost_device(policy: str, after: int) -> None:
    live = live_called("parts")
    graph = coupled_updates()
    lost = live.platform.compute_devices[0].name
    with faults.inject(faults.lose(lost, after=after)) as seen, start(graph, live, policy, recover=True) as run:
        check_results(run, graph, sequential(graph, graph.data))
        if seen.injected:
            assert run.recoveries[0].lost == (lost,)


@given(data=st.data())
@settings(max_examples=examples(12), suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@pytest.mark.parametrize("where", ["all", "parts", "halves"])
def test_random_faults_in_random_graphs_change_no_bit(where: str, data: st.DataObject) -> None:
    live = live_called(where)
    graph = data.draw(graphs(ranges=data.draw(st.booleans())))
    inputs = inputs_of(graph, len(graph))
    untouched = {name: value.copy() for name, value in inputs.items()}
    expected = sequential(graph, inputs)
    device = data.draw(st.sampled_from([d.name for d in live.platform.compute_devices]))
    lost = faults.lose(device, after=data.draw(st.integers(0, 12)))
    chosen = data.draw(
        st.sampled_from([(faults.at_random(0.1, most=3),), (lost,), (lost, faults.at_random(0.05, most=2))])
    )
    policy = data.draw(st.sampled_from([*POLICIES, "anywhere"]))
    with (
        faults.inject(*chosen, seed=data.draw(st.integers(0, 99))),
        start(graph, live, policy, inputs, recover=True) as run,
    ):
        run.wait(DEADLINE_S)
        for name in graph.arrays:
            touched = any(a.array == name for t in graph.tasks for a in t.accesses)
            if touched and not graph.arrays[name].temporary and (name in inputs or name not in graph.segments()):
                np.testing.assert_array_equal(run.result(name), expected[name], err_msg=name)
    for name, value in untouched.items():
        np.testing.assert_array_equal(inputs[name], value, err_msg=f"input {name} was written to")


def test_a_permanent_failure_reports_its_cause_and_others_finish() -> None:
    live = live_called("cpu")
    graph = coupled_updates()
    y = graph.array("y", data=np.zeros(100, DTYPE))
    graph.kernel(REFUSED, name="bad", x=graph.array("x", data=np.ones(100, DTYPE)), y=y, a=1)
    graph.kernel(MIX, name="after", x=y, y=graph.array("z", data=np.ones(100, DTYPE)), a=1)
    with start(graph, live, "dmdas", recover=True) as run:
        with pytest.raises(TaskFailedError, match=r"task 'bad'.*could not be submitted"):
            run.wait(DEADLINE_S)
        expected = sequential(coupled_updates(), graph.data)
        for name in ("x0", "x1", "x2"):
            np.testing.assert_array_equal(run.result(name), expected[name])
        for name in ("y", "z"):
            with pytest.raises(TaskFailedError, match="task 'bad'"):
                run.result(name)


def test_a_task_with_a_failure_status_is_retried() -> None:
    live = live_called("cpu")
    graph = TaskGraph("status")
    x = graph.array("x", data=np.full(3, -1, DTYPE))
    graph.kernel(JUDGE, name="judge", x=x, status=graph.array("status", (1,), "int32"), retries=2)
    with start(graph, live, "eager", recover=True) as run:
        with pytest.raises(TaskFailedError, match=r"task 'judge'.*x is negative"):
            run.wait(DEADLINE_S)
        assert [r.reason for r in run.recoveries] == ["status", "status"]


def test_a_host_function_is_retried_up_to_its_limit() -> None:
    live = live_called("cpu")
    graph = TaskGraph("raises")
    calls: list[int] = []

    def flaky(y: Any) -> None:
        calls.append(1)
        raise OSError("again")

    graph.host(flaky, name="flaky", y=graph.array("y", data=np.zeros(4, DTYPE)).update(), retries=2)
    with start(graph, live, "eager", recover=True) as run, pytest.raises(TaskFailedError, match="again"):
        run.wait(DEADLINE_S)
    assert len(calls) == 3
    assert run.recoveries == ()


def test_memory_is_freed_after_a_recovery() -> None:
    live = live_called("all")
    graph = coupled_updates()
    expected = sequential(graph, graph.data)
    held: list[int] = []
    for number in range(3):
        with faults.inject(faults.fail_submission(4 + number)), start(graph, live, "dmdas", recover=True) as run:
            check_results(run, graph, expected)
        del run
        gc.collect()
        held.append(sum(info.in_use_bytes for info in live.memory().values()))
    assert len(set(held)) == 1


@pytest.mark.parametrize("recover", [True, False])
def test_results_after_a_failed_copy_raise_its_error(recover: bool) -> None:
    live = live_called("cpu")
    graph = TaskGraph("chain")
    x, y, z = (graph.array(name, data=np.arange(64, dtype=DTYPE)) for name in "xyz")
    graph.kernel(MIX, name="first", x=x, y=y, a=1)
    graph.kernel(MIX, name="second", x=y, y=z, a=1)
    graph.kernel(MIX, name="third", x=z, y=graph.array("w", data=np.ones(64, DTYPE)), a=1)
    expected = sequential(graph, graph.data)
    # The loss is found after all has been submitted.
    with (
        faults.inject(faults.fail_on_device(1, device="cpu"), faults.hang("cpu")) as seen,
        start(graph, live, "eager", recover=recover) as run,
    ):
        assert run._resources.engine.wait_submitted(2, DEADLINE_S)
        seen.release()
        if recover:
            check_results(run, graph, expected)
            return
        with pytest.raises(TaskFailedError):
            run.wait(DEADLINE_S)
        for name in "yzw":
            with pytest.raises(TaskFailedError):
                run.result(name)
