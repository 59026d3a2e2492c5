# SPDX-License-Identifier: Apache-2.0
"""The devices implementations are tried on."""

from __future__ import annotations

from typing import Any

import pytest
from support.trying_tensors import Try, run_on


@pytest.fixture(scope="session", params=["cpu", "accelerator"])
def device_queue(request: pytest.FixtureRequest) -> Any:
    """An in-order queue of the CPU device, then of the FPGA emulator."""
    from syclsched import oneapi

    oneapi.load()
    import dpctl

    found = dpctl.get_devices(device_type=request.param)
    if not found:
        pytest.skip(f"no {request.param} device here")
    return dpctl.SyclQueue(found[0], property="in_order")


@pytest.fixture
def on_device(device_queue: Any) -> Try:
    """Return ``on_device(operation, implementation name, **arrays) -> arrays after it``."""
    return lambda operation, name, **arrays: run_on(device_queue, operation, name, arrays)
