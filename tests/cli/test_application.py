# SPDX-License-Identifier: Apache-2.0
"""Lazy import of the command line's commands, and the summaries that are known without an import."""

from __future__ import annotations

import inspect
import subprocess
import sys

import pytest
import typer
from support.commands import call

from syclsched import __version__
from syclsched.cli.application import COMMANDS, load_command


@pytest.mark.parametrize("name", COMMANDS)
def test_summary_of_a_command_is_its_first_paragraph(name: str) -> None:
    found = load_command(name)
    function = found.registered_callback.callback if isinstance(found, typer.Typer) else found
    assert COMMANDS[name].summary == " ".join((inspect.getdoc(function) or "").split("\n\n")[0].split())


def test_the_help_lists_all_commands(capsys: pytest.CaptureFixture[str]) -> None:
    done = call(capsys, "--help")
    assert done.code == 0
    assert all(name in done.out for name in COMMANDS)
    said = " ".join(done.out.split())
    assert all(command.summary in said for command in COMMANDS.values())
    assert "--version Print the version" in said and "-h, --help" in said


def imported_by(*arguments: str) -> str:
    """Return the names of all modules that a command line imports."""
    code = (
        "import sys, syclsched.cli.main as m\n"
        "try:\n m.main()\nexcept SystemExit:\n print(sorted(sys.modules), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True)
    assert "Usage:" in done.stdout and "'typer'" in done.stderr
    return done.stderr


def test_help_imports_no_parsers_and_no_commands() -> None:
    unwanted = ("rich", "pygments", "numpy", "syclsched.cli.options", "syclsched.cli.commands.plan")
    assert not [name for name in unwanted if f"'{name}'" in imported_by("--help")]


@pytest.mark.parametrize("name", ["plan", "run", "simulate", "compare"])
def test_the_help_of_a_command_imports_no_graphs_and_plans(name: str) -> None:
    unwanted = ("numpy", "pydantic", "syclsched.model.plan", "syclsched.model.graph", "syclsched.planner")
    assert not [each for each in unwanted if f"'{each}'" in imported_by(name, "--help")]


def test_without_arguments_the_help_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    done = call(capsys)
    assert (done.code, done.out) == (2, call(capsys, "--help").out)


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
