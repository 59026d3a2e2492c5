# SPDX-License-Identifier: Apache-2.0
"""Graphs started under a dynamic policy on this machine's devices."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture(params=["queues", "threads"])
def submission(request: pytest.FixtureRequest) -> Iterator[None]:
    """Submission to queues, and to lane threads where all lanes are cores of the host."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "threads":
            patch.setenv("CL_CONFIG_CPU_TBB_NUM_WORKERS", "1")
        yield
