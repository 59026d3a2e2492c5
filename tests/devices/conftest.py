# SPDX-License-Identifier: Apache-2.0
"""Queues of every device, and submission loops for SYCL and native queues."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.gpu_shape import OTHER_DEVICE

from syclsched import oneapi
from syclsched.devices import discover, open_devices
from syclsched.devices.backends.opencl import load_native
from syclsched.devices.native.fences import lane_queue
from syclsched.devices.native.submission_library import load_library
from syclsched.devices.submission.submission_loop import SubmissionLoop


@pytest.fixture
def cpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The CPU device, with a cache folder for the test."""
    runtime = oneapi.load()  # Before the cache folder changes: the emulator's folder stays the same.
    assert runtime is not None
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    import dpctl

    return dpctl.SyclDevice("cpu")


@pytest.fixture
def intel_cpu() -> None:
    """Skip a test where the CPU device is not Intel's: other drivers refuse its compilers' and libraries' results."""
    oneapi.load()
    import dpctl

    vendor = dpctl.SyclDevice("cpu").sycl_platform.vendor
    if "Intel" not in vendor:
        pytest.skip(f"the CPU device is that of {vendor}")


@pytest.fixture(params=["cpu", OTHER_DEVICE])
def queues(request: pytest.FixtureRequest) -> Iterator[list[Any]]:
    """Two in-order queues of a device."""
    platform = discover()
    with open_devices(platform) as live:
        yield [lane_queue(live.queue(request.param)) for _ in range(2)]


@pytest.fixture(params=["sycl", "native"])
def new_loop(request: pytest.FixtureRequest) -> Iterator[Callable[..., SubmissionLoop]]:
    """Make submission loops for SYCL or native queues; they are closed at the end."""
    library = load_library()
    made: list[SubmissionLoop] = []

    def new(queues: list[Any], slots: int = 1000) -> SubmissionLoop:
        made.append(SubmissionLoop(library, dict(enumerate(queues)), slots))
        if request.param == "native":
            assert load_native() is not None, "the runtime's library does not have what native access needs"
            made[-1].use_native_queues()
        return made[-1]

    yield new
    for loop in made:
        loop.close()
