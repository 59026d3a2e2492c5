# SPDX-License-Identifier: Apache-2.0
"""Device facts as the runtime and the operating system report them."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.machines import CPU, EMULATOR, INTEGRATED, ZE_GPU0, device

from syclsched.devices.discovery.device_facts import (
    cgroup_limit,
    find_devices,
    is_integrated,
    platform_label,
    read_host,
)


def pci(folder: Path, address: str, vendor: int, identifier: int) -> None:
    (folder / address).mkdir()
    (folder / address / "vendor").write_text(f"0x{vendor:04x}\n")
    (folder / address / "device").write_text(f"0x{identifier:04x}\n")


def test_an_integrated_gpu_is_recognised_by_its_pci_address(tmp_path: Path) -> None:
    pci(tmp_path, "0000:00:02.0", 0x8086, 0x9A49)
    pci(tmp_path, "0000:03:00.0", 0x8086, 0x56A0)
    pci(tmp_path, "0000:00:03.0", 0x1002, 0x56A1)
    (tmp_path / "0000:04:00.0").mkdir()
    assert is_integrated(0x9A49, tmp_path)
    assert not is_integrated(0x56A0, tmp_path)
    assert not is_integrated(0x56A1, tmp_path)
    assert not is_integrated(0x1234, tmp_path)
    assert not is_integrated(0x9A49, tmp_path / "missing")


def test_devices_in_host_memory_are_recognised() -> None:
    board = device("opencl", "accelerator", "An FPGA board")
    assert [f.host_accessible for f in (CPU, EMULATOR, INTEGRATED, ZE_GPU0, board)] == [True, True, True, False, False]


def test_the_control_groups_limit(tmp_path: Path) -> None:
    limit = tmp_path / "memory.max"
    limit.write_text("1073741824\n")
    assert cgroup_limit(5, limit) == 1 << 30
    limit.write_text("max\n")
    assert cgroup_limit(5, limit) == 5
    assert cgroup_limit(5, tmp_path / "missing") == 5


def test_the_host() -> None:
    host = read_host({"B": "2", "A": "1"})
    assert host.boot_environment == (("A", "1"), ("B", "2"))
    assert host.cores >= 1 and host.memory_bytes > 0 and host.processor


@pytest.mark.sycl
def test_two_drivers_with_platforms_of_one_name_are_two(monkeypatch: pytest.MonkeyPatch) -> None:
    from syclsched import oneapi

    oneapi.load()
    import dpctl

    names = ("Intel(R) OpenCL", "Other", "Intel(R) OpenCL ")
    platforms = [type("Platform", (), {"name": name, "version": "OpenCL 3.0"})() for name in names]
    monkeypatch.setattr(dpctl, "get_platforms", lambda: platforms)
    assert [platform_label(each) for each in platforms] == [
        "Intel(R) OpenCL | OpenCL 3.0",
        "Other | OpenCL 3.0",
        "Intel(R) OpenCL | OpenCL 3.0 | 2",
    ]


@pytest.mark.sycl
def test_this_machines_devices() -> None:
    found = find_devices()
    cpu = next(each for each in found if each.facts.kind == "cpu")
    facts = cpu.facts
    assert facts.filter_string == cpu.sycl_device.filter_string
    assert facts.compute_units == cpu.sycl_device.max_compute_units
    assert ("fp64" in facts.aspects) == cpu.sycl_device.has_aspect_fp64
    assert "gpu" not in facts.aspects
    assert facts.sub_group_sizes and set(facts.sub_group_sizes) == set(cpu.sycl_device.sub_group_sizes)
    assert [each.facts.backend_index for each in found if each.facts.backend == "opencl"] == list(
        range(sum(each.facts.backend == "opencl" for each in found))
    )
