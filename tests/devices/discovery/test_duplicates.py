# SPDX-License-Identifier: Apache-2.0
"""Devices that several backends show: one device for each piece of hardware."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
from support.machines import (
    CPU,
    CUDA_GPU,
    EMULATOR,
    GIB,
    HIP_GPU,
    OCL_GPU0,
    OCL_GPU1,
    POCL,
    WORKSTATION,
    ZE_GPU0,
    ZE_GPU1,
    device,
)

from syclsched.devices.discovery.duplicates import group_physical


def test_two_identical_cards_under_two_backends_are_two_devices() -> None:
    assert group_physical(WORKSTATION) == ((CPU,), (EMULATOR,), (ZE_GPU0, OCL_GPU0), (ZE_GPU1, OCL_GPU1))


@given(st.permutations(WORKSTATION))
def test_grouping_keeps_all_devices_and_prefers_level_zero(devices: list) -> None:  # type: ignore[type-arg]
    groups = group_physical(devices)
    assert sorted(f.filter_string for g in groups for f in g) == sorted(f.filter_string for f in WORKSTATION)
    assert len(groups) == 4
    assert sorted(g[0].backend for g in groups if g[0].kind == "gpu") == ["level_zero", "level_zero"]


def test_devices_of_one_backend_are_never_grouped() -> None:
    assert group_physical((ZE_GPU0, ZE_GPU1)) == ((ZE_GPU0,), (ZE_GPU1,))
    assert group_physical((CUDA_GPU, HIP_GPU)) == ((CUDA_GPU,), (HIP_GPU,))


def test_the_pci_device_decides_if_both_backends_report_it() -> None:
    other = replace(OCL_GPU0, pci_device=0x56A1)
    assert len(group_physical((ZE_GPU0, other))) == 2
    renamed = replace(OCL_GPU0, name="Something else")
    assert len(group_physical((ZE_GPU0, renamed))) == 1


def test_name_and_memory_decide_where_the_pci_device_is_unknown() -> None:
    opencl = device("opencl", "gpu", "NVIDIA A100-SXM4-40GB", global_memory_bytes=39 * GIB)
    assert group_physical((opencl, CUDA_GPU)) == ((CUDA_GPU, opencl),)
    assert len(group_physical((replace(opencl, global_memory_bytes=80 * GIB), CUDA_GPU))) == 2
    assert len(group_physical((replace(opencl, name="NVIDIA A30"), CUDA_GPU))) == 2


def test_same_cpu_driver_twice_is_one_device() -> None:
    again = replace(CPU, backend_index=4, filter_string="opencl:cpu:1")
    newer = replace(again, driver_version="2.0", platform="opencl of cpu | 2.0")
    assert group_physical((CPU, again)) == ((CPU, again),)
    assert group_physical((CPU, newer, again)) == ((CPU, newer, again),)
    board = replace(EMULATOR, driver_version="2.0", filter_string="opencl:accelerator:1")
    assert len(group_physical((EMULATOR, board))) == 2


def test_another_runtime_for_the_processor_is_another_device() -> None:
    assert group_physical((CPU, POCL)) == ((CPU,), (POCL,))
