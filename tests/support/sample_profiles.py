# SPDX-License-Identifier: Apache-2.0
"""Device profiles for tests."""

from __future__ import annotations

from dataclasses import replace

from syclsched.model.profile import (
    DeviceIdentity,
    DeviceProfile,
    LaunchCosts,
    LinkFit,
    Overlap,
    PairProfile,
    Provenance,
    Quantity,
    UsmCosts,
)


def device_profile(key: str = "opencl-cpu-test-00000000", lanes: int = 1, complete: bool = True) -> DeviceProfile:
    """Return a small measured profile."""
    return DeviceProfile(
        identity=DeviceIdentity(
            key, "Test CPU", "cpu", "opencl", "Test", "1.0", 2, 8192, 1 << 30, 1 << 15,
            ("cpu", "fp64", "usm_shared_allocations"), ("float32", "float64"), True, lanes,
        ),
        provenance=Provenance("2024-01-02", 3.0, "a test processor", {"dpctl": "0.17.0"}, {}, complete=complete),
        launch=LaunchCosts(Quantity(1e-5, 1e-7, 9), Quantity(3e-5, 1e-6, 9, 2)),
        peak_flops={"float32": Quantity(1e11, 1e9, 8), "float64": Quantity(5e10, 1e9, 8)},
        triad_bandwidth_bytes_per_s=Quantity(1e10, 1e8, 8),
        bandwidth_curve=((1 << 16, 5e10), (1 << 26, 1e10)),
        transfers={
            "h2d": LinkFit(2e-5, 5e9, 0.1, ((1024, 2e-5), (1 << 20, 2e-4))),
            "d2h": LinkFit(3e-5, 6e9, 0.1),
        },
        usm={"shared": UsmCosts(Quantity(1e-5, 0.0, 5), Quantity(9e9, 1e8, 5))},
        overlap=Overlap(Quantity(0.1, 0.01, 5), Quantity(1.0, 0.1, 5)),
    )  # fmt: skip


def pair_profile(first: str, second: str, interference: float = 0.9) -> PairProfile:
    """Return a measured pair."""
    return PairProfile(
        first,
        second,
        Provenance("2024-01-02"),
        Quantity(1e-4, 1e-6, 9),
        LinkFit(4e-5, 4e9),
        Quantity(interference, 0.1, 9),
    )


def with_key(profile: DeviceProfile, key: str) -> DeviceProfile:
    """Return the same profile for another device."""
    return replace(profile, identity=replace(profile.identity, key=key))
