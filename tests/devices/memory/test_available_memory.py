# SPDX-License-Identifier: Apache-2.0
"""The available memory of the machine, an upper bound of all allocations."""

from __future__ import annotations

from pathlib import Path

import pytest

import syclsched
from syclsched.devices import open_devices
from syclsched.devices.memory import available_memory
from syclsched.devices.memory.available_memory import CHECKED_BYTES, available_bytes, check_available
from syclsched.errors import MemoryLimitError
from syclsched.model.platform import HOST

MIB = 1 << 20


def write_group(folder: Path, limit: str, used: int, cached: int) -> None:
    (folder / "memory.max").write_text(f"{limit}\n")
    (folder / "memory.current").write_text(f"{used}\n")
    (folder / "memory.stat").write_text(f"anon {used - cached}\ninactive_file {cached}\n")


def test_available_memory_is_read_from_meminfo(tmp_path: Path) -> None:
    machine = tmp_path / "meminfo"
    machine.write_text("MemTotal: 4096 kB\nMemFree: 10 kB\nMemAvailable: 2048 kB\n")
    assert available_bytes(machine, tmp_path / "none") == 2 * MIB
    assert available_bytes(tmp_path / "none", tmp_path / "none") is None


def test_a_container_has_a_limit_of_its_own(tmp_path: Path) -> None:
    machine = tmp_path / "meminfo"
    machine.write_text("MemAvailable: 2048 kB\n")
    write_group(tmp_path, "max", 100, 0)
    assert available_bytes(machine, tmp_path) == 2 * MIB
    write_group(tmp_path, str(MIB), 900_000, 300_000)
    assert available_bytes(machine, tmp_path) == MIB - 600_000
    write_group(tmp_path, str(MIB), 2 * MIB, 0)
    assert available_bytes(machine, tmp_path) == 0


def test_this_machine_has_memory() -> None:
    left = available_bytes()
    assert left is not None
    assert left > CHECKED_BYTES
    check_available(CHECKED_BYTES, HOST)
    with pytest.raises(MemoryLimitError, match=r"the machine has .* left .*\n?.*memory_info") as caught:
        check_available(1 << 60, "cpu")
    assert caught.value.space == "cpu"


@pytest.mark.sycl
def test_all_plans_share_the_available_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before, each plan was within its limit, and the kernel killed the process when the sum exceeded the memory."""
    left = [100 * MIB]
    monkeypatch.setattr(available_memory, "available_bytes", lambda: left[0])
    platform = syclsched.discover("cpu")
    with open_devices(platform) as one, open_devices(platform) as other:
        for space in (platform.compute_devices[0].space, HOST):
            left[0] = 100 * MIB
            kept, _ = one.pools.take(space, 80 * MIB)
            left[0] -= 80 * MIB
            with pytest.raises(MemoryLimitError, match="left beside all that is in use"):
                other.pools.take(space, 80 * MIB)
            other.pools.take(space, MIB)
            kept.give_back()
            one.pools.take(space, 80 * MIB)  # memory that it had before
