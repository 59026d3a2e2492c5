# SPDX-License-Identifier: Apache-2.0
"""Implementations that a device or a library refuses are not used, however a graph is planned and run."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from support.running import DTYPE, MIX

import syclsched
from syclsched import TaskGraph
from syclsched.errors import CapabilityError
from syclsched.model.operation import Implementation, Signature

pytestmark = [pytest.mark.sycl, pytest.mark.gpu_shape]
SIZE = 1000


class Refusing:
    """A library that takes no device."""

    asked = 0

    def check(self, queue: Any) -> None:
        type(self).asked += 1
        raise CapabilityError("no engine", where="a library")

    def __call__(self, queue: Any, arguments: Any, depends: list[Any]) -> Any:
        raise AssertionError("it was to be asked first")


def load(signature: Signature) -> Refusing:
    return Refusing()


@pytest.fixture
def data(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    """No measured times, and no refusals known."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    Refusing.asked = 0


def graph_of(*others: Implementation) -> TaskGraph:
    """A graph whose operation has a library, which its efficiency makes the first choice on every device."""
    library = Implementation("refusing", "library", load, efficiency=1.0)
    slow = (replace(each, efficiency=1e-3) for each in others)
    operation = replace(MIX, name="refused mix", implementations=(library, *slow))
    graph = TaskGraph("refused")
    x = graph.array("x", data=np.arange(SIZE).astype(DTYPE))
    y = graph.array("y", data=np.ones(SIZE, DTYPE))
    graph.kernel(operation, name="t", x=x, y=y, a=3)
    return graph


def mix() -> Implementation:
    return MIX.implementation("opencl-c")


@pytest.mark.usefixtures("data")
@pytest.mark.parametrize(
    "options", [{"calibrate": False}, {}, {"deterministic": True}, {"dynamic": "eager", "calibrate": False}]
)
def test_a_run_takes_another(options: dict[str, Any]) -> None:
    expected = syclsched.run(plain(), **options).result("y")
    with syclsched.run(graph_of(mix()), **options) as run:
        np.testing.assert_array_equal(run.result("y"), expected)
    assert Refusing.asked


def plain() -> TaskGraph:
    graph = TaskGraph("plain")
    x = graph.array("x", data=np.arange(SIZE).astype(DTYPE))
    y = graph.array("y", data=np.ones(SIZE, DTYPE))
    graph.kernel(replace(MIX, implementations=(mix(),)), name="t", x=x, y=y, a=3)
    return graph


@pytest.mark.usefixtures("data")
def test_a_refusal_is_asked_for_once() -> None:
    with syclsched.bind(graph_of(mix()), calibrate=False):
        pass
    asked = Refusing.asked
    with syclsched.bind(graph_of(mix()), calibrate=False):
        pass
    assert Refusing.asked == asked > 0


@pytest.mark.usefixtures("data")
def test_where_nothing_is_left_the_reason_is_given() -> None:
    with pytest.raises(CapabilityError, match="no engine"):
        syclsched.run(graph_of(), calibrate=False)


@pytest.mark.usefixtures("data")
def test_a_plan_that_was_given_fails_by_the_reason() -> None:
    graph = graph_of(mix())
    plan = syclsched.plan(graph, syclsched.discover("cpu"))
    assert {each.implementation for each in plan.schedule.assignments} == {"refusing"}
    with pytest.raises(CapabilityError, match="no engine"):
        syclsched.run(graph, plan=plan).wait()
