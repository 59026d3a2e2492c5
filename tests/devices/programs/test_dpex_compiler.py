# SPDX-License-Identifier: Apache-2.0
"""numba-dpex kernels to SPIR-V, many of them in one process."""

from __future__ import annotations

from typing import Any

import pytest

from syclsched.devices.programs.dpex_compiler import kernel_spirv
from syclsched.kernels import nn
from syclsched.model.operation import Signature

pytestmark = pytest.mark.sycl

SHAPES = {"y": (2, 8, 3), "x": (2, 8, 3), "scale": (8,), "bias": (8,)}


def test_each_kernel_registers_only_what_is_new(cpu: Any) -> None:
    pytest.importorskip("numba_dpex", reason="numba-dpex is not installed")
    from numba_dpex.core.descriptor import dpex_kernel_target

    signature = Signature(SHAPES, dict.fromkeys(SHAPES, "float32"))
    context = dpex_kernel_target.target_context
    counts = []
    for groups in (1, 2, 4, 8):
        operation = nn.group_norm(groups)
        kernel = operation.implementation("numba-dpex").load(signature)
        kernel_spirv(kernel, operation, signature, 1, grouped=True, device=cpu)
        counts.append(sum(len(each.versions) for each in context._defns.values()))
    assert counts[3] - counts[2] <= counts[2] - counts[1] < 50, counts
