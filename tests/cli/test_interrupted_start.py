# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C while the command line is being imported: exit status 130 and one line."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.commands import call
from typer.core import TyperGroup

from syclsched.cli import application

ROOT = Path(__file__).resolve().parents[2]

#: A module in place of another, whose import sends Ctrl-C.
PRESSED = "import signal\nsignal.raise_signal(signal.SIGINT)\n"
#: The same, but at a place where Python drops the exception.
PRESSED_IN_CALLBACK = """
import signal, time, weakref
class Thing: pass
thing = Thing()
reference = weakref.ref(thing, lambda _: signal.raise_signal(signal.SIGINT))
del thing
time.sleep(60)
"""


@pytest.mark.parametrize("program", [PRESSED, PRESSED_IN_CALLBACK], ids=["anywhere", "in a callback"])
def test_ctrl_c_during_imports_prints_one_line(program: str, tmp_path: Path) -> None:
    (tmp_path / "typer").mkdir()
    (tmp_path / "typer" / "__init__.py").write_text(program)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)])}
    ended = subprocess.run(
        [sys.executable, "-m", "syclsched", "--help"],
        env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert ended.returncode == 130, ended.stderr
    assert ended.stderr == "Interrupted.\n"


def press(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("where", ["making the commands", "reading the arguments"])
def test_ctrl_c_before_the_command_prints_one_line(
    where: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if where == "making the commands":
        monkeypatch.setattr(application, "app", press)
    else:
        monkeypatch.setattr(TyperGroup, "make_context", press)
    outcome = call(capsys, "devices")
    assert (outcome.code, outcome.out, outcome.err) == (130, "", "Interrupted.\n")
