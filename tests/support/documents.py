# SPDX-License-Identifier: Apache-2.0
"""Examples of pages and docstrings, found and evaluated by Sybil.

A page is one namespace and one temporary folder, with the environment as ``.venv`` and ``examples``, as in a checkout:
its Python and shell blocks are executed in order, as a reader would execute them. A ``text`` block that follows a
block, or "prints" or "ends with" after it, is compared with all that the block printed and the error it ended with;
after a paragraph whose last sentence has the word "prints", with a part of it. ``...`` stands for any text.

Blocks that cannot be executed say why: ``<!-- not run: reason -->`` before one, ``<!-- not run from here on: reason
-->`` before all that follow. Sybil's ``<!-- skip: next "reason" -->`` leaves out here what ``tests/newcomer`` runs.
"""

from __future__ import annotations

import contextlib
import doctest
import io
import os
import re
import subprocess
import sys
import traceback
import unittest
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

import pytest
from sybil import Document, Example, Region
from sybil.evaluators.doctest import DocTestEvaluator
from sybil.evaluators.python import PythonEvaluator
from sybil.evaluators.skip import Skipper
from sybil.parsers.abstract.doctest import DocTestStringParser
from sybil.parsers.markdown.lexers import DirectiveInHTMLCommentLexer, FencedCodeBlockLexer
from sybil.parsers.myst import CodeBlockParser, SkipParser

ROOT = Path(__file__).resolve().parents[2]
#: Longest time that a command of a page may take, in seconds.
LIMIT_S = 300

_FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
_EXECUTED = ("python", "sh", "console")
#: Languages of blocks that are only shown.
_SHOWN = ("text", "json", "c", "cpp", "toml", "yaml")
#: Text between a block and its output.
_BEFORE_OUTPUT = re.compile(r"```[ \t]*\n\s*(?:prints|ends with)?\s*\Z")
_BEFORE_PART_OF_OUTPUT = re.compile(r"```[ \t]*\n\s*(?:[^\n]+\n)*[^\n]*\bprints\b[^.]*\Z")
_ERROR = re.compile(r"^(?:\w+\.)+(?=\w+: )")


class Subtests(Protocol):
    """Fixture ``subtests`` of pytest, or a stand-in for it."""

    def test(self, msg: str) -> AbstractContextManager[None]:
        """Return the context of one subtest."""


class _NotRun(SkipParser):
    """Parser of both ways to leave out blocks."""

    def __call__(self, document: Document) -> Iterator[Region]:
        """Yield the region of each mark."""
        yield from super().__call__(document)
        for mark in DirectiveInHTMLCommentLexer("not run(?: from here on)?")(document):
            action = "next" if mark.lexemes["directive"] == "not run" else "start"
            yield Region(mark.start, mark.end, (action, repr(mark.lexemes["arguments"].strip())), self.skipper)


