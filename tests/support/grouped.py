# SPDX-License-Identifier: Apache-2.0
"""What tests of kernels for GPUs share: devices whose limits they are made for, wherever they run."""

from __future__ import annotations

from syclsched.model.operation import DeviceLimits

#: A device without groups, one of small ones with little local memory, and two like GPUs there are.
GPUS = (
    DeviceLimits(1, 2, 1024),
    DeviceLimits(64, 8, 512, (8, 16)),
    DeviceLimits(256, 32, 1 << 15, (16, 32)),
    DeviceLimits(1024, 512, 1 << 16, (8, 16, 32)),
)
