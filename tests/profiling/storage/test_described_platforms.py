# SPDX-License-Identifier: Apache-2.0
"""Shipped profiles, and platforms of described hardware."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from support.sample_profiles import device_profile, pair_profile

from syclsched.errors import EmptyPlatformError, FormatError, StorageError
from syclsched.model.platform import HOST
from syclsched.profiling.storage.described_platforms import (
    load_platform,
    load_profile,
    load_profile_set,
    platform_from_profiles,
    shipped_names,
)
from syclsched.profiling.storage.files import ProfileSet, write_file

SPEC_SHEETS = {"max1100", "max1550", "a770", "b580", "flex170", "iris-xe", "xeon-8480", "a100", "h100", "mi250x"}
MEASURED = {"cpu", "cpu-subdevice", "emulator", "pocl"}


def test_the_promised_profiles_are_shipped() -> None:
    assert set(shipped_names()) >= SPEC_SHEETS | MEASURED


@pytest.mark.parametrize("name", sorted(SPEC_SHEETS))
def test_every_number_of_a_spec_sheet_has_a_source(name: str) -> None:
    profile = load_profile(name)
    assert profile.key == name
    assert profile.origin == "spec-sheet"
    assert profile.provenance.sources
    numbers = [
        *profile.peak_flops.values(),
        profile.triad_bandwidth_bytes_per_s,
        profile.launch.submission_s,
        profile.launch.latency_s,
        profile.power.busy_w,
        *profile.transfers.values(),
    ]
    assert all(n is not None and n.source for n in numbers)
    assert {"h2d", "d2h"} <= set(profile.transfers)
    assert set(profile.peak_flops) <= set(profile.identity.dtypes)
    assert ("fp64" in profile.identity.aspects) == ("float64" in profile.identity.dtypes)
    assert ("float64" in profile.peak_flops) == ("float64" in profile.identity.dtypes)


@pytest.mark.parametrize("name", sorted(MEASURED))
def test_measured_profiles_are_whole(name: str) -> None:
    profile = load_profile(name)
    assert profile.key == name
    assert profile.origin == "measured"
    assert profile.provenance.complete
    assert profile.provenance.duration_s > 0
    assert {"float32", "float64", "int32"} <= set(profile.peak_flops)
    assert set(profile.transfers) == {"h2d", "d2h", "d2d"}
    assert set(profile.usm) == {"device", "shared", "host"}
    assert len(profile.bandwidth_curve) > 3


def test_published_peaks_are_as_published() -> None:
    assert load_profile("max1550").peak_flops["float64"].value == pytest.approx(52.4e12, rel=0.01)
    assert load_profile("max1100").peak_flops["float64"].value == pytest.approx(22.2e12, rel=0.01)
    assert load_profile("a100").triad_bandwidth_bytes_per_s.value == 2.039e12


def test_a_platform_of_several_devices() -> None:
    platform = load_platform(["a100", "a100", "xeon-8480"])
    assert [d.name for d in platform.devices] == ["a100", "a100.1", "xeon-8480", HOST]
    assert platform.host.reaches == (HOST, "xeon-8480")
    assert not platform.space("a100").host_accessible
    assert platform.space("xeon-8480").host_accessible
    assert [n.source for n in platform.route("a100", "a100.1")] == ["a100", HOST]
    link = platform.link(HOST, "a100")
    assert link is not None
    assert link.origin == "spec-sheet"
    assert platform.submission_s > 0
    assert platform.interference("gpu", "cpu") == 0


def test_devices_on_the_cores_of_one_processor_take_turns() -> None:
    cpu = device_profile("a")
    emulator = replace(cpu, identity=replace(cpu.identity, key="b", kind="accelerator"))
    elsewhere = replace(cpu, provenance=replace(cpu.provenance, host="another processor"))
    platform = platform_from_profiles([cpu, emulator, elsewhere], "mixed")
    assert platform.interference("cpu", "accelerator") == 1.0
    assert platform.interference("cpu", "cpu1") == 0.0
    shared = platform.device("cpu").processor
    assert shared is not None
    assert [d.name for d in platform.devices if d.processor == shared] == ["cpu", "accelerator", HOST]
    assert platform.processor_cores[shared] == cpu.identity.compute_units


def test_gpus_have_cores_of_their_own() -> None:
    assert load_platform(["max1550"]).processor_cores == {}


def test_files_and_sets_are_loaded(tmp_path: Path) -> None:
    first, second = device_profile("a"), device_profile("b")
    path = tmp_path / "both.json"
    write_file(path, ProfileSet((first, second), (pair_profile("a", "b", interference=1.5),)))
    assert load_profile(path) == first
    assert load_profile_set(str(path)).devices == (first, second)
    platform = load_platform([path])
    assert [d.key for d in platform.compute_devices] == ["a", "b"]
    assert platform.interference("cpu", "cpu1") == 1.5


def test_missing_or_damaged_profiles_are_reported(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="a100"):
        load_profile("a1000")
    with pytest.raises(EmptyPlatformError):
        platform_from_profiles([], "nothing")
    bad = tmp_path / "bad.json"
    bad.write_text('{"identity": 1}')
    with pytest.raises(FormatError, match=r"bad\.json.*identity"):
        load_profile(bad)


def test_profiles_need_no_sycl_package() -> None:
    code = (
        "import sys\n"
        "from syclsched.profiling import load_platform, ProfileStore, HistoryStore\n"
        "load_platform(['max1100', 'xeon-8480'])\n"
        "print(*{m.partition('.')[0] for m in sys.modules} & {'dpctl', 'dpnp', 'numba', 'numba_dpex', 'typer', 'rich'})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


@pytest.mark.parametrize("names", [("cpu", "max1550"), ("cpu", "a770", "emulator")])
def test_more_devices_never_make_the_host_slower(names: tuple[str, ...]) -> None:
    together = load_platform(names)
    for name in names:
        alone = load_platform((name,))
        assert together.submission_s <= alone.submission_s
