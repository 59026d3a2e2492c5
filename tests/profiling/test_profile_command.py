# SPDX-License-Identifier: Apache-2.0
"""The profile command: numbers as text, saved files, Ctrl-C, and the whole command on the CPU device."""

from __future__ import annotations

import json
import os
import signal
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st
from support.sample_profiles import device_profile, pair_profile
from typer.testing import CliRunner

from syclsched.api.device_profiles import save_profiles
from syclsched.cli.commands.profile import export_profile, profile_command, write_set
from syclsched.cli.requests.device_profiles import interrupt_flag
from syclsched.errors import CapabilityError, MeasurementError, SelectionError
from syclsched.model.platform import Platform
from syclsched.model.views.profile_rows import pair_row, profile_rows, scaled, with_unit
from syclsched.onnx import kernel_comparison
from syclsched.profiling.measure import session_budget
from syclsched.profiling.session import SessionResult
from syclsched.profiling.storage.files import parse_profile_set
from syclsched.profiling.storage.profile_store import ProfileStore


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (1.234e-5, "s", "12.3 µs"),
        (0.9999, "s", "1 s"),
        (999.6, "B/s", "1 kB/s"),
        (2.82e11, "FLOP/s", "282 GFLOP/s"),
        (0.0, "s", "0 s"),
        (1e-12, "s", "0.001 ns"),
        (0.93, "", "0.93"),
    ],
)
def test_numbers_have_three_digits_and_a_prefix(value: float, unit: str, text: str) -> None:
    assert with_unit(value, unit) == text


@given(st.floats(1e-9, 1e17))
def test_prefixes_keep_the_value(value: float) -> None:
    number, unit = scaled(value, "s")
    factors = {"P": 1e15, "T": 1e12, "G": 1e9, "M": 1e6, "k": 1e3, "": 1.0, "m": 1e-3, "µ": 1e-6, "n": 1e-9}
    assert float(number) * factors[unit[:-1]] == pytest.approx(value, rel=0.006)


def test_every_number_is_in_the_table_with_unit_and_spread() -> None:
    rows = {row[0]: row[1:] for row in profile_rows(device_profile())}
    assert rows["submission"] == ("10", "µs", "±1.0%", "9")
    assert rows["launch latency"] == ("30", "µs", "±3.3%", "9 (2)")
    assert rows["float64 multiply-add"] == ("50", "GFLOP/s", "±2.0%", "8")
    assert rows["copy h2d bandwidth"] == ("5", "GB/s", "±10%", "2 sizes")
    assert rows["slow-down, kernel beside kernel"] == ("0.1", "", "±0.01", "5")
    assert "power, idle" not in rows
    assert pair_row(pair_profile("a", "b")) == ("100 µs", "40 µs", "4 GB/s", "0.90 ±0.10")


# --- saving -----------------------------------------------------------------------------------------


def result(*profiles: Any, complete: bool = True) -> SessionResult:
    return SessionResult(profiles, (), complete, ())


def test_an_interrupted_profile_does_not_replace_a_complete_one(tmp_path: Path) -> None:
    store = ProfileStore(tmp_path)
    whole, part = device_profile("k"), device_profile("k", complete=False)
    save_profiles(result(part, complete=False), store)
    assert store.load("k") == part
    save_profiles(result(whole), store)
    assert store.load("k") == whole
    said = save_profiles(result(part, complete=False), store)
    assert store.load("k") == whole
    assert "kept" in said[0]


def busy(profile: Any) -> Any:
    return replace(profile, provenance=replace(profile.provenance, busy=True))


def test_busy_profile_does_not_replace_quiet_profile(tmp_path: Path) -> None:
    store = ProfileStore(tmp_path)
    quiet, noisy = device_profile("k", lanes=1), busy(device_profile("k", lanes=4))
    said = save_profiles(result(noisy), store, forget=False)
    assert store.load("k") == noisy
    assert "--refresh" in said[1]
    save_profiles(result(quiet), store, forget=False)
    assert store.load("k") == quiet
    said = save_profiles(result(noisy), store, forget=False)
    assert store.load("k") == quiet
    assert "quiet machine" in said[0]
    pair = pair_profile("k", "l", interference=0.9)
    save_profiles(SessionResult((), (pair,), True, ()), store)
    save_profiles(SessionResult((), (busy(replace(pair, interference=None)),), True, ()), store)
    assert store.load_pair("k", "l") == pair


