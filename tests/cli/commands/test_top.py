# SPDX-License-Identifier: Apache-2.0
"""``syclsched top``: one snapshot for pipes and scripts, and a live view that ends at Ctrl-C."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.commands import call
from support.monitored import status

from syclsched.monitoring.status_files import StatusFile

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def one_process(runtime_folder: Path) -> None:
    """A status file of this process, which is alive."""
    StatusFile().write(status(written_s=time.time()))


def test_one_snapshot_is_printed_on_request(one_process: None, capsys: pytest.CaptureFixture[str]) -> None:
    outcome = call(capsys, "top", "--once")
    assert (outcome.code, outcome.err) == (0, "")
    assert "pid 4711: python job.py --size 3" in outcome.out
    assert "37/120 tasks" in outcome.out
    assert "\x1b" not in outcome.out


def test_without_a_terminal_one_snapshot_is_printed(runtime_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    outcome = call(capsys, "top")
    assert outcome.code == 0
    assert "--monitor" in outcome.out


def test_json_has_a_line_for_each_process(one_process: None, capsys: pytest.CaptureFixture[str]) -> None:
    outcome = call(capsys, "top", "--json")
    (line,) = outcome.out.splitlines()
    found = json.loads(line)
    assert found["format"] == "syclsched-status/1"
    assert found["graphs"][0]["lanes"][0]["tasks_done"] == 30


def test_json_without_processes_is_empty(runtime_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    outcome = call(capsys, "top", "--json")
    assert (outcome.code, outcome.out) == (0, "")


def test_an_unsafe_folder_is_an_error(
    one_process: None, runtime_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (runtime_folder / "syclsched").chmod(0o777)
    outcome = call(capsys, "top", "--once")
    assert outcome.code == 2
    assert "XDG_RUNTIME_DIR" in outcome.err


@pytest.mark.parametrize("by", [signal.SIGINT, signal.SIGTERM], ids=["Ctrl-C", "a request to end"])
def test_live_view_restores_the_terminal(one_process: None, by: signal.Signals) -> None:
    controller, terminal = pty.openpty()
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TERM": "xterm-256color", "COLUMNS": "100", "LINES": "40"}
    with subprocess.Popen(
        [sys.executable, "-m", "syclsched", "top", "--interval", "60"],
        stdin=terminal, stdout=terminal, stderr=subprocess.PIPE, env=environment, cwd=ROOT,
    ) as process, _killed(process):  # fmt: skip
        os.close(terminal)
        seen = _read_until(controller, b"37/120 tasks")
        assert b"\x1b[?1049h" in seen  # the alternate screen
        process.send_signal(by)
        seen = _read_until(controller, None)
        assert process.stderr is not None
        assert process.stderr.read() == b""
        assert process.wait(60) == 0
    os.close(controller)
    assert b"\x1b[?1049l" in seen  # the usual screen
    assert seen.index(b"\x1b[?25h") >= 0  # the cursor


@contextmanager
def _killed(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """End a process that a failed test leaves running; `subprocess.Popen` would wait for it."""
    try:
        yield
    finally:
        process.kill()


SIGNAL_WITHIN_A_WAIT = """
import signal, sys
from syclsched.cli.commands.top import _interrupted

def locked(frame, event, function):
    if event == "c_return" and function.__name__ in ("__enter__", "acquire"):
        sys.setprofile(None)
        signal.raise_signal(signal.SIGINT)

with _interrupted() as flag:
    sys.setprofile(locked)
    assert flag.wait(60)
"""


def test_a_signal_during_the_wait_does_not_deadlock() -> None:
    """With `threading.Event` the signal handler, which runs on the waiting thread, would deadlock on that lock."""
    assert subprocess.run([sys.executable, "-c", SIGNAL_WITHIN_A_WAIT], cwd=ROOT, timeout=60).returncode == 0


def _read_until(descriptor: int, text: bytes | None) -> bytes:
    """Return what a terminal shows up to a text, or to the end of the program."""
    seen = b""
    while text is None or text not in seen:
        assert select.select([descriptor], [], [], 120.0)[0], seen
        try:
            seen += os.read(descriptor, 65536)
        except OSError:  # no process has the terminal open any more
            assert text is None, seen
            return seen
    return seen
