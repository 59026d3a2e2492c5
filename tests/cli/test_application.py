# SPDX-License-Identifier: Apache-2.0
"""The commands of the command line are imported when they are used, and known by their summaries before."""

from __future__ import annotations

import inspect

import pytest
import typer
from support.commands import call

from syclsched import __version__
from syclsched.cli.application import COMMANDS, load_command


@pytest.mark.parametrize("name", COMMANDS)
def test_the_summary_of_a_command_is_the_first_paragraph_of_its_help(name: str) -> None:
    found = load_command(name)
    function = found.registered_callback.callback if isinstance(found, typer.Typer) else found
    assert COMMANDS[name].summary == " ".join((inspect.getdoc(function) or "").split("\n\n")[0].split())


def test_the_help_lists_all_commands(capsys: pytest.CaptureFixture[str]) -> None:
    done = call(capsys, "--help")
    assert done.code == 0
    assert all(name in done.out for name in COMMANDS)
    assert "Check libraries" in done.out


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_with_both_options(capsys: pytest.CaptureFixture[str], name: str) -> None:
    long, short = call(capsys, name, "--help"), call(capsys, name, "-h")
    assert long.code == 0 and long.out == short.out
    assert f"syclsched {name}" in long.out


def test_a_misspelt_command_is_named_with_a_suggestion(capsys: pytest.CaptureFixture[str]) -> None:
    done = call(capsys, "simulat")
    assert done.code == 2
    assert "simulat" in done.err and "simulate" in done.err


def test_the_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert call(capsys, "--version").out == f"{__version__}\n"
