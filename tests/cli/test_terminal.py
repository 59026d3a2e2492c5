# SPDX-License-Identifier: Apache-2.0
"""Widths on terminals and in pipes, and the level of notices."""

from __future__ import annotations

import logging
import os
import pty
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
from rich.text import Text
from support.commands import call

from syclsched.cli.terminal import detail, notices, shown_messages, wrapped

GRAPH = ("cholesky", "--n", 256, "--tile", 128, "--platform", "xeon-8480,max1550", "--policy", "heft")


def test_text_is_wrapped_between_words_only() -> None:
    text = wrapped(Text.from_markup("plan [bold]written[/bold] to /a/path/longer/than/the/width and more"), 20)
    assert text.plain == "plan written to\n/a/path/longer/than/the/width\nand more"
    assert [text.plain[span.start : span.end] for span in text.spans] == ["written"]
    assert wrapped(Text("  indented text\n\nend"), 100).plain == "  indented text\n\nend"


def test_in_a_pipe_nothing_is_wrapped(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    record = tmp_path / ("a" * 60) / ("b" * 60) / "record.json"
    record.parent.mkdir(parents=True)
    done = call(capsys, "run", *GRAPH, "--dry-run", "--record", record)
    assert f"run written to {record}" in done.err.splitlines()
    waiting = next(line for line in done.out.splitlines() if line.startswith("Waiting"))
    assert len(waiting) > 80 and "submissions" in waiting
    monkeypatch.setenv("COLUMNS", "60")
    narrow = call(capsys, "trace", record).out.splitlines()
    assert max(map(len, narrow)) <= 60


@pytest.mark.parametrize("width", [60, 120])
def test_a_terminal_sets_the_width(tmp_path: Path, width: int) -> None:
    """Print text of 200 columns on a pseudo-terminal."""
    code = "from syclsched.cli.terminal import output; output().print('word ' * 40)"
    outer, inner = pty.openpty()
    environment = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
    import fcntl
    import struct
    import termios

    fcntl.ioctl(inner, termios.TIOCSWINSZ, struct.pack("HHHH", 24, width, 0, 0))
    done = subprocess.Popen([sys.executable, "-c", code], stdin=inner, stdout=inner, stderr=inner, env=environment)
    assert done.wait() == 0
    os.close(inner)
    lines = os.read(outer, 4096).decode().splitlines()
    os.close(outer)
    assert width - 5 <= len(lines[0]) <= width


def test_quiet_leaves_results_and_errors(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    for arguments in (("-q", "plan", *GRAPH), ("plan", *GRAPH, "--quiet")):
        done = call(capsys, *arguments, "--out", plan)
        assert done.code == 0 and done.err == "" and done.out.startswith("Plan of cholesky")
    assert "plan written to" in call(capsys, "plan", *GRAPH, "--out", plan).err
    failed = call(capsys, "-q", "plan", "choleski")
    assert failed.code == 2 and "error:" in failed.err


def test_verbose_adds_decisions(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (("-v", "plan", *GRAPH), ("plan", *GRAPH, "-v")):
        said = call(capsys, *arguments).err
        assert "device max1550: 1 lane, profile of" in said and "planned in" in said
    assert "planned in" not in call(capsys, "plan", *GRAPH).err  # the level of one call does not apply to the next
    both = call(capsys, "-q", "plan", *GRAPH, "-v")
    assert both.code == 2 and "cannot be combined" in both.err


def test_messages_of_the_library_are_notices(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from syclsched.cli import terminal

    logger = logging.getLogger("syclsched.anything")
    for level, expected in (
        (terminal.Verbosity.QUIET, []),
        (terminal.Verbosity.NORMAL, ["warning: first", "warning: second"]),
        (terminal.Verbosity.VERBOSE, ["warning: first", "warning: second", "third", "fourth"]),
    ):
        with shown_messages():
            terminal.set_verbosity(level)
            warnings.simplefilter("always")
            warnings.warn("first", stacklevel=1)
            logger.warning("second")
            logger.info("third")
            logger.debug("never")
            detail("fourth")
        assert capsys.readouterr().err.splitlines() == expected
    terminal.set_verbosity(terminal.Verbosity.NORMAL)
    notices().print("there")
    assert capsys.readouterr().err == "there\n"


def test_options_after_two_dashes_are_passed_to_the_program(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text("import sys\nprint(sys.argv[1:])\n")
    done = call(capsys, "kernels", "build", program, "--out", tmp_path / "a.pack", "--", "--traceback", "-q")
    assert "['--traceback', '-q']" in done.out
