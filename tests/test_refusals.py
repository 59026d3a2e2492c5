# SPDX-License-Identifier: Apache-2.0
"""Implementations that a device or a library refuses, which plans and runs avoid."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from support.running import DTYPE, MIX

import syclsched
from syclsched import TaskGraph, Update, kernel_api
from syclsched.errors import (
    CapabilityError,
    KernelCompilationError,
    KernelCompilationWarning,
    ProgramBuildError,
    SyclschedError,
)
from syclsched.execution.core.history_feed import FEED
from syclsched.model.operation import Implementation, Signature

pytestmark = [pytest.mark.sycl, pytest.mark.gpu_shape]
SIZE = 1000


class Refusing:
    """A library that refuses every device."""

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
    """Use a data folder without measured times and refusals."""
    FEED.flush()  # times of other tests' runs, which would be written into this folder
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    Refusing.asked = 0


def graph_of(*others: Implementation) -> TaskGraph:
    """Return a graph whose operation has a library implementation of the highest efficiency on every device."""
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
def test_a_run_uses_another_implementation_after_a_refusal(options: dict[str, Any]) -> None:
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
def test_a_refusal_is_determined_once() -> None:
    with syclsched.bind(graph_of(mix()), calibrate=False):
        pass
    asked = Refusing.asked
    with syclsched.bind(graph_of(mix()), calibrate=False):
        pass
    assert Refusing.asked == asked > 0


@pytest.mark.usefixtures("data")
def test_the_error_without_implementations_has_the_reason() -> None:
    with pytest.raises(CapabilityError, match="no engine"):
        syclsched.run(graph_of(), calibrate=False)


@pytest.mark.usefixtures("data")
def test_a_plan_that_was_given_fails_by_the_reason() -> None:
    graph = graph_of(mix())
    plan = syclsched.plan(graph, syclsched.discover("cpu"))
    assert {each.implementation for each in plan.schedule.assignments} == {"refusing"}
    with pytest.raises(CapabilityError, match="no engine"):
        syclsched.run(graph, plan=plan).wait()


@syclsched.operation
def double(item: kernel_api.Item, x: Update[np.float32]) -> None:
    x[item.get_id(0)] *= 2


@syclsched.operation
def no_such_attribute(item: kernel_api.Item, x: Update[np.float32]) -> None:
    x[item.get_id(0)] = x.no_such_name  # type: ignore[attr-defined]


BROKEN_SOURCE = "__kernel void broken(__global float *x) { x[get_global_id(0)] = no_such_name; }"
#: Two operations by the language of their broken kernel: one without alternatives, and one with a correct one.
BROKEN = {
    "opencl-c": (
        replace(double.opencl(BROKEN_SOURCE), implementations=double.opencl(BROKEN_SOURCE).implementations[1:]),
        double.opencl(BROKEN_SOURCE),
    ),
    "python": (no_such_attribute, no_such_attribute.host(lambda x: np.multiply(x, 2, out=x))),
}


def graph_with(operation: Any) -> TaskGraph:
    graph = TaskGraph("broken")
    graph.kernel(operation, name="t", x=graph.array("x", data=np.ones(SIZE, np.float32)))
    return graph


def calibrate(graph: TaskGraph) -> None:
    syclsched.calibrate(graph, syclsched.discover("cpu"))


def run(graph: TaskGraph) -> None:
    with syclsched.run(graph, syclsched.discover("cpu")) as finished:
        np.testing.assert_array_equal(finished.result("x"), 2.0)


def run_at_once(graph: TaskGraph) -> None:
    with syclsched.run(graph, syclsched.discover("cpu"), calibrate=False) as finished:
        np.testing.assert_array_equal(finished.result("x"), 2.0)


def run_by_policy(graph: TaskGraph) -> None:
    with syclsched.run(graph, syclsched.discover("cpu"), dynamic="eager") as finished:
        np.testing.assert_array_equal(finished.result("x"), 2.0)


@pytest.mark.usefixtures("data")
@pytest.mark.parametrize("call", [calibrate, run, run_at_once, run_by_policy])
@pytest.mark.parametrize(("kind", "error"), [("opencl-c", CapabilityError), ("python", KernelCompilationError)])
def test_only_kernel_that_does_not_compile_is_an_error(
    call: Callable[[TaskGraph], None], kind: str, error: type[SyclschedError]
) -> None:
    with pytest.raises(error, match="no_such_name"):
        call(graph_with(BROKEN[kind][0]))


@pytest.mark.usefixtures("data")
@pytest.mark.parametrize("call", [calibrate, run, run_by_policy])
@pytest.mark.parametrize("kind", list(BROKEN))
def test_kernel_that_does_not_compile_gives_a_warning(call: Callable[[TaskGraph], None], kind: str) -> None:
    with pytest.warns(
        KernelCompilationWarning, match=rf"\({kind}\) on cpu cannot be compiled.*(\n.*)*no_such_name"
    ) as told:
        call(graph_with(BROKEN[kind][1]))
    assert len(told) == 1 and told[0].filename == __file__


@pytest.mark.usefixtures("data")
def test_a_kernel_refused_at_its_first_compilation_in_a_run_warns() -> None:
    slow = replace(BROKEN["opencl-c"][1].implementations[0], efficiency=1e-3)
    operation = replace(BROKEN["opencl-c"][1], implementations=(slow, *BROKEN["opencl-c"][0].implementations))
    with pytest.warns(KernelCompilationWarning, match="no_such_name"):
        run_at_once(graph_with(operation))


def test_a_compiler_refusal_raises_program_build_error() -> None:
    import dpctl

    from syclsched.devices.discovery.device_facts import find_devices
    from syclsched.devices.programs.programs import compile_code

    cpu = next(found for found in find_devices() if found.facts.kind == "cpu")
    code = syclsched.OpenCLSource(BROKEN_SOURCE, "broken")
    with pytest.raises(ProgramBuildError, match=r"^here: the device's compiler refuses(.*\n)*.*no_such_name"):
        compile_code(code, dpctl.SyclQueue(cpu.sycl_device), "here")
