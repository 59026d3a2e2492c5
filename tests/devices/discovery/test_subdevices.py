# SPDX-License-Identifier: Apache-2.0
"""Partitions of devices: parsed, distributed evenly, and refused with the reason."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.machines import CPU, device

from syclsched.devices.discovery.device_facts import FoundDevice
from syclsched.devices.discovery.subdevices import SubDevices, parse_sub_devices, partition_error, split, unit_counts
from syclsched.errors import SelectionError


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2", SubDevices("count", "2")),
        (3, SubDevices("count", "3")),
        (" units:4 ", SubDevices("equally", "4")),
        ("equally:1", SubDevices("equally", "1")),
        ("numa", SubDevices("affinity", "numa")),
        ("L3_cache", SubDevices("affinity", "L3_cache")),
        ("l2", SubDevices("affinity", "L2_cache")),
        ("next", SubDevices("affinity", "next_partitionable")),
    ],
)
def test_reading(text: str | int, expected: SubDevices) -> None:
    assert parse_sub_devices(text) == expected


@pytest.mark.parametrize("text", ["", "0", "-1", -3, "two", "units:", "units:0", "l5", "1.5", "9999999"])
def test_malformed_partitions_are_refused(text: str | int) -> None:
    with pytest.raises(SelectionError, match="Write 2"):
        parse_sub_devices(text)


def test_a_partition_from_a_file_is_checked() -> None:
    with pytest.raises(SelectionError):
        SubDevices("affinity", "../numa")
    with pytest.raises(SelectionError):
        SubDevices("count", "0x2")


@given(st.integers(1, 500), st.integers(1, 64))
def test_units_are_shared_out_evenly(units: int, parts: int) -> None:
    counts = unit_counts(units, parts)
    assert sum(counts) == units and len(counts) == parts
    assert max(counts) - min(counts) <= 1
    assert list(counts) == sorted(counts, reverse=True)


def test_more_parts_than_compute_units_are_refused() -> None:
    assert partition_error(CPU, SubDevices("count", "16")) is None
    assert partition_error(CPU, SubDevices("count", "17")) == "it has 16 compute units"
    one = device("opencl", "cpu", "Small", compute_units=1)
    assert partition_error(one, SubDevices("equally", "2")) == "it has 1 compute unit"


class _Refusing:
    """A driver's device that cannot be split."""

    def create_sub_devices(self, partition: object) -> list[object]:
        import dpctl

        raise dpctl.SyclSubDeviceCreationError("Sub-devices were not created.")


class _Odd:
    """A driver's device that makes a different number of parts than requested."""

    def create_sub_devices(self, partition: object) -> list[object]:
        return [self]


@pytest.mark.sycl
@pytest.mark.parametrize(("fake", "reason"), [(_Refusing(), "its driver refuses"), (_Odd(), "made 1 parts")])
def test_a_driver_that_refuses_is_quoted(fake: object, reason: str) -> None:
    from syclsched import oneapi

    oneapi.load()
    with pytest.raises(SelectionError, match=f"cannot be split into 2 parts: .*{reason}") as caught:
        split(FoundDevice(CPU, fake), SubDevices("count", "2"))
    assert CPU.filter_string in str(caught.value)