def test_a_damaged_profile_is_replaced(tmp_path: Path) -> None:
    store = ProfileStore(tmp_path)
    store.save(device_profile("k")).write_text("{")
    save_profiles(result(device_profile("k", complete=False), complete=False), store)
    assert store.load("k") == device_profile("k", complete=False)


def test_exported_profiles_are_keyed_by_name(tmp_path: Path) -> None:
    path = export_profile(device_profile("machine-specific"), str(tmp_path / "mine"))
    assert path == tmp_path / "mine.json"
    assert json.loads(path.read_text())["identity"]["key"] == "mine"


def test_an_empty_result_raises_an_error_and_writes_no_file(tmp_path: Path) -> None:
    with pytest.raises(MeasurementError, match="no device"):
        write_set(result(), tmp_path / "out.json")
    assert not (tmp_path / "out.json").exists()


# --- Ctrl-C -----------------------------------------------------------------------------------------


def test_the_first_interrupt_is_a_question_and_the_second_acts() -> None:
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt), interrupt_flag() as interrupted:
        assert not interrupted()
        os.kill(os.getpid(), signal.SIGINT)
        assert interrupted()
        os.kill(os.getpid(), signal.SIGINT)
        pytest.fail("the second interrupt was swallowed")
    assert signal.getsignal(signal.SIGINT) is before


def test_interruption_does_nothing_in_other_threads() -> None:
    seen: list[bool] = []

    def work() -> None:
        with interrupt_flag() as interrupted:
            seen.append(interrupted())

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [False]


# --- the command ------------------------------------------------------------------------------------


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch, small_triad: None) -> None:
    small = replace(
        session_budget.QUICK, total_s=5.0, number_s=0.0, point_s=0.0, kernel_s=1e-4, watch_s=0.0,
        curve_bytes=(3 << 10, 3 << 14), transfer_bytes=(1 << 10, 1 << 14),
    )  # fmt: skip
    monkeypatch.setattr(session_budget, "QUICK", small)


def run(*arguments: str) -> Any:
    app = typer.Typer()
    app.command()(profile_command)
    return CliRunner().invoke(app, list(arguments))


@pytest.mark.gpu_shape
@pytest.mark.sycl
@pytest.mark.usefixtures("tiny")
def test_the_command_prints_saves_writes_and_exports(tmp_path: Path) -> None:
    done = run(
        "--quick", "--device", "cpu", "--store", str(tmp_path / "store"),
        "--output", str(tmp_path / "all.json"), "--export", str(tmp_path / "cpu"),
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    for words in ("float32 multiply-add", "GFLOP/s", "triad bandwidth", "copy h2d latency", "lanes worth using"):
        assert words in done.output
    profiles = parse_profile_set((tmp_path / "all.json").read_bytes(), where="all.json")
    assert ProfileStore(tmp_path / "store").load(profiles.devices[0].key) == profiles.devices[0]
    assert json.loads((tmp_path / "cpu.json").read_text())["identity"]["key"] == "cpu"


@pytest.mark.sycl
@pytest.mark.usefixtures("tiny")
def test_json_is_nothing_but_json(tmp_path: Path) -> None:
    done = run("--quick", "--device", "cpu", "--json", "--store", str(tmp_path))
    assert done.exit_code == 0
    assert len(parse_profile_set(done.stdout, where="stdout").devices) == 1


@pytest.mark.sycl
@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize(
    ("result", "said"),
    [
        (True, "kernels were compared with oneDNN"),
        (False, "kernels were not compared with oneDNN, since the machine was busy"),
        (CapabilityError("onednn runs none of the operations here"), "not compared with oneDNN: onednn runs none"),
    ],
)
def test_kernels_are_compared_with_the_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, result: bool | CapabilityError, said: str
) -> None:
    pytest.importorskip("onnx", reason="ONNX models choose by the comparison")
    compared: list[str] = []

    def compare(platform: Platform) -> bool:
        compared.extend(device.name for device in platform.compute_devices)
        if isinstance(result, CapabilityError):
            raise result
        return result

    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.setattr(kernel_comparison, "can_compare", lambda platform: True)
    monkeypatch.setattr(kernel_comparison, "compare_kernels", compare)
    done = run("--quick", "--device", "cpu")
    assert done.exit_code == 0, done.output
    assert compared == ["cpu"] and said in " ".join(done.stderr.split())
    run("--quick", "--device", "cpu", "--store", str(tmp_path / "elsewhere"))  # which models do not read
    assert compared == ["cpu"]


