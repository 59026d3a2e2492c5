# SPDX-License-Identifier: Apache-2.0
"""``syclsched doctor``: printed findings and exit codes."""

from __future__ import annotations

import json

import pytest
import typer
from typer.testing import CliRunner

from syclsched.cli.commands.doctor import doctor
from syclsched.devices.trust import diagnosis
from syclsched.devices.trust.diagnosis import Diagnosis
from syclsched.oneapi.diagnosis.finding import Finding

LONG_COMMAND = "python -m pip install " + " ".join(f'"package-{number}==1.{number}"' for number in range(12))
SICK = Diagnosis(
    (Finding("Python", "ok", "Python 3.11"), Finding("packages", "missing", "no [dpctl]", "no devices", LONG_COMMAND)),
    usable=False,
)
WELL = Diagnosis((Finding("Python", "ok", "Python 3.11"),), usable=True)


def run(monkeypatch: pytest.MonkeyPatch, found: Diagnosis, *arguments: str) -> tuple[int, str]:
    monkeypatch.setattr(diagnosis, "examine", lambda: found)
    app = typer.Typer()
    app.command()(doctor)
    result = CliRunner().invoke(app, list(arguments))
    return result.exit_code, result.output


def test_a_faulty_installation_gets_the_remedy_on_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    code, output = run(monkeypatch, SICK)
    assert code == 1
    assert f"  To mend it: {LONG_COMMAND}" in output.splitlines()
    assert "no [dpctl]" in output and "This means: no devices." in output
    assert "No device can be used." in output


def test_doctor_on_a_working_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    code, output = run(monkeypatch, WELL)
    assert code == 0 and "Ready." in output and "To mend it" not in output


def test_an_unreadable_history_is_reported(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    data = tmp_path_factory.mktemp("data")
    monkeypatch.setenv("XDG_DATA_HOME", str(data))
    (data / "syclsched").mkdir()
    (data / "syclsched" / "history.sqlite3").write_text("damaged")
    code, output = run(monkeypatch, WELL)
    assert code == 0 and "Usable, with 1 thing(s) missing." in output  # the next plan sets the file aside
    assert any(line.startswith("  To mend it: rm ") for line in output.splitlines())


def test_json_has_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    code, output = run(monkeypatch, SICK, "--json")
    assert code == 1
    document = json.loads(output)
    assert document["usable"] is False
    assert document["findings"][1]["mend"] == LONG_COMMAND


def test_paths_stay_whole_on_a_narrow_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    path = "/a/folder/" + "with-a-long-name/" * 6 + "library.so"
    long = Diagnosis((Finding("library", "ok", f"found in {path}, and it is used by some of the devices here"),), True)
    monkeypatch.setenv("COLUMNS", "60")
    _, output = run(monkeypatch, long)
    assert path in output
    assert max(len(line) for line in output.splitlines() if "/" not in line) <= 60  # paths of this machine, too
