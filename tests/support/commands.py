# SPDX-License-Identifier: Apache-2.0
"""Calls of the command line in this process."""

from __future__ import annotations

import sys
from dataclasses import dataclass

import pytest

from syclsched.cli.main import main


@dataclass(frozen=True)
class CommandResult:
    """Exit code and output of a command."""

    code: int
    out: str
    err: str


def call(capsys: pytest.CaptureFixture[str], *arguments: object) -> CommandResult:
    """Run ``syclsched arguments...`` and return its exit code and what it printed."""
    before = sys.argv
    sys.argv = ["syclsched", *(str(a) for a in arguments)]
    try:
        with pytest.raises(SystemExit) as left:
            main()
    finally:
        sys.argv = before
    captured = capsys.readouterr()
    code = left.value.code
    assert isinstance(code, int) or code is None
    return CommandResult(code or 0, captured.out, captured.err)


def refused(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    """Check that a command ends with exit code 2 and an error message without a traceback; return the message."""
    outcome = call(capsys, *arguments)
    assert outcome.code == 2, outcome
    assert "Traceback" not in outcome.err
    assert "error:" in outcome.err
    return " ".join(outcome.err.split())
