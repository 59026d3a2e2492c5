# SPDX-License-Identifier: Apache-2.0
"""Donated inputs: tasks overwrite the memory of the value passed to a run."""

from __future__ import annotations

import numpy as np
import pytest
from support.opened import with_own_memory

import syclsched
from syclsched.devices.memory.resident_array import ResidentArray
from syclsched.execution.memory.inputs import to_numpy
from syclsched.kernels import get

pytestmark = pytest.mark.sycl


def accumulating(*, donated: bool) -> syclsched.TaskGraph:
    """Return a graph that adds x to a sum, and copies the sum."""
    graph = syclsched.TaskGraph("accumulating")
    total = graph.array("total", (50,), "float64", donated=donated)
    x, y = graph.array("x", (50,)), graph.array("y", (50,))
    graph.kernel(get("axpy"), y=total.update(), x=x, alpha=1.0)
    graph.kernel(get("copy"), y=y, x=total)
    return graph


def test_a_donated_input_is_updated_in_place() -> None:
    graph = accumulating(donated=True)
    with syclsched.bind(graph, syclsched.discover("cpu")) as runner:
        total = runner.buffer("total")
        for turn, wanted in enumerate((1.0, 3.0, 6.0), 1):
            assert (runner({"x": np.full(50, float(turn))}, ["y"])["y"] == wanted).all()
            assert (total == wanted).all()
        # A value in memory that kernels cannot reach is copied, and the result must be copied back.
        other = np.zeros(50)
        assert (runner({"x": np.ones(50), "total": other}, ["total"])["total"] == 1).all()


def test_donated_input_stays_in_device_memory() -> None:
    platform = with_own_memory(syclsched.discover("cpu"), "cpu")
    with syclsched.bind(accumulating(donated=True), platform, policy="single:cpu") as runner:
        assert runner.plan.residents == {"total": "cpu"} and runner.replayed
        assert "total" not in [i.uses[0].array for _, i in runner.plan.instructions() if i.kind == "copy"]
        total = runner.buffer("total")
        assert isinstance(total, ResidentArray)
        for turn, wanted in enumerate((1.0, 3.0, 6.0), 1):
            assert (runner({"x": np.full(50, float(turn))}, ["y"])["y"] == wanted).all()
            assert (total.read() == wanted).all()
        total.write(0.5)
        run = runner.run({"x": np.ones(50)})
        assert (run.result("total") == 1.5).all()
        assert (to_numpy(run.result("total", like="usm_ndarray")) == 1.5).all()
        run.wait()
        # A value in host memory is copied, and is not changed.
        other = np.zeros(50)
        assert (runner({"x": np.ones(50), "total": other}, ["total"])["total"] == 1).all()
        assert (other == 0).all() and (total.read() == 1.5).all()
        assert (runner({"x": np.ones(50)}, ["y"])["y"] == 2.5).all()
        assert [each["y"][0] for each in runner.stream([{"x": np.ones(50)}] * 3, in_flight=1)] == [3.5, 4.5, 5.5]


@pytest.mark.parametrize("debug", [False, True])
def test_run_begins_with_given_value_of_donated_input(debug: bool) -> None:
    platform = with_own_memory(syclsched.discover("cpu"), "cpu")
    given = {"x": np.ones(50), "total": np.full(50, 2.0)}
    graph = accumulating(donated=True)
    with syclsched.run(graph, platform, policy="single:cpu", inputs=given, debug=debug) as run:
        assert (run.result("total") == 3).all() and (run.result("y") == 3).all()
    assert (given["total"] == 2).all()


def test_a_large_donated_input_is_not_split() -> None:
    platform = syclsched.discover("cpu", sub_devices=2)
    graph, count = syclsched.TaskGraph(), 3_000_000
    total = graph.array("total", (count,), "float64", donated=True)
    graph.kernel(get("axpy"), y=total.update(), x=graph.array("x", (count,)), alpha=1.0)
    with syclsched.bind(graph, platform) as runner:
        found = runner.buffer("total")
        runner({"x": np.ones(count)})
        assert (found == 1).all()


def test_the_buffer_of_a_split_input_is_refused() -> None:
    graph = syclsched.TaskGraph()
    x = graph.array("x", (50,), usm="shared")
    graph.kernel(get("copy"), y=graph.array("y", (25,)), x=x[0:25])
    with (
        syclsched.bind(graph, syclsched.discover("cpu")) as runner,
        pytest.raises(syclsched.errors.ArgumentError, match=r"'x'.*split by rows"),
    ):
        runner.buffer("x")


def test_without_donation_inputs_stay() -> None:
    total = np.zeros(50)
    with syclsched.bind(accumulating(donated=False), syclsched.discover("cpu")) as runner:
        for _ in range(2):
            assert (runner({"x": np.ones(50), "total": total}, ["y"])["y"] == 1).all()
    assert not total.any()


def test_host_functions_update_a_donated_input() -> None:
    graph = syclsched.TaskGraph()
    total = graph.array("total", (3,), "float64", donated=True)
    graph.host(lambda total: np.add(total, 1, out=total), total=total.update())
    with syclsched.bind(graph, syclsched.discover("cpu")) as runner:
        mine = np.zeros(3)
        for turn in (1, 2):
            runner({"total": mine})
            assert (mine == turn).all()
