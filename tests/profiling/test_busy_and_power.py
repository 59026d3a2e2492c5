# SPDX-License-Identifier: Apache-2.0
"""Processor time of other processes, and energy counters, from files of the operating system."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from syclsched.model.profile import Power
from syclsched.profiling.busy import CpuTimes, LoadMeter, is_quiet, others_share, parse_stat, read_times, watch
from syclsched.profiling.measure.power import EnergyCounter, average_power, find_counters, measure_power

STAT = "cpu  400 100 300 5000 200 10 20 70 50 0\ncpu0 1 2 3 4 5 6 7 8 9 10\n"


def test_stat_is_read_as_proc_5_defines_it() -> None:
    busy, total = parse_stat(STAT, 100.0)
    assert busy == pytest.approx(9.0)  # all but idle and iowait; guest time is within user time
    assert total == pytest.approx(61.0)
    assert parse_stat("intr 1 2 3\n", 100.0) == (0.0, 0.0)


def test_own_processor_time_does_not_count_as_load() -> None:
    before, after = CpuTimes(10.0, 100.0, 5.0), CpuTimes(14.0, 120.0, 8.0)
    assert others_share(before, after) == pytest.approx(1.0 / 20.0)
    assert others_share(None, after) is None
    assert others_share(after, after) is None


@given(st.floats(0, 100), st.floats(0, 100), st.floats(0.1, 100))
def test_the_share_is_a_share(busy: float, own: float, passed: float) -> None:
    share = others_share(CpuTimes(0, 0, 0), CpuTimes(busy, passed, own))
    assert share is not None
    assert 0.0 <= share <= 1.0


def test_watching_pauses_between_two_readings() -> None:
    readings = iter([CpuTimes(0, 0, 0), CpuTimes(1.5, 2.0, 0.5)])
    pauses: list[float] = []
    assert watch(0.3, read=lambda: next(readings), pause=pauses.append) == 0.5
    assert pauses == [0.3]


def test_load_is_measured_over_a_quarter_of_a_second() -> None:
    # All cores together: at first idle, then half of the machine is busy.
    readings = iter(
        CpuTimes(busy, total, 0.0)
        for busy, total in ((0, 0), (0.0, 1.0), (0.0, 2.0), (0.05, 2.1), (0.1, 2.2), (0.15, 2.3), (0.2, 2.4))
    )
    meter = LoadMeter(read=lambda: next(readings))
    loads = [meter.load() for _ in range(6)]
    assert loads == pytest.approx([0.0, 0.0, 0.05 / 1.1, 0.1 / 1.2, 0.5, 0.5])
    assert [is_quiet(load) for load in loads] == [True] * 4 + [False] * 2


def test_where_no_load_is_reported_all_measurements_count() -> None:
    meter = LoadMeter(read=lambda: None)
    assert meter.load() is None
    assert is_quiet(None)


def test_processor_times_are_read_or_none(tmp_path: Path) -> None:
    times = read_times()
    assert times is None or times.total_s >= times.busy_s > 0
    assert read_times(tmp_path / "absent") is None
    (tmp_path / "stat").write_text("cpu  a b c d e f g h\n")
    assert read_times(tmp_path / "stat") is None


# --- power ------------------------------------------------------------------------------------------


def fake_sys(folder: Path) -> Path:
    for name, label in (("intel-rapl:0", "package-0"), ("intel-rapl:0:0", "core"), ("intel-rapl:1", "psys")):
        rapl = folder / "class/powercap" / name
        rapl.mkdir(parents=True)
        (rapl / "name").write_text(label + "\n")
        (rapl / "energy_uj").write_text("1000000\n")
        (rapl / "max_energy_range_uj").write_text("262143328850\n")
    for index, driver in enumerate(("coretemp", "xe")):
        hwmon = folder / f"class/hwmon/hwmon{index}"
        hwmon.mkdir(parents=True)
        (hwmon / "name").write_text(driver + "\n")
        (hwmon / "energy1_input").write_text("5000000\n")
    return folder


def test_packages_and_the_one_gpu_are_found(tmp_path: Path) -> None:
    sys = fake_sys(tmp_path)
    assert [c.label for c in find_counters("cpu", sys)] == ["powercap intel-rapl:0"]
    assert [c.label for c in find_counters("gpu", sys)] == ["hwmon xe"]
    assert find_counters("accelerator", sys) == ()
    assert find_counters("cpu", tmp_path / "none") == ()


def test_power_is_energy_over_time(tmp_path: Path) -> None:
    counters = find_counters("cpu", fake_sys(tmp_path))
    times = iter([10.0, 12.0])
    path = counters[0].path
    power = average_power(counters, lambda: path.write_text("61000000") and None, clock=lambda: next(times))
    assert power is not None
    assert power.value == pytest.approx(30.0)
    assert power.source == "powercap intel-rapl:0"


def test_an_energy_counter_may_wrap_around() -> None:
    counter = EnergyCounter(Path("x"), 1000.0, "x")
    assert counter.joules(900.0, 100.0) == pytest.approx(200e-6)


def test_missing_energy_counters_give_no_power(tmp_path: Path) -> None:
    assert measure_power("cpu", lambda: None, 0.0, sys=tmp_path) == Power()
    (tmp_path / "class/powercap/intel-rapl:0").mkdir(parents=True)
    (tmp_path / "class/powercap/intel-rapl:0/name").write_text("package-0")
    (tmp_path / "class/powercap/intel-rapl:0/energy_uj").write_text("unreadable")
    assert find_counters("cpu", tmp_path) == ()


def test_too_short_intervals_give_no_power(tmp_path: Path) -> None:
    counters = find_counters("cpu", fake_sys(tmp_path))
    times = iter([1.0, 1.01])
    assert average_power(counters, lambda: None, clock=lambda: next(times)) is None
