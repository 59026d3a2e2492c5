# SPDX-License-Identifier: Apache-2.0
"""Tiny profiling sessions on the CPU device: structure, verification, interruption."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

import pytest

from syclsched.devices.programs import program_cache, programs, task_compiler
from syclsched.devices.programs.bounded_cache import BoundedCache
from syclsched.errors import MeasurementError
from syclsched.model.platform import Platform
from syclsched.profiling.measure import throughput
from syclsched.profiling.measure.bench import Bench
from syclsched.profiling.measure.session_budget import QUICK
from syclsched.profiling.session import MeasurementEnvironment, profile_platform
from syclsched.profiling.statistics import Sampler
from syclsched.profiling.storage.attaching import with_profiles
from syclsched.profiling.storage.files import ProfileSet, parse_profile_set

TINY = replace(
    QUICK,
    total_s=5.0,
    number_s=0.0,
    point_s=0.0,
    kernel_s=1e-4,
    curve_bytes=(3 << 10, 3 << 14),
    transfer_bytes=(1 << 10, 1 << 14),
    watch_s=0.0,
    power_s=0.06,
)


@pytest.mark.sycl
@pytest.mark.usefixtures("small_triad")
def test_session_measures_everything(machine: tuple[Platform, Any]) -> None:
    from syclsched.model.text.json_serialisation import to_json

    platform, live = machine
    told: list[tuple[str, int, int, str]] = []
    where = MeasurementEnvironment("a processor", {"dpctl": "x"}, {"CL_CONFIG_CPU_TARGET_ARCH": "y"})
    result = profile_platform(platform, live, TINY, progress=lambda *t: told.append(t), where=where)
    assert result.complete
    (profile,) = result.devices
    assert profile.key == platform.compute_devices[0].key
    assert profile.provenance.complete
    assert profile.provenance.host == "a processor"
    assert not [n for n in profile.provenance.notes if "wrong" in n]
    assert set(profile.peak_flops) == set(throughput.measurable_dtypes(platform.compute_devices[0]))
    assert set(profile.transfers) == {"h2d", "d2h", "d2d"}
    assert [size for size, _ in profile.bandwidth_curve] == [3 << 10, 3 << 14]
    assert {"device", "shared", "host"} == set(profile.usm)
    assert profile.usm["host"].read_bandwidth_bytes_per_s is not None
    assert profile.usm["host"].read_bandwidth_bytes_per_s.value > 0
    for quantity in (profile.launch.chain_task_s, profile.launch.cross_queue_s, profile.launch.jit_first_launch_s):
        assert quantity is not None
        assert quantity.value > 0
    assert profile.overlap.kernel_kernel is not None
    assert profile.overlap.copy_kernel is not None
    assert profile.identity.host_accessible
    assert 1 <= profile.identity.lanes <= profile.identity.compute_units
    profiles = ProfileSet(result.devices, result.pairs)
    assert parse_profile_set(to_json(profiles), where="memory") == profiles
    assert told[0][1] == 0
    assert told[-1][1] == told[-1][2]
    assert with_profiles(platform, {profile.key: profile}, ()).submission_s == profile.launch.submission_s.value


@pytest.mark.sycl
@pytest.mark.usefixtures("small_triad")
def test_a_session_builds_the_kernels_it_measures_together(
    machine: tuple[Platform, Any], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    platform, live = machine
    monkeypatch.setenv(program_cache.VARIABLE, "0")
    monkeypatch.setattr(programs, "_PROGRAMS", BoundedCache(100))
    monkeypatch.setattr(task_compiler, "_EXECUTABLES", BoundedCache(100))
    caplog.set_level(logging.DEBUG, "syclsched")
    profile_platform(platform, live, TINY)
    built = [each for each in caplog.messages if each.startswith("compiling") and "first_launch" not in each]
    # One program without extensions, and one for each of float64 and float16.
    assert 1 <= len(built) <= 3
    assert any("empty" in each and "fma_chain, fma_chain" in each for each in built)


@pytest.mark.sycl
@pytest.mark.usefixtures("small_triad")
@pytest.mark.parametrize(("steps", "kept"), [(1, 0), (6, 1)])
def test_an_interrupted_session_keeps_completed_steps(machine: tuple[Platform, Any], steps: int, kept: int) -> None:
    platform, live = machine
    begun: list[str] = []
    result = profile_platform(
        platform,
        live,
        TINY,
        sampler=Sampler(interrupted=lambda: len(begun) > steps),
        progress=lambda device, done, total, label: begun.append(label),
    )
    assert not result.complete
    assert len(result.devices) == kept
    assert any("interrupted" in note for note in result.notes)
    for profile in result.devices:
        assert not profile.provenance.complete
        assert profile.transfers == {} or "d2d" not in profile.transfers


@pytest.mark.sycl
@pytest.mark.usefixtures("small_triad")
def test_a_wrong_result_is_found_out(machine: tuple[Platform, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    platform, live = machine
    monkeypatch.setattr(throughput, "fma_reference", lambda x, c, n: x + 1)
    bench = Bench(live, platform.compute_devices[0], Sampler())
    with bench, pytest.raises(MeasurementError, match="wrong float32 results"):
        throughput.FmaChain(bench, "float32")
    result = profile_platform(platform, live, TINY)
    assert result.devices == ()
    assert any("wrong" in note for note in result.notes)
