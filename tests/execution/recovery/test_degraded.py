# SPDX-License-Identifier: Apache-2.0
"""Platforms without lost devices."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from syclsched.execution.recovery.degraded import platform_without
from syclsched.model.platform import HOST, Device, MemorySpace, Platform

CPU = Device("cpu", "c", "cpu", "opencl", "", "cpu", ("cpu",), compute_units=4, processor="p")
THE_HOST = Device(HOST, HOST, HOST, HOST, "", HOST, (HOST, "cpu"), compute_units=4, processor="p")
PLATFORM = Platform("four cores", (CPU, THE_HOST), (MemorySpace("cpu", 0, True), MemorySpace(HOST, 0, True)))


def test_host_has_all_threads_after_loss_of_cpu_device() -> None:
    devices: Any = SimpleNamespace(platform=replace(PLATFORM, devices=(replace(CPU, profile=None), THE_HOST)))
    planned = PLATFORM.with_single_threads()
    assert planned.host.library_threads == 1
    left = platform_without(planned, devices, ["cpu"])
    assert [device.name for device in left.devices] == [HOST]
    assert left.host.library_threads == 4
