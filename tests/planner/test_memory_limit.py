# SPDX-License-Identifier: Apache-2.0
"""Memory limits: the users' notation, and the limited platform."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from syclsched.api import describe
from syclsched.errors import ArgumentError, MemoryLimitError
from syclsched.model.platform import HOST, Platform
from syclsched.planner.memory_limit import check_peak, with_memory_limit


def capacities(platform: Platform) -> dict[str, int]:
    return {space.name: space.capacity_bytes for space in platform.spaces}


PLATFORM = describe(["a770", "max1550"])
GPU = PLATFORM.device("a770").space


@given(st.integers(1, 2**40))
def test_memory_is_the_smaller_of_capacity_and_limit(nbytes: int) -> None:
    before = capacities(PLATFORM)
    after = capacities(with_memory_limit(PLATFORM, {GPU: nbytes}))
    assert after == before | {GPU: min(nbytes, before[GPU]) if before[GPU] else nbytes}


@pytest.mark.parametrize(("size", "nbytes"), [("64KiB", 2**16), ("1.5 kB", 1500), ("10B", 10), (77, 77)])
def test_sizes_have_units(size: int | str, nbytes: int) -> None:
    assert capacities(with_memory_limit(PLATFORM, {GPU: size}))[GPU] == nbytes


def test_memory_of_unknown_size_can_be_limited() -> None:
    unknown = replace(PLATFORM, spaces=tuple(replace(s, capacity_bytes=0) for s in PLATFORM.spaces))
    assert capacities(with_memory_limit(unknown, {GPU: 5}))[GPU] == 5


def test_one_size_is_for_every_device_and_not_for_the_host() -> None:
    after = capacities(with_memory_limit(PLATFORM, "1KiB"))
    assert {name for name, nbytes in after.items() if nbytes == 1024} == {d.space for d in PLATFORM.compute_devices}
    assert after[HOST] == capacities(PLATFORM)[HOST]


def test_device_names_its_memory_and_smallest_limit_counts() -> None:
    cut = replace(PLATFORM, devices=tuple(replace(d, name=f"{d.name}.0") for d in PLATFORM.devices))
    assert capacities(with_memory_limit(cut, {"a770.0": 200, GPU: 300}))[GPU] == 200


@pytest.mark.parametrize(
    "limit", [{"nowhere": 5}, {GPU: 0}, {GPU: "0B"}, {GPU: "7"}, {GPU: True}, "much", {GPU: -4}, 7.5, {GPU: 7.5}]
)
def test_invalid_limits_are_refused(limit: object) -> None:
    with pytest.raises(ArgumentError, match="memory limit"):
        with_memory_limit(PLATFORM, limit)  # type: ignore[arg-type]


def test_a_plan_that_needs_more_is_refused_with_both_sizes() -> None:
    check_peak({GPU: 100}, PLATFORM, {GPU: 100})
    with pytest.raises(MemoryLimitError, match=r"needs 2048 bytes \(2.000 KiB\).*limit is 1024"):
        check_peak({GPU: 2048}, PLATFORM, "1KiB")
