# SPDX-License-Identifier: Apache-2.0
"""The devices of this machine."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from syclsched.model.platform import Platform


@pytest.fixture
def live() -> tuple[Platform, Any]:
    """The platform with two lanes on every device, and the open devices."""
    from support.opened import live_on

    return live_on(None)


@pytest.fixture(scope="module")
def own_history(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep measured times, on which policies depend, apart from those of other tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_DATA_HOME", str(tmp_path_factory.mktemp("data")))
        yield


@pytest.fixture(scope="session")
def compiled_policies() -> None:
    """Compile the loops of all dynamic policies; on a slow machine this takes longer than tests wait for a run."""
    from support.running import given_chain
    from support.starting import POLICIES, live_called, start

    for policy in POLICIES:
        with start(given_chain(), live_called("cpu"), policy) as run:
            run.wait()


@pytest.fixture(scope="session")
def local_queues() -> None:
    """Skip a test where the CPU device has no queues that run on the submitting thread, as PoCL's has none."""
    from support.opened import live_on

    from syclsched.devices.backends.registry import backend_of

    queue = live_on(None)[1].queue("cpu")
    native = backend_of(queue).native()
    local = None if native is None else native.local_queue(queue)
    if local is None:
        assert "Intel" not in queue.sycl_device.sycl_platform.vendor
        pytest.skip("the CPU device has no queues that run on the submitting thread (cl_intel_exec_by_local_thread)")
    native.release_queue(local)


@pytest.fixture
def one_core_lanes(local_queues: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Set that every lane is one core; the runtime has read the setting already, so it only selects lane threads."""
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("one core only: lanes that are cores need two")
    monkeypatch.setenv("CL_CONFIG_CPU_TBB_NUM_WORKERS", "1")


@pytest.fixture
def nothing_is_left_running() -> Iterator[None]:
    """Assert that every run has ended or was cancelled."""
    from syclsched.execution.handle.resources import unfinished

    yield
    assert not [r for r in unfinished if not r.engine.cancelled]


@pytest.fixture
def watchdog_time(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], object]], None]:
    """Advance the watchdog's time only while a condition holds, by 0.05 s at each reading.

    No deadline passes otherwise, however slow the machine is.
    """
    from syclsched.execution.handle import watchdog

    conditions: list[Callable[[], object]] = []
    now_s = time.monotonic()

    def monotonic() -> float:
        nonlocal now_s
        if conditions and conditions[-1]():
            now_s += 0.05
        return now_s

    monkeypatch.setattr(watchdog, "time", SimpleNamespace(monotonic=monotonic))
    return conditions.append


@pytest.fixture
def release_when_late(
    monkeypatch: pytest.MonkeyPatch, watchdog_time: Callable[[Callable[[], object]], None]
) -> Callable[[Any], None]:
    """Release an injected hang once the watchdog has reported a delay; the watchdog's time advances until then."""
    from syclsched.execution.handle.watchdog import RunWatch

    fail = RunWatch._fail

    def release(injection: Any) -> None:
        late = threading.Event()

        def failing(*arguments: Any) -> None:
            fail(*arguments)
            late.set()
            injection.release()

        monkeypatch.setattr(RunWatch, "_fail", failing)
        watchdog_time(lambda: injection.injected and not late.is_set())

    return release
