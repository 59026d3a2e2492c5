# SPDX-License-Identifier: Apache-2.0
"""Export and import of measured times between stores, each sample once."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from syclsched.costs.history import HistoryKey
from syclsched.errors import FormatError, StorageError
from syclsched.model.text.json_serialisation import from_json, to_json
from syclsched.profiling import HistoryStore
from syclsched.profiling.storage.history_file import HistoryFile, history_file

KEYS = [HistoryKey("cpu", "mix", "opencl-c", "1", f"x:int64[{n}]") for n in (10, 20)]


def test_exported_samples_are_merged_once(tmp_path: Path) -> None:
    with HistoryStore(tmp_path / "here.sqlite3") as here, HistoryStore(tmp_path / "there.sqlite3") as there:
        here.record(KEYS[0], [1.0, 2.0])
        here.record(KEYS[1], [3.0])
        there.record(KEYS[0], [2.0, 4.0])
        text = to_json(history_file(here.entries()))
        read = from_json(HistoryFile, text, where="history")
        assert sum(there.merge(task.key, task.samples) for task in read.tasks) == 2
        assert sum(there.merge(task.key, task.samples) for task in read.tasks) == 0
        assert there.stored(KEYS[1]) == here.stored(KEYS[1])
        assert dict(there.samples()) == {KEYS[0]: (2.0, 4.0, 1.0), KEYS[1]: (3.0,)}


def test_times_without_circumstances_are_merged_but_not_trusted() -> None:
    with HistoryStore(":memory:") as history:
        assert history.merge(KEYS[0], (1.0, 2.0)) == 2
        assert [sample.quiet for sample in history.stored(KEYS[0])] == [False, False]


def test_a_bad_file_is_refused_by_name() -> None:
    with pytest.raises(FormatError, match=r"bad\.json"):
        from_json(HistoryFile, '{"tasks": [{"device_key": 1}]}', where="bad.json")


def test_the_command_line_writes_and_takes_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from syclsched.cli.application import app
    from syclsched.profiling.storage import history_store

    runner, file = CliRunner(), tmp_path / "here.json"
    monkeypatch.setattr(history_store, "data_folder", lambda: tmp_path / "here")
    with HistoryStore() as here:
        here.record(KEYS[0], [1.5])
    assert "1 measured task times" in runner.invoke(app, ["history", "export", str(file)]).output
    assert "mix" in runner.invoke(app, ["history", "show"], env={"COLUMNS": "200"}).output
    monkeypatch.setattr(history_store, "data_folder", lambda: tmp_path / "there")
    assert "1 sample added" in runner.invoke(app, ["history", "merge", str(file)]).output
    with HistoryStore() as there:
        assert dict(there.samples()) == {KEYS[0]: (1.5,)}
    shown = runner.invoke(app, ["history", "show"], env={"COLUMNS": "200"}).output
    assert "1 (0)" in shown and "±50%, provisional" in shown
    assert "0 samples" in runner.invoke(app, ["history", "forget", "another"]).output
    assert "1 sample removed" in runner.invoke(app, ["history", "forget", "mix"]).output
    with HistoryStore() as there:
        assert len(there) == 0


def test_an_import_into_an_unwritable_store_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from syclsched.cli.application import app
    from syclsched.profiling.storage import history_store

    runner, file = CliRunner(), tmp_path / "here.json"
    monkeypatch.setattr(history_store, "data_folder", lambda: tmp_path / "here")
    with HistoryStore() as here:
        here.record(KEYS[0], [1.5])
    runner.invoke(app, ["history", "export", str(file)])
    (tmp_path / "no folder").write_text("")
    monkeypatch.setattr(history_store, "data_folder", lambda: tmp_path / "no folder")
    refused = runner.invoke(app, ["history", "merge", str(file)]).exception
    assert isinstance(refused, StorageError)
    assert "cannot be written" in refused.what
    shown = runner.invoke(app, ["history", "show"])
    assert "Nothing was measured yet" in shown.output
