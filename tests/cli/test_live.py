# SPDX-License-Identifier: Apache-2.0
"""plan, run, trace and compare through the command line on the devices of this machine."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import numpy as np
import pytest
from support.commands import call
from support.gpu_shape import OTHER_DEVICE

pytestmark = pytest.mark.sycl

SMALL = ("cholesky", "--n", 200, "--tile", 64)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Use one data folder for all tests here, so that devices are profiled once."""
    return tmp_path_factory.mktemp("home")


@pytest.fixture(autouse=True)
def own_data_folder(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(home))


def summary(capsys: pytest.CaptureFixture[str], *arguments: object) -> dict[str, object]:
    done = call(capsys, "run", *arguments, "--json")
    assert done.code == 0, done.err
    return json.loads(done.out)  # type: ignore[no-any-return]


def devices_of(found: dict[str, object]) -> set[str]:
    places = found["where"]
    assert isinstance(places, dict)
    return {place.split("/")[0] for family in places.values() for place in family}


def is_right(found: dict[str, object]) -> bool:
    result = found["result"]
    assert isinstance(result, dict)
    return bool(result["ok"]) and result["residual"] <= result["tolerance"]


@pytest.mark.gpu_shape
@pytest.mark.parametrize("policy", ["auto", "heft", "single:cpu", f"single:{OTHER_DEVICE}"])
def test_cholesky_on_both_devices(capsys: pytest.CaptureFixture[str], policy: str) -> None:
    found = summary(capsys, *SMALL, "--policy", policy)
    assert is_right(found)
    if policy.startswith("single:"):
        assert devices_of(found) <= {policy.removeprefix("single:"), "host"}


@pytest.mark.gpu_shape
@pytest.mark.parametrize("where", [("--devices", OTHER_DEVICE), ("--devices", "cpu", "--sub-devices", "2")])
def test_cholesky_on_chosen_devices(capsys: pytest.CaptureFixture[str], where: tuple[str, ...]) -> None:
    assert is_right(summary(capsys, *SMALL, *where, "--policy", "heft", "--no-calibrate"))


@pytest.mark.gpu_shape
@pytest.mark.parametrize("graph", [("mlp", "--batch", 64), ("stencil", "--n", 100, "--tile", 40, "--steps", 3)])
def test_other_graphs(capsys: pytest.CaptureFixture[str], graph: tuple[object, ...]) -> None:
    assert is_right(summary(capsys, *graph))


