# SPDX-License-Identifier: Apache-2.0
"""The triad benchmark: its size, and the counted bytes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from syclsched.model.platform import Device, Platform
from syclsched.profiling.measure.bandwidth import last_level_cache_bytes, triad, triad_bytes
from syclsched.profiling.measure.bench import Bench
from syclsched.profiling.statistics import Sampler


def cpu(**changes: Any) -> Device:
    device = Device("cpu", "key", "cpu", "opencl", "a CPU", "cpu", ("cpu",), dtypes=("float32", "float64", "int32"))
    return replace(device, **changes)


def test_triad_size_is_between_caches_and_memory(tmp_path: Path) -> None:
    large = cpu(global_memory_bytes=1 << 40)
    assert triad_bytes(large, 64 << 20) == 256 << 20
    assert triad_bytes(large, 0) == 48 << 20
    assert triad_bytes(cpu(global_memory_bytes=64 << 20), 64 << 20) == 8 << 20
    (tmp_path / "index3").mkdir()
    (tmp_path / "index3" / "size").write_text("36608K\n")
    assert last_level_cache_bytes(tmp_path) == 36608 << 10
    assert last_level_cache_bytes(tmp_path / "none") == 0


@pytest.mark.sycl
def test_the_triad_counts_three_arrays(machine: tuple[Platform, Any]) -> None:
    platform, live = machine
    with Bench(live, platform.compute_devices[0], Sampler()) as bench:
        sample, moved = triad(bench, 1001)
        assert moved == 41 * 24
        assert sample() >= 0
