# SPDX-License-Identifier: Apache-2.0
"""The registry of backends: the package asks a device's backend, and never compares backend names."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar, get_args

import numpy as np
import pytest
from support.machines import device
from support.opened import live_on
from support.running import DTYPE, MIX, plan_by

import syclsched
from syclsched.devices.backends.opencl import OpenCL
from syclsched.devices.backends.registry import BACKENDS, DRIVERS, backend_of
from syclsched.devices.backends.sycl import Backend, NativeAccess
from syclsched.errors import CapabilityError
from syclsched.model.graph import TaskGraph
from syclsched.model.operation import OpenCLSource
from syclsched.model.platform import BACKEND_FACTS, BackendFacts, backend_facts
from syclsched.model.profile import SyclBackend

ROOT = Path(syclsched.__file__).parents[1]


class Fake(OpenCL):
    """The backend of OpenCL devices without native queues; it records the questions."""

    asked: ClassVar[list[str]] = []

    def native(self) -> NativeAccess | None:
        self.asked.append("native")
        return None

    def build(self, code: OpenCLSource, queue: Any) -> Any:
        self.asked.append("build")
        return super().build(code, queue)

    def computes_on_host_cores(self, queue: Any) -> bool:
        self.asked.append("computes_on_host_cores")
        return False

    def why_not_local(self, queue: Any) -> str | None:
        self.asked.append("why_not_local")
        return "its queues are made up"

    def hold(self, queue: Any) -> Callable[[], None] | None:
        self.asked.append("hold")
        return None


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Iterator[Fake]:
    made = Fake(replace(BACKEND_FACTS["opencl"], rank=-1, takes_source=False))
    monkeypatch.setitem(BACKENDS, "opencl", made)
    monkeypatch.setitem(BACKEND_FACTS, "opencl", made.facts)
    yield made
    Fake.asked.clear()


@pytest.mark.sycl
def test_a_run_asks_the_registered_backend(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    from syclsched.devices.programs.programs import compile_code
    from syclsched.devices.trust.known_answer_routes import OPENCL_C, ROUTES
    from syclsched.devices.trust.known_answers import DTYPES
    from syclsched.execution import bind, execute
    from syclsched.testing.queue_gates import QueueGates

    monkeypatch.setenv("SYCLSCHED_PROGRAM_CACHE", "0")
    platform, live = live_on(None)
    graph = TaskGraph("asked")
    x, y = (graph.array(name, data=np.arange(1 << 20, dtype=DTYPE)) for name in "xy")
    for i in range(10):
        graph.kernel(MIX, name=f"t{i}", x=(x, y)[i % 2], y=(y, x)[i % 2], a=i)
    plan = plan_by(graph, platform, lambda name: ("cpu", int(name[1:]) % 2, "opencl-c"))
    with execute(plan, graph, live) as run:
        run.wait(60)
        assert 0 < run.trace().barriers <= plan.counters.barriers  # no native queues, hence fences
        expected = run.result(y)
    assert {"native", "computes_on_host_cores"} <= set(fake.asked)
    with bind(plan, graph, live) as runner, runner.run() as run:
        np.testing.assert_array_equal(run.result(y), expected)
        assert runner._bound.instances is not None
        assert runner._bound.instances.why_not_on_threads == "its queues are made up"
    queue = live.queue("cpu")
    compile_code(OpenCLSource("__kernel void once_for_the_fake(__global int *x) {}", "once_for_the_fake"), queue, "")
    assert fake.asked[-1] == "build"
    assert all(np.allclose(each.result, each.right) for each in ROUTES[OPENCL_C](queue, DTYPES[:1]))
    QueueGates().block("cpu", queue, 0.001)
    assert fake.asked[-2:] == ["build", "hold"]


@pytest.mark.sycl
@pytest.mark.parametrize("waits", [False, True])
def test_a_loop_makes_fences_where_kernels_do_not_wait(
    fake: Fake, waits: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    from syclsched.devices.native.submission_library import load_library
    from syclsched.devices.submission.command_maker import MAX_EVENT_LIST
    from syclsched.devices.submission.submission_loop import SubmissionLoop

    _, live = live_on(None)
    monkeypatch.setitem(BACKENDS, "opencl", Fake(replace(fake.facts, kernels_wait=waits)))
    library = load_library()
    assert library is not None
    loop = SubmissionLoop(library, {0: live.queue("cpu")}, 1)
    loop.use_native_queues()
    assert not loop.native
    assert loop.copy_lanes({})[0].longest_list == (MAX_EVENT_LIST if waits else 0)
    loop.close()


def test_planning_profiling_and_discovery_use_the_facts(fake: Fake) -> None:
    from syclsched.devices.discovery.duplicates import group_physical
    from syclsched.model.platform import Device
    from syclsched.profiling.measure.throughput import measurable_dtypes

    seen = [device(name, "gpu", "A GPU") for name in ("level_zero", "opencl")]
    assert group_physical(seen)[0][0].backend == "opencl"  # rank -1
    half = Device("gpu", "k", "gpu", "opencl", "", "m", ("m",), dtypes=("float16", "float32"))
    assert measurable_dtypes(half) == ("float32",)


def of(backend: str, platform: str = "") -> Any:
    """A queue of a backend and SYCL platform."""
    sycl_platform = SimpleNamespace(name=platform)
    sycl_device = SimpleNamespace(backend=SimpleNamespace(name=backend), sycl_platform=sycl_platform, name="a device")
    return SimpleNamespace(sycl_device=sycl_device)


def test_a_driver_may_have_a_file_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    pocl = Fake(BACKEND_FACTS["opencl"])
    monkeypatch.setitem(DRIVERS, ("opencl", "Portable Computing Language"), pocl)
    assert backend_of(of("opencl", "Portable Computing Language ")) is pocl
    assert backend_of(of("opencl", "Intel(R) OpenCL")) is BACKENDS["opencl"]
    assert backend_of(of("level_zero")) is BACKENDS["level_zero"]


@pytest.mark.parametrize("name", ["cuda", "hip", "unheard_of"])
def test_a_backend_without_a_file_is_reached_through_sycl_alone(name: str) -> None:
    queue = of(name)
    found = backend_of(queue)
    assert found == Backend(backend_facts(name)) and found.facts.kernels_wait
    assert found.native() is None and found.hold(queue) is None and not found.computes_on_host_cores(queue)
    assert "not the OpenCL CPU device" in str(found.why_not_local(queue))
    with pytest.raises(CapabilityError, match=f"{name} device takes no OpenCL C"):
        found.build(OpenCLSource("", "k"), queue)


def test_the_facts_name_sycls_backends() -> None:
    assert tuple(BACKEND_FACTS) == get_args(SyclBackend)
    assert set(BACKENDS) <= set(BACKEND_FACTS)
    assert len({each.rank for each in BACKEND_FACTS.values()}) == len(BACKEND_FACTS)
    assert backend_facts("host") == BackendFacts("host")


def test_no_other_file_names_a_backend() -> None:
    names = get_args(SyclBackend)
    files = [*(ROOT / "syclsched").rglob("*.py"), *(ROOT / "kernels").rglob("*.py")]
    assert len(files) > 400
    naming = {
        str(path.relative_to(ROOT))
        for path in files
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and node.value in names
    }
    assert naming == {
        "syclsched/devices/backends/opencl.py",
        "syclsched/devices/backends/registry.py",
        "syclsched/model/platform.py",
        "syclsched/model/profile.py",
    }
