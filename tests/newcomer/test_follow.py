# SPDX-License-Identifier: Apache-2.0
"""The script that follows the pages: commands found, refused pages, and a new user's shell."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

HERE = Path(__file__).resolve().parent


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("follow", HERE / "follow.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def followed(script: ModuleType, tmp_path: Path) -> Any:
    """Return a function that follows a page and returns the outcomes."""

    def follow(text: str, **options: Any) -> Any:
        return script.follow(script.steps("page.md", text), tmp_path, {"PATH": os.environ["PATH"]}, **options)

    return follow


def block(text: str, language: str = "sh") -> str:
    return f"```{language}\n{text}\n```\n"


def test_readme_is_first_and_every_page_has_commands(script: ModuleType) -> None:
    pages = script.pages()
    assert pages[0] == "README.md"
    assert pages[1].endswith("/quickstart.md")
    commands = [step.command for step in script.steps(pages[0], script.read(pages[0]))]
    assert commands[:2] == ["python3 -m venv .venv", ".venv/bin/pip install -e ."]
    assert ".venv/bin/python -m pytest -n 2 --dist worksteal" in commands
    assert script.steps(pages[1], script.read(pages[1]))


def test_all_commands_use_the_environment_of_the_pages(script: ModuleType) -> None:
    steps = [step for page in script.pages() for step in script.steps(page, script.read(page))]
    others = [step for step in steps if not step.command.startswith((".venv/bin/", "python3 -m venv "))]
    assert not others, "a new user has no other Python packages"


def test_files_that_commands_read_are_in_the_checkout(script: ModuleType) -> None:
    steps = [step for page in script.pages() for step in script.steps(page, script.read(page))]
    named = {word for step in steps for word in step.command.split() if word.endswith((".onnx", ".npz"))}
    assert named
    assert not [name for name in named if not (script.ROOT / name).is_file()]


def test_commands_are_cut_where_a_shell_would(script: ModuleType) -> None:
    text = block("a && b 'x && y'   # a comment\n\n# only a comment\nc \\\n  --long\nfor x in 1 2\ndo echo $x\ndone")
    found = [(step.line, step.command) for step in script.steps("page.md", text)]
    assert found == [
        (2, "a"),
        (2, "b 'x && y'"),
        (5, "c \\\n  --long"),
        (7, "for x in 1 2\ndo echo $x\ndone"),
    ]


def test_blocks_of_other_languages_are_no_commands(script: ModuleType) -> None:
    assert script.steps("page.md", block("print(1)", "python") + block("x", "text")) == []


def test_a_block_that_is_not_run_has_a_reason(script: ModuleType, followed: Any) -> None:
    outcomes = followed(f"<!-- not run: there is no\nGPU -->\n{block('false')}\nand\n{block('true')}")
    assert [each.result for each in outcomes] == ["not run: there is no GPU", "passed"]


def test_the_reason_is_that_of_the_next_block_only(script: ModuleType) -> None:
    steps = script.steps("page.md", f"<!-- not run: why -->\n{block('a')}\n{block('b')}\n<!-- c -->\n{block('d')}")
    assert [step.reason for step in steps] == ["why", "", ""]


def test_the_first_failed_command_ends_a_page(script: ModuleType, followed: Any) -> None:
    text = block("true\necho why; false\ntrue")
    said: list[str] = []
    outcomes = followed(text, say=said.append)
    assert [each.result for each in outcomes] == ["passed", "FAILED: exit code 1"]
    assert any("why" in each for each in said)
    assert "not come to" in script.table(outcomes, script.steps("page.md", text))


def test_commands_share_one_shell(followed: Any, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    outcomes = followed(block("cd folder\nNAME=x\ntest $(basename $PWD)$NAME = folderx"))
    assert all(each.fine for each in outcomes)


def test_a_command_that_ends_the_shell_has_failed(followed: Any) -> None:
    assert followed(block("exit 0"))[-1].result == "FAILED: the command ended the shell"


def test_no_command_reads_the_commands_after_it(followed: Any) -> None:
    assert [each.result for each in followed(block("cat\ntrue"))] == ["passed", "passed"]


def test_a_command_is_run_once(followed: Any, tmp_path: Path) -> None:
    outcomes = followed(block("echo x >>log") + "text\n" + block("echo x >>log"))
    assert (tmp_path / "log").read_text() == "x\n"
    assert outcomes[-1].result == "run before, page.md:2"


def test_commands_are_left_out_by_a_pattern(followed: Any) -> None:
    assert followed(block("false --now"), left_out="--now$")[-1].result == "left out, as asked for"


@pytest.mark.parametrize(
    ("command", "result"),
    [
        ("printf '{}' >run.json; : --trace run.json", "passed, with run.json"),
        ("true --trace run.json", "FAILED: run.json does not exist or is empty"),
        ("printf '{' >run.json; : --trace=run.json", "FAILED: run.json is no JSON"),
        ("printf x >run.png; : --gantt run.png", "FAILED: run.png is no PNG"),
    ],
)
def test_files_that_a_command_names_exist(followed: Any, command: str, result: str) -> None:
    assert followed(block(command))[-1].result.startswith(result)


@pytest.mark.parametrize(
    ("page", "fine"),
    [
        (
            block("echo '3 tasks in 4.5 ms'; echo right")
            + "\nIt prints\n\n"
            + block("9 tasks in 12 ms\nright", "text"),
            True,
        ),
        (block("echo '3 tasks'") + block("3 tasks, right", "text"), False),
        (block("echo a; echo b; echo c") + "prints:\n" + block("a\n...\nc", "text"), True),
        (block("$ echo a\na\n$ echo b\nc", "console"), False),
        (block("$ echo a\na\n$ echo b\nb", "console"), True),
        (block("echo a") + "\nAn unrelated text:\n\n" + block("b", "text"), True),
    ],
)
def test_output_shown_on_a_page_is_compared(followed: Any, page: str, fine: bool) -> None:
    assert all(each.fine for each in followed(page)) == fine


def test_a_new_user_has_few_variables(script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"SYCLSCHED_MACHINE_CODE": "off", "XDG_DATA_HOME": "/x", "PIP_CERT": "c"}.items():
        monkeypatch.setenv(name, value)
    found = script.new_user(tmp_path)
    assert found["HOME"] == str(tmp_path)
    assert {"PATH", "LANG", "PIP_CERT"} <= set(found)
    assert not {"SYCLSCHED_MACHINE_CODE", "XDG_DATA_HOME"} & set(found)


def test_a_notebook_is_read_by_its_text(script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import json

    cells = [{"cell_type": "markdown", "source": ["Text\n", block("echo 1")]}, {"cell_type": "code", "source": ["2"]}]
    (tmp_path / "first.ipynb").write_text(json.dumps({"cells": cells}))
    monkeypatch.setattr(script, "ROOT", tmp_path)
    assert [step.command for step in script.steps("first.ipynb", script.read("first.ipynb"))] == ["echo 1"]
