# SPDX-License-Identifier: Apache-2.0
"""Device rates: from the profile, or assumed and marked as assumed."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.profiles import profile

from syclsched.costs.rates import ASSUMED_FLOPS_PER_UNIT, rates_of
from syclsched.model.platform import HOST, Device, Partition, Platform
from syclsched.model.profile import Quantity

CPU = Device("cpu", "c", "cpu", "opencl", "a CPU", "cpu", ("cpu",), compute_units=4, profile=profile())
HOST_DEVICE = Device(HOST, HOST, HOST, HOST, "the host", HOST, (HOST,), compute_units=2)
PLATFORM = Platform("p", (CPU, HOST_DEVICE), ())


def test_a_profile_is_taken_as_it_is() -> None:
    rates = rates_of(CPU, PLATFORM)
    assert rates.origin == "modelled"
    assert rates.peak("float64") == 1e11
    assert rates.bandwidth(1e9) == 1e10
    assert rates.compute_units == 4


def test_launch_cost_is_the_time_in_a_chain_else_the_latency() -> None:
    assert rates_of(CPU, PLATFORM).launch_s == 1e-5
    assert rates_of(replace(CPU, profile=profile(chain_task_s=None)), PLATFORM).launch_s == 1e-4


def test_rates_of_a_spec_sheet_are_marked() -> None:
    assert rates_of(replace(CPU, profile=profile(origin="spec-sheet")), PLATFORM).origin == "spec-sheet"


def test_the_host_is_as_fast_as_its_profiled_cpu_device() -> None:
    rates = rates_of(HOST_DEVICE, PLATFORM)
    assert rates.origin == "assumed"
    assert rates.peak("float64") == 1e11


@pytest.mark.parametrize(
    "other",
    [
        replace(CPU, profile=None),
        replace(CPU, kind="gpu"),
        replace(CPU, partition=Partition("count", "2", 0)),
    ],
)
def test_without_one_the_host_is_assumed(other: Device) -> None:
    rates = rates_of(HOST_DEVICE, Platform("p", (other, HOST_DEVICE), ()))
    assert rates.origin == "assumed"
    assert rates.peak("float64") == 2 * ASSUMED_FLOPS_PER_UNIT


def test_a_device_without_profile_is_assumed() -> None:
    assert rates_of(replace(CPU, profile=None), PLATFORM).origin == "assumed"


@pytest.mark.parametrize(
    ("dtype", "peak"),
    [("complex64", 2e11), ("complex128", 1e11), ("float16", 2e11), ("int64", 5e10), ("bool", 5e10)],
)
def test_peaks_of_other_dtypes(dtype: str, peak: float) -> None:
    assert rates_of(CPU, PLATFORM).peak(dtype) == peak


def test_lowest_peak_counts_without_a_similar_dtype() -> None:
    poor = replace(profile(), peak_flops={"float32": Quantity(3.0), "float16": Quantity(2.0)})
    assert rates_of(replace(CPU, profile=poor), PLATFORM).peak("float64") == 2.0


def test_zeros_in_a_profile_do_not_divide() -> None:
    empty = replace(profile(), peak_flops={"float64": Quantity(0.0)}, triad_bandwidth_bytes_per_s=Quantity(0.0))
    rates = rates_of(replace(CPU, profile=empty), PLATFORM)
    assert rates.peak("float64") > 0.0
    assert rates.bandwidth(1.0) > 0.0


CURVE = ((1024, 8e10), (1024 * 1024, 2e10), (1024 * 1024 * 1024, 1e10))


@pytest.mark.parametrize(
    ("working_set", "bandwidth"),
    [(1, 8e10), (1024, 8e10), (32 * 1024, 5e10), (1024 * 1024, 2e10), (1 << 40, 1e10)],
)
def test_the_curve_is_followed(working_set: int, bandwidth: float) -> None:
    rates = rates_of(replace(CPU, profile=profile(curve=CURVE)), PLATFORM)
    assert math.isclose(rates.bandwidth(working_set), bandwidth)


@given(
    st.lists(st.tuples(st.integers(0, 1 << 40), st.floats(1.0, 1e13)), min_size=1, max_size=8),
    st.floats(0.0, 1e13),
)
def test_any_curve_gives_something_between_its_ends(curve: list[tuple[int, float]], working_set: float) -> None:
    rates = rates_of(replace(CPU, profile=profile(curve=tuple(curve))), PLATFORM)
    speeds = [speed for _, speed in curve]
    assert min(speeds) * (1 - 1e-12) <= rates.bandwidth(working_set) <= max(speeds) * (1 + 1e-12)


def test_a_lane_of_the_host_has_its_share() -> None:
    whole = rates_of(HOST_DEVICE, PLATFORM)
    half = rates_of(replace(HOST_DEVICE, lanes=2), PLATFORM)
    assert half.peak("float64") == whole.peak("float64") / 2
    assert half.bandwidth(1e9) == whole.bandwidth(1e9) / 2
    assert half.origin == whole.origin
    assert rates_of(replace(HOST_DEVICE, lanes=5), PLATFORM).peak("float64") == whole.peak("float64") / 2
