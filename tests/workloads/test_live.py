# SPDX-License-Identifier: Apache-2.0
"""Every workload on the devices of this machine, end to end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from syclsched import api, workloads
from syclsched.errors import TaskFailedError
from syclsched.model.platform import Platform

pytestmark = pytest.mark.sycl

SMALL: dict[str, dict[str, Any]] = {
    "cholesky": {"n": 150, "tile": 64},
    "mlp": {"sizes": (20, 32, 10), "batch": 50, "chunks": 3, "softmax": True},
    "stencil": {"n": 50, "tile": 16, "steps": 4},
}


@pytest.fixture(scope="module")
def platform() -> Platform:
    return api.discover(where=lambda device: True)  # with the emulator


@pytest.mark.parametrize("name", workloads.names())
def test_is_right_on_every_device(name: str, platform: Platform) -> None:
    kind = workloads.get(name)
    workload = kind.build(kind.options(**SMALL[name]))
    for policy in ("heft", *(f"single:{d.name}" for d in platform.compute_devices)):
        with api.run(workload.graph, platform, policy=policy, calibrate=False) as run:
            result = workload.check({array: run.result(array) for array in workload.results})
        assert result.ok, f"{policy}: {result.text}"


def test_a_matrix_that_is_not_positive_definite_names_its_tile(tmp_path: Path, platform: Platform) -> None:
    matrix = np.eye(48)
    matrix[40, 40] = -1
    np.save(tmp_path / "m.npy", matrix)
    kind = workloads.get("cholesky")
    workload = kind.build(kind.options(tile=16, input=tmp_path / "m.npy"))
    for device in platform.compute_devices:
        with (
            pytest.raises(TaskFailedError, match=r"potrf\(2\).*A\[2,2\].*pivot 9 of the tile") as caught,
            api.run(workload.graph, platform, policy=f"single:{device.name}", calibrate=False) as run,
        ):
            run.result("A[2,2]")
        assert caught.value.task == "potrf(2)"
