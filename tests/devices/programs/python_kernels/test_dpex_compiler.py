# SPDX-License-Identifier: Apache-2.0
"""Compilation of numba-dpex kernels to SPIR-V, many in one process."""

from __future__ import annotations

from typing import Any

import pytest

from syclsched.devices.programs.python_kernels.dpex_compiler import dpex_kernel, kernel_spirv
from syclsched.devices.programs.python_kernels.kernel_arguments import operation_arguments
from syclsched.errors import KernelCompilationError
from syclsched.kernel_compiler import ArrayArgument, ItemArgument
from syclsched.kernels import nn
from syclsched.model.operation import Launch, Signature

pytestmark = pytest.mark.sycl

GROUPED = Launch((8,), (8,))
SHAPES = {"y": (2, 8, 3), "x": (2, 8, 3), "scale": (8,), "bias": (8,)}


@pytest.mark.other_device
def test_a_kernel_is_compiled_once_for_all_devices(cpu: Any) -> None:
    pytest.importorskip("numba_dpex", reason="numba-dpex is not installed")
    import dpctl

    devices = dpctl.get_devices()
    signature, operation = Signature(SHAPES, dict.fromkeys(SHAPES, "float32")), nn.group_norm(2)
    kernel = operation.implementation("python").load(signature)
    arguments = operation_arguments(operation, signature, GROUPED)
    made = {kernel_spirv(kernel, arguments, device) for device in devices}
    assert len(made) == len(dpex_kernel(kernel).overloads) == 1


def test_64_bit_atomics_need_device_support() -> None:
    pytest.importorskip("numba_dpex", reason="numba-dpex is not installed")
    import dpctl
    import numba_dpex
    from numba_dpex.kernel_api import AtomicRef

    def count_(item: Any, y: Any) -> None:
        AtomicRef(y, 0).fetch_add(y[0])

    arguments = (ItemArgument(1), ArrayArgument("int64", 1))
    for device in dpctl.get_devices():
        kernel = numba_dpex.kernel(count_)
        if device.has_aspect_atomic64:
            assert kernel_spirv(kernel, arguments, device).code
        else:
            with pytest.raises(KernelCompilationError, match=rf"AtomicRef.*device={device.filter_string}"):
                kernel_spirv(kernel, arguments, device)


def test_each_kernel_registers_only_new_functions(cpu: Any) -> None:
    pytest.importorskip("numba_dpex", reason="numba-dpex is not installed")
    from numba_dpex.core.descriptor import dpex_kernel_target

    signature = Signature(SHAPES, dict.fromkeys(SHAPES, "float32"))
    context = dpex_kernel_target.target_context
    counts = []
    for groups in (1, 2, 4, 8):
        operation = nn.group_norm(groups)
        kernel = operation.implementation("python").load(signature)
        kernel_spirv(kernel, operation_arguments(operation, signature, GROUPED), cpu)
        counts.append(sum(len(each.versions) for each in context._defns.values()))
    assert counts[3] - counts[2] <= counts[2] - counts[1] < 50, counts
