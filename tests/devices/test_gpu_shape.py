# SPDX-License-Identifier: Apache-2.0
"""The GPU-shaped device of tests: its reported properties, and the accesses that its memory refuses."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support.gpu_shape import AUTO, PLATFORM_VARIABLE, show_as_gpu

pytestmark = pytest.mark.sycl

_START = """
import ctypes, numpy as np
from syclsched import oneapi
oneapi.load()
import dpctl, dpctl.program
from dpctl import memory
queue = dpctl.SyclQueue("gpu", property="in_order")
program = dpctl.program.create_program_from_source(queue, '''
__kernel void twice(__global float *x) { x[get_global_id(0)] *= 2; }
__kernel void followed(long x) { ((__global float *)x)[get_global_id(0)] *= 2; }
''')
given = np.arange(64, dtype=np.float32)
device, shared = memory.MemoryUSMDevice(256, queue=queue), memory.MemoryUSMShared(256, queue=queue)
def twice(argument, kernel="twice"):
    queue.submit_async(program.get_sycl_kernel(kernel), [argument], [64]).wait()
"""


@pytest.fixture
def shaped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let child processes show the emulator's device as a GPU."""
    if PLATFORM_VARIABLE not in os.environ:
        environ = dict(os.environ)
        show_as_gpu(environ, AUTO, tmp_path)
        for name, value in environ.items():
            monkeypatch.setenv(name, value)


def child(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", _START + code], capture_output=True, text=True, check=False)


def said_by(code: str) -> str:
    ended = child(code)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


@pytest.mark.usefixtures("shaped")
def test_the_device_is_a_gpu_without_host_memory() -> None:
    assert said_by(
        "print([d.filter_string for d in dpctl.get_devices()])\n"
        "print(dpctl.get_devices(device_type='accelerator'), queue.sycl_device.has_aspect_usm_system_allocations)\n"
        "from syclsched import discover\n"
        "found = discover('gpu')\n"
        "print([(d.name, d.kind, found.space(d.space).host_accessible) for d in found.devices])"
    ).splitlines() == [
        "['opencl:cpu:0', 'opencl:gpu:0']",
        "[] False",
        "[('gpu', 'gpu', False), ('host', 'host', True)]",
    ]


@pytest.mark.usefixtures("shaped")
def test_kernels_and_copies_reach_its_memory() -> None:
    assert said_by(
        "device.copy_from_host(given.view('u1'))\n"
        "twice(device)\n"
        "twice(ctypes.c_longlong(device._pointer), 'followed')\n"
        "shared.copy_from_device(device)\n"
        "twice(shared)\n"
        "print(np.array_equal(np.asarray(shared).view('f4'), 8 * given), device.get_usm_type(), shared.get_usm_type())"
    ).split() == ["True", "device", "shared"]


@pytest.mark.usefixtures("shaped")
def test_pointers_in_structures_are_valid() -> None:
    assert said_by(
        "from syclsched.oneapi.dpctl_interface import usm_arrays\n"
        "tensor = usm_arrays()\n"
        "every_third = tensor.asarray(given, sycl_queue=queue)[::3]  # its kernels take strides, in a structure\n"
        "print(np.array_equal(tensor.asnumpy(every_third + every_third), 2 * given[::3]))"
    ).split() == ["True"]


@pytest.mark.usefixtures("shaped")
@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("ctypes.memset(device._pointer, 0, 4)", "the host accessed memory of the GPU-shaped device"),
        ("ctypes.string_at(device._pointer + 8, 4)", "the host accessed memory"),
        ("at = ctypes.c_longlong(device._pointer); del device; twice(at, 'followed')", "a kernel accessed it"),
    ],
)
def test_an_access_by_the_host_or_to_freed_memory_ends_the_process(code: str, said: str) -> None:
    ended = child(code)
    assert ended.returncode == -signal.SIGSEGV and said in ended.stderr


@pytest.mark.usefixtures("shaped")
def test_the_device_cannot_access_other_memory() -> None:
    ended = child("twice(memory.MemoryUSMDevice(256, queue=dpctl.SyclQueue('cpu')))")
    assert ended.returncode == 1 and "memory that the GPU-shaped device cannot access" in ended.stderr
