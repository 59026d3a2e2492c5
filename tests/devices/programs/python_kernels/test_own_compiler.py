# SPDX-License-Identifier: Apache-2.0
"""Device features in code of the package's own kernel compiler."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import syclsched.dpex as dpex
from syclsched.devices.backends.opencl import OpenCL
from syclsched.devices.backends.registry import backend_of
from syclsched.devices.programs.python_kernels import own_compiler
from syclsched.kernel_compiler.compiled_kernel import Argument, ArrayArgument, ItemArgument
from syclsched.kernel_compiler.kernel_api import AtomicRef
from syclsched.kernel_compiler.python_kernel import PythonKernel
from syclsched.oneapi import stack_generation
from syclsched.oneapi.dpctl_interface import usm_arrays

pytestmark = pytest.mark.sycl

_EXTENSION = b"SPV_EXT_shader_atomic_float_add"
_ARGUMENTS: tuple[Argument, ...] = (ItemArgument(1), ArrayArgument("float32", 1, "C"), ArrayArgument("float32", 1, "C"))


def _sum(item: Any, x: Any, out: Any) -> None:
    AtomicRef(out, 0).fetch_add(x[item.get_id(0)])


def test_atomic_additions_are_native_instructions(queues: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    device, kernel = queues[0].sycl_device, PythonKernel(_sum)
    for has in (frozenset({"add float32"}), frozenset[str]()):
        monkeypatch.setattr(OpenCL, "float_atomics", lambda _, device, has=has: has)
        assert ("atomic add float32" in own_compiler.traits(device)) == bool(has)
        assert (_EXTENSION in own_compiler.kernel_spirv(kernel, _ARGUMENTS, device).code) == bool(has)


def test_atomic_operations_of_a_device_are_queried(queues: list[Any]) -> None:
    has = backend_of(queues[0]).float_atomics(queues[0].sycl_device)
    assert has <= {f"{operation} {dtype}" for operation in ("add", "min", "max") for dtype in ("float32", "float64")}
    if stack_generation.installed().name == "current":  # Intel's current runtime and PoCL 6 have them
        assert {"add float32", "add float64", "min float32"} <= has
    dpt = usm_arrays()
    x, out = (dpt.asarray(each, sycl_queue=queues[0]) for each in (np.ones(1000, np.float32), np.zeros(1, np.float32)))
    dpex.call_kernel(dpex.kernel(_sum), dpex.Range(1000), x, out)
    assert dpt.asnumpy(out).tolist() == [1000]
