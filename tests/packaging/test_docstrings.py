# SPDX-License-Identifier: Apache-2.0
"""Examples in the docstrings of public names: each name has one, and all of them run."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.documents import docstring_examples

import syclsched
from syclsched.execution import Run, Runner, Stream
from syclsched.model.task import ArrayRows, LogicalArray

NAMES = sorted(set(syclsched.__all__) - {"__version__"})
#: Classes of the results of public functions.
RETURNED = {"Run": Run, "Runner": Runner, "Stream": Stream, "LogicalArray": LogicalArray, "ArrayRows": ArrayRows}
#: Methods that the pages mention.
METHODS = [
    *(f"TaskGraph.{each}" for each in ["array", "kernel", "host", "submit", "map", "task", "copy", "barrier", "edge"]),
    *(f"Plan.{each}" for each in ("explain", "to_json", "from_json")),
    *(f"Run.{each}" for each in ("result", "trace", "story")),
    *(f"Runner.{each}" for each in ("run", "stream")),
    "Platform.select",
]


def _documented() -> Iterator[tuple[str, str]]:
    """Yield the public names and the methods of public classes with their docstrings."""
    for name, value in {**{name: getattr(syclsched, name) for name in NAMES}, **RETURNED}.items():
        yield name, inspect.getdoc(value) or ""
        if inspect.isclass(value) or inspect.ismodule(value):
            members = value.__all__ if inspect.ismodule(value) else dir(value)
            for member in sorted(each for each in members if not each.startswith("_")):
                found = getattr(value, member)
                if callable(found) or isinstance(found, property):
                    yield f"{name}.{member}", inspect.getdoc(found) or ""


EXAMPLES = {name: text for name, text in _documented() if ">>>" in text}
#: Names by their docstring: some functions have two names.
BY_TEXT = {text: name for name, text in EXAMPLES.items()}


def test_every_public_name_has_an_example() -> None:
    assert [name for name in (*NAMES, *METHODS) if name not in EXAMPLES] == []


@pytest.mark.sycl
@pytest.mark.parametrize("name", BY_TEXT.values())
def test_examples_print_the_shown_output(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for example in docstring_examples(EXAMPLES[name], name):
        example.evaluate()