class Page:
    """A page's examples, and the output of the last of them.

    With ``no_shell``, a reason, blocks of shell commands are left out.
    """

    def __init__(self, path: Path, folder: Path, *, no_shell: str | None = None) -> None:
        self._no_shell = no_shell
        self._name = path.relative_to(ROOT) if path.is_relative_to(ROOT) else path.name
        self._folder = folder
        for name, target in ((".venv", Path(sys.prefix)), ("examples", ROOT / "examples")):
            (folder / name).symlink_to(target, target_is_directory=True)
        self._printed = ""
        self._output_follows = False
        self._evaluate_python = PythonEvaluator()
        self.document = Document.parse(
            str(path),
            _NotRun(),
            CodeBlockParser("python", self._python),
            CodeBlockParser("sh", self._shell),
            CodeBlockParser("console", self._console),
            self._outputs,
        )
        self.document.namespace["__name__"] = "__main__"

    def evaluate(self, subtests: Subtests) -> None:
        """Evaluate all examples up to the first failure, each as a subtest with the number of its line."""
        examples, skipped = list(self.document), False
        for number, example in enumerate(examples):
            self._output_follows = number + 1 < len(examples) and self._is_output(examples[number + 1])
            if skipped and self._is_output(example):
                continue
            if isinstance(example.region.evaluator, Skipper):
                example.evaluate()
                continue
            skipped, succeeded = False, False
            with subtests.test(f"line {example.line}"):
                try:
                    example.evaluate()
                except unittest.SkipTest as reason:
                    skipped = True
                    pytest.skip(f"{self._name}: {reason}")  # equal ones are counted in the summary
                succeeded = True
            if not (skipped or succeeded):
                return

    def _is_output(self, example: Example) -> bool:
        return example.region.evaluator == self._output

    def _outputs(self, document: Document) -> Iterator[Region]:
        for region in FencedCodeBlockLexer("text")(document):
            before = document.text[: region.start]
            end = before.rfind("```")
            if end < 0 or _language_before(before) not in _EXECUTED:
                continue
            text = region.lexemes["source"]
            if _BEFORE_OUTPUT.match(before, end):
                yield Region(region.start, region.end, text, self._output)
            elif _BEFORE_PART_OF_OUTPUT.match(before, end):
                yield Region(region.start, region.end, f"...{text.strip()}...", self._output)

    def _python(self, example: Example) -> None:
        out = io.StringIO()
        try:
            with contextlib.redirect_stdout(out):
                self._evaluate_python(example)
        except Exception as error:
            if not self._output_follows:
                raise
            out.write(_ERROR.sub("", "".join(traceback.format_exception_only(error))))
        self._printed = out.getvalue()

    def _shell(self, example: Example) -> None:
        if self._no_shell is not None:
            raise unittest.SkipTest(self._no_shell)
        self._printed = self._call(str(example.parsed), may_fail=self._output_follows)

    def _console(self, example: Example) -> str | None:
        if self._no_shell is not None:
            raise unittest.SkipTest(self._no_shell)
        commands = re.split(r"^\$ ", str(example.parsed), flags=re.MULTILINE)[1:]
        assert commands, "no command: each begins with a dollar sign"
        for command in commands:
            words, expected = re.fullmatch(r"((?:[^\n]*\\\n)*[^\n]*)\n?(.*)", command, re.DOTALL).groups()
            printed = self._call(words, may_fail=bool(expected.strip()))
            if expected.strip() and (difference := _difference(expected, printed)):
                return difference
        return None

    def _output(self, example: Example) -> str | None:
        return _difference(str(example.parsed), self._printed)

    def _call(self, command: str, *, may_fail: bool) -> str:
        """Run a command by bash in the page's folder, with this environment first in PATH."""
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", command],
            cwd=self._folder,
            env={
                **os.environ,
                "PATH": f"{sys.prefix}/bin:{os.environ['PATH']}",
                "PYTHONPATH": str(ROOT),
                "COLUMNS": "120",
                "MPLBACKEND": "Agg",
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=LIMIT_S,
        )
        assert may_fail or done.returncode == 0, f"{command}\n{done.stdout}"
        return done.stdout


def unknown_languages(path: Path) -> list[str]:
    """Return the languages of a page's blocks that are neither executed nor known to be shown only."""
    found = re.findall(r"^[ \t]*(?:```+|~~~+)([^\s`{][^\n]*)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    return sorted(set(found) - {*_EXECUTED, *_SHOWN})


def docstring_examples(text: str, name: str) -> Sequence[Example]:
    """Return the doctest examples of a docstring, which share a namespace."""
    document = Document(text, name)
    for region in DocTestStringParser(DocTestEvaluator(_FLAGS))(text, name):
        document.add(region)
    return list(document)


def _language_before(text: str) -> str:
    return re.findall(r"^```(\w+)[ \t]*$", text, re.MULTILINE)[-1]


def _difference(expected: str, printed: str) -> str | None:
    """Return how a printed text differs from the expected one, None if it does not."""
    if doctest.OutputChecker().check_output(expected.strip() + "\n", printed.strip() + "\n", _FLAGS):
        return None
    return f"expected:\n{expected}\nprinted:\n{printed}"
