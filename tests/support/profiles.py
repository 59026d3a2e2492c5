# SPDX-License-Identifier: Apache-2.0
"""A small profile for the tests of the cost model."""

from __future__ import annotations

from typing import Literal

from syclsched.model.profile import DeviceIdentity, DeviceProfile, LaunchCosts, Provenance, Quantity


def profile(
    key: str = "c",
    kind: Literal["cpu", "gpu", "accelerator"] = "cpu",
    origin: Literal["measured", "spec-sheet"] = "measured",
    chain_task_s: float | None = 1e-5,
    curve: tuple[tuple[int, float], ...] = (),
) -> DeviceProfile:
    """4 compute units, 1e11 float64 and 2e11 float32 FLOP/s, 1e10 bytes/s, latency 1e-4 s."""
    return DeviceProfile(
        identity=DeviceIdentity(
            key, "a device", kind, "opencl", "", "", 4, 64, 1 << 30, 0, ("fp64",), ("float32", "float64"), False
        ),
        provenance=Provenance("2025-01-01"),
        launch=LaunchCosts(
            submission_s=Quantity(1e-6),
            latency_s=Quantity(1e-4),
            chain_task_s=None if chain_task_s is None else Quantity(chain_task_s),
        ),
        peak_flops={"float64": Quantity(1e11), "float32": Quantity(2e11), "int32": Quantity(5e10)},
        triad_bandwidth_bytes_per_s=Quantity(1e10),
        bandwidth_curve=curve,
        origin=origin,
    )
