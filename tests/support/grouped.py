# SPDX-License-Identifier: Apache-2.0
"""Device limits for tests of GPU kernels, which run on any device."""

from __future__ import annotations

from typing import Any

import pytest

from syclsched.model.operation import DeviceLimits, Implementation

#: A device without groups, one of small ones with little local memory, and two like GPUs there are.
GPUS = (
    DeviceLimits(1, 2, 1024),
    DeviceLimits(64, 8, 512, (8, 16)),
    DeviceLimits(256, 32, 1 << 15, (16, 32)),
    DeviceLimits(1024, 512, 1 << 16, (8, 16, 32)),
)


def is_pocl(device: Any) -> bool:
    """Return whether a device is PoCL's, for faults of PoCL that no device query shows."""
    return bool(device.sycl_platform.name.startswith("Portable Computing Language"))


def skip_where_groups_crash(queue: Any, implementation: Implementation) -> None:
    """Skip a test of a GPU kernel on PoCL's CPU device, where some of them crash or hang.

    PoCL's compiler gives up on some kernels with barriers (https://github.com/pocl/pocl/issues/1608), by either of its
    methods to make work-groups. Plans give such kernels to GPUs only.
    """
    kinds = implementation.requires.device_kinds
    if is_pocl(queue.sycl_device) and kinds and queue.sycl_device.device_type.name not in kinds:
        pytest.skip("PoCL's compiler ends the process for some kernels with barriers (pocl issue 1608)")