def test_a_matrix_of_the_users(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    rows = np.random.default_rng(7).normal(size=(90, 90))
    np.save(tmp_path / "a.npy", rows @ rows.T + 90 * np.eye(90))
    assert is_right(summary(capsys, "cholesky", "--tile", 32, "--input", tmp_path / "a.npy"))


def test_a_matrix_that_is_not_positive_definite_names_the_tile(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    matrix = np.eye(96)
    matrix[70, 70] = -1.0
    np.save(tmp_path / "a.npy", matrix)
    done = call(capsys, "run", "cholesky", "--tile", 32, "--input", tmp_path / "a.npy")
    assert done.code == 2
    assert "potrf(2)" in done.err and "Traceback" not in done.err


def test_pictures_and_files(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    done = call(
        capsys, "run", *SMALL, "--gantt", tmp_path / "g.png", "--trace", tmp_path / "t.json",
        "--record", tmp_path / "r.json", "--save-plan", tmp_path / "p.json", "--repeat", 2,
        "--report", tmp_path / "run.html",
    )  # fmt: skip
    assert done.code == 0, done.err
    assert "right" in done.out and "2 runs" in done.out
    assert "measured makespan" in (tmp_path / "run.html").read_text()
    read = call(
        capsys, "trace", tmp_path / "r.json", "--plan", tmp_path / "p.json", "--report", tmp_path / "trace.html"
    )
    assert read.code == 0, read.err
    assert "memory in use" in (tmp_path / "trace.html").read_text()
    events = json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    assert {e["ph"] for e in events} >= {"X", "M"}
    again = call(capsys, "run", *SMALL, "--plan", tmp_path / "p.json")
    assert again.code == 0, again.err
    assert "right" in again.out


def test_a_device_that_vanished_from_a_saved_plan(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    assert call(capsys, "run", *SMALL, "--save-plan", path, "--dry-run").code == 0
    document = json.loads(path.read_text())
    for device in document["platform"]["devices"]:
        device["description"] = device["description"] + " of yesterday"
    path.write_text(json.dumps(document))
    done = call(capsys, "run", *SMALL, "--plan", path)
    assert done.code == 2
    assert "cpu" in done.err and "Traceback" not in done.err


def test_a_plan_with_a_dropped_wait_never_runs(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    assert call(capsys, "run", *SMALL, "--policy", "heft", "--lanes", "2", "--save-plan", path, "--dry-run").code == 0
    document = json.loads(path.read_text())
    columns = [lane["instructions"]["waits"] for lane in document["lanes"] if "waits" in lane["instructions"]]
    waiting = [each for waits in columns for each in waits if each]
    assert waiting
    del waiting[0][0]
    path.write_text(json.dumps(document))
    done = call(capsys, "run", *SMALL, "--plan", path)
    assert done.code == 2
    assert "nothing orders them" in " ".join(done.err.split())


def test_an_empty_selection(capsys: pytest.CaptureFixture[str]) -> None:
    done = call(capsys, "run", *SMALL, "--devices", "gpu7")
    assert done.code == 2
    assert "gpu7" in done.err and "Traceback" not in done.err


def test_unwritable_data_folder_is_reported(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("not a folder")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "file"))
    done = call(capsys, "run", *SMALL, "--devices", "cpu")
    assert done.code == 0, done.err
    assert "The profile is not kept" in done.err and "right" in done.out


def test_stream_and_its_record(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    record, plan = tmp_path / "record.json", tmp_path / "plan.json"
    found = summary(
        capsys,
        *SMALL,
        "--policy",
        "single:cpu",
        "--repeat",
        5,
        "--in-flight",
        2,
        "--record",
        record,
        "--save-plan",
        plan,
    )
    assert is_right(found)
    stream = found["stream"]
    assert isinstance(stream, dict) and (stream["generations"], stream["in_flight"]) == (5, 2)
    shown = call(capsys, "trace", record, "--plan", plan)
    assert shown.code == 0, shown.err
    assert "Why lanes did not compute" in shown.out and "Critical path" in shown.out
    refused = call(capsys, "run", *SMALL, "--repeat", 5, "--in-flight", 2, "--dry-run")
    assert refused.code == 2 and "--dry-run cannot be combined with --in-flight" in refused.err
    refused = call(capsys, "run", *SMALL, "--in-flight", 2)
    assert refused.code == 2 and "--repeat 50" in refused.err


@pytest.mark.parametrize("option", ["--watchdog", "--deadline"])
def test_seconds_that_are_none_are_refused_by_the_options_name(capsys: pytest.CaptureFixture[str], option: str) -> None:
    done = call(capsys, "run", *SMALL, option, -1)
    assert done.code == 2 and f"where: {option}" in done.err


def test_debug_option_makes_the_run_sequential(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    refused = call(capsys, "run", *SMALL, "--debug", "--dynamic", "dmdas")
    assert refused.code == 2 and "--debug and --nan-guard cannot be combined with --dynamic" in refused.err
    record = tmp_path / "record.json"
    assert is_right(summary(capsys, *SMALL, "--debug", "--policy", "single:cpu", "--record", record))
    spans = sorted(json.loads(record.read_text())["spans"], key=lambda span: span["submit_s"])
    assert all(before["finish_s"] <= after["submit_s"] for before, after in itertools.pairwise(spans))


@pytest.mark.other_device
@pytest.mark.gpu_shape
def test_the_plan_of_a_dynamic_run_is_its_execution_log(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    record, plan, other = tmp_path / "record.json", tmp_path / "plan.json", tmp_path / "other.json"
    found = summary(capsys, *SMALL, "--dynamic", "eager", "--repeat", 2, "--record", record, "--save-plan", plan)
    assert is_right(found)
    predicted, bound = found["predicted_makespan_s"], found["lower_bound_s"]
    assert isinstance(predicted, float) and isinstance(bound, float)
    assert predicted >= bound > 0  # the simulated policy's; the estimates that it used bound nothing
    shown = call(capsys, "trace", record, "--plan", plan)
    assert shown.code == 0, shown.err
    assert "on cpu:copy" not in shown.out  # copies are named by the memory spaces that they connect
    assert call(capsys, "run", *SMALL, "--plan", plan).code == 0
    elsewhere = "--policy", f"single:{OTHER_DEVICE}", "--dry-run", "--save-plan", other
    assert call(capsys, "run", *SMALL, *elsewhere).code == 0
    refused = call(capsys, "trace", record, "--plan", other)
    assert refused.code == 2 and "does not match the plan" in refused.err


def test_makespans_of_comparable_runs_are_stored(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from syclsched.execution.core.history_feed import FEED
    from syclsched.profiling import HistoryStore

    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    plan = tmp_path / "plan.json"
    job = ("cholesky", "--n", 136, "--tile", 64, "--devices", "cpu", "--no-calibrate")  # no other test uses these sizes

    def kept() -> dict[str, int]:
        FEED.flush()
        with HistoryStore() as history:
            found = [(key, samples) for key, samples in history.entries() if key.operation == "plan"]
        return {
            kind: sum(len(samples) for key, samples in found if key.signature == f"cholesky, {kind} runs")
            for kind in ("first", "later")
        }

    assert summary(capsys, *job, "--save-plan", plan)["trials"] == []
    assert kept() == {"first": 1, "later": 0}
    for decided in (("--plan", plan), ("--no-reuse",), ("--repeat", 2, "--in-flight", 2)):
        summary(capsys, *job, *decided)
        assert kept() == {"first": 1, "later": 0}
    summary(capsys, *job, "--repeat", 3)
    assert sum(kept().values()) == 4