@pytest.mark.sycl
@pytest.mark.usefixtures("tiny")
def test_ctrl_c_keeps_completed_measurements(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from syclsched.profiling.measure import bandwidth

    measure = bandwidth.measure_triad

    def interrupted_after(*arguments: Any, **options: Any) -> Any:
        quantity = measure(*arguments, **options)
        os.kill(os.getpid(), signal.SIGINT)
        return quantity

    monkeypatch.setattr(bandwidth, "measure_triad", interrupted_after)
    done = run("--quick", "--device", "cpu", "--store", str(tmp_path), "--output", str(tmp_path / "part.json"))
    assert done.exit_code == 130
    assert "interrupted" in done.stderr
    assert "Interrupted" in done.stdout
    (profile,) = parse_profile_set((tmp_path / "part.json").read_bytes(), where="part").devices
    assert not profile.provenance.complete
    assert set(profile.peak_flops) == {"float32"}
    assert ProfileStore(tmp_path).load(profile.key) == profile


@pytest.mark.sycl
@pytest.mark.usefixtures("tiny")
def test_a_refresh_measures_only_unusable_profiles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from syclsched.profiling import busy as load

    monkeypatch.setattr(load, "watch", lambda duration_s: None)
    monkeypatch.setattr(load, "read_times", lambda: None)  # independent of other load on this machine
    where = ("--quick", "--device", "cpu", "--store", str(tmp_path))
    first = run("--refresh", *where)
    assert first.exit_code == 0 and "cpu: missing" in first.stderr
    (path,) = (tmp_path / "profiles").glob("*.json")
    before = path.read_text()
    again = run("--refresh", *where)
    assert again.exit_code == 0 and "All profiles are complete" in again.stderr
    assert path.read_text() == before
    (profile,) = parse_profile_set(path.read_bytes(), where="stored").devices
    ProfileStore(tmp_path).save(busy(profile))
    third = run("--refresh", *where)
    assert "cpu: measured on a busy machine" in third.stderr
    (profile,) = parse_profile_set(path.read_bytes(), where="stored").devices
    assert not profile.provenance.busy


@pytest.mark.sycl
def test_only_one_device_can_be_exported(tmp_path: Path) -> None:
    done = run("--device", "cpu.0,cpu.1", "--export", str(tmp_path / "x"), "--store", str(tmp_path))
    assert isinstance(done.exception, SelectionError)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("forget", "noisy"), [(True, False), (False, False), (True, True)])
def test_task_times_are_dropped_with_a_new_quiet_profile(
    forget: bool, noisy: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from syclsched.costs.history import HistoryKey
    from syclsched.profiling import HistoryStore, ProfileStore, load_profile
    from syclsched.profiling.session import SessionResult

    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    profile = load_profile("cpu")
    profile = replace(profile, provenance=replace(profile.provenance, busy=noisy))
    key = HistoryKey(profile.key, "gemm", "numpy", "1", "any")
    with HistoryStore() as history:
        history.record(key, [1.0, 1.0, 1.0])
    save_profiles(
        SessionResult(devices=(profile,), pairs=(), complete=True, notes=()),
        ProfileStore(tmp_path / "p"),
        forget=forget,
    )
    with HistoryStore() as history:
        assert (history.lookup(key) is None) is (forget and not noisy)
