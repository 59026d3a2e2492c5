# SPDX-License-Identifier: Apache-2.0
"""This machine's devices, opened once for all tests of a process."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
import pytest

import syclsched
from support.gpu_shape import OTHER_DEVICE
from support.running import DTYPE, MIX, OPENCL
from syclsched import api
from syclsched.api import with_lanes
from syclsched.devices import discover, open_devices
from syclsched.errors import TaskFailedError
from syclsched.execution import Run
from syclsched.model.graph import TaskGraph
from syclsched.model.operation import Implementation, Launch, OpenCLSource
from syclsched.model.platform import Platform


@lru_cache(maxsize=4)
def live_on(sub_devices: int | None) -> tuple[Platform, Any]:
    """Return the platform with two lanes on every device, and the open devices."""
    platform = with_lanes(discover(sub_devices=sub_devices), 2)
    return platform, open_devices(platform)


@lru_cache(maxsize=1)
def _has_other_device() -> bool:
    return OTHER_DEVICE in {device.name for device in discover().devices}


def skip_without_other_device() -> None:
    """Skip a test of two devices where there is one; the mark ``other_device`` has the same effect."""
    if not _has_other_device():
        pytest.skip("there is no device beside the CPU device, such as the FPGA emulator, here")


#: `MIX` with a launch that contradicts its source, an error that only submission detects.
REFUSED = replace(
    MIX,
    name="wrong",
    implementations=(
        Implementation(
            "opencl-c",
            "opencl-c",
            lambda _: OpenCLSource(
                OPENCL.replace("__kernel", "__attribute__((reqd_work_group_size(4, 1, 1))) __kernel", 1),
                "mixed",
            ),
            lambda *_: Launch((100,), (10,)),
        ),
    ),
)


def refused_graph() -> TaskGraph:
    """Return a graph with a kernel, *bad*, that is refused at its submission, and one that depends on it, *child*."""
    graph = TaskGraph("refused")
    x = graph.array("x", data=np.arange(100))
    for name, operation in (("before", MIX), ("bad", REFUSED), ("after", MIX), ("child", MIX)):
        y = graph.array(f"y_{name}", data=np.zeros(100, DTYPE))
        graph.kernel(operation, name=name, x=graph.arrays["y_bad"] if name == "child" else x, y=y, a=1)
    return graph


def check_refused(run: Run) -> None:
    """Check that a run of `refused_graph` fails by the name of the kernel, and does the independent tasks."""
    with pytest.raises(TaskFailedError, match=r"task 'bad' .*could not be submitted"):
        run.wait(60)
    outcome = {s.task: s.outcome for s in run.trace().spans if s.kind == "launch"}
    assert outcome == {"before": "done", "bad": "failed", "after": "done", "child": "cancelled"}
    np.testing.assert_array_equal(run.result("y_after"), 2 * np.arange(100))


def refused_beside(apart: int) -> TaskGraph:
    """Return a graph with a refused kernel, whose successor is lost, and tasks that do not depend on it."""
    graph = TaskGraph("refused")
    x, y, z = (graph.array(n, data=np.arange(100, dtype=DTYPE)) for n in "xyz")
    for i in range(3):
        graph.kernel(MIX, name=f"before{i}", x=x, y=z, a=i)
    graph.kernel(REFUSED, name="refused", x=x, y=y, a=1)
    graph.kernel(MIX, name="after", x=y, y=x, a=1)
    for i in range(apart):
        graph.kernel(MIX, name=f"apart{i}", x=graph.array(f"w{i}", data=np.arange(100, dtype=DTYPE)), y=z, a=i)
    return graph


def separate_cpu() -> Platform:
    """Return the CPU device as if the host could not reach its memory."""
    return with_own_memory(syclsched.discover("cpu"), "cpu")


def two_memories() -> Platform:
    """Return two halves of the CPU device, each with a memory of its own."""
    platform = api.discover("cpu", sub_devices=2)
    (first, second, host), (space, rest) = platform.devices, platform.spaces
    second = replace(second, space="other", reaches=tuple("other" if n == space.name else n for n in second.reaches))
    pairs = itertools.permutations((space.name, "other", rest.name), 2)
    links = tuple(replace(platform.links[0], source=source, destination=destination) for source, destination in pairs)
    spaces = (space, replace(space, name="other"), rest)
    return replace(platform, devices=(first, second, host), spaces=spaces, links=links)


def with_own_memory(platform: Platform, space: str) -> Platform:
    """Return the platform as if the host could not reach a space."""
    return replace(
        platform,
        spaces=tuple(replace(s, host_accessible=s.host_accessible and s.name != space) for s in platform.spaces),
        devices=tuple(
            replace(d, reaches=tuple(s for s in d.reaches if s != space or d.space == space)) for d in platform.devices
        ),
    )


class _Interface:
    """An address with the USM array interface."""

    def __init__(self, pointer: int, queue: Any) -> None:
        self.__sycl_usm_array_interface__ = {
            "data": (pointer, False),
            "shape": (1,),
            "strides": None,
            "typestr": "|u1",
            "version": 1,
            "syclobj": queue,
            "offset": 0,
        }


def is_usm(pointer: int, queue: Any) -> bool:
    """Return whether the runtime has an allocation at an address."""
    from dpctl.memory import as_usm_memory

    try:
        as_usm_memory(_Interface(pointer, queue))
    except ValueError:
        return False
    return True


def until(true: Callable[[], Any], limit_s: float = 60.0) -> None:
    """Poll until a condition holds that a thread reaches without notification."""
    end = time.monotonic() + limit_s
    while not true():
        assert time.monotonic() < end
        time.sleep(0.005)
