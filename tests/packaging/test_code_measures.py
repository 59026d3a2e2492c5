# SPDX-License-Identifier: Apache-2.0
"""Bounds of code measures: size of functions and folders, first words of docstrings, class names, public names."""

from __future__ import annotations

import ast
import importlib
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
Function = ast.FunctionDef | ast.AsyncFunctionDef
Documented = ast.Module | ast.ClassDef | Function
QUESTIONS = {"What", "How", "Which", "Where", "Whether", "When", "Who", "Whose", "Why"}
#: Class names in several files: `Copies` is public in two packages; numba's declarations are classes in functions.
SHARED_NAMES = {"Copies", "Template"}


@cache
def _nodes(*tops: str) -> dict[Path, list[Documented]]:
    """Return the module, classes and functions of every file of some folders; the module is the first."""
    found: dict[Path, list[Documented]] = {}
    for top in tops or ("syclsched", "kernels"):
        for path in sorted((ROOT / top).rglob("*.py")):
            tree = ast.parse(path.read_text(encoding="utf-8"))
            found[path.relative_to(ROOT)] = [node for node in ast.walk(tree) if isinstance(node, Documented)]
    return found


def _functions() -> Iterator[tuple[str, Function]]:
    """Yield the functions outside the command line, which declares its options as parameters."""
    for path, nodes in _nodes().items():
        for node in nodes:
            if isinstance(node, Function) and "cli" not in path.parts:
                yield f"{path}:{node.lineno} {node.name}", node


def _body_lines(function: Function) -> int:
    """Return the lines of a function behind its declaration and docstring."""
    first = function.body[min(1, len(function.body) - 1) if ast.get_docstring(function) else 0]
    return (function.end_lineno or 0) - first.lineno + 1


def _parameters(function: Function) -> int:
    given = function.args
    return len(given.posonlyargs) + len(given.args) + len(given.kwonlyargs)


def _package_docstring(path: Path) -> str:
    return ast.get_docstring(_nodes()[path.parent / "__init__.py"][0]) or ""


def test_functions_are_short_and_take_few_parameters() -> None:
    assert [where for where, node in _functions() if _body_lines(node) > 80] == []
    assert [where for where, node in _functions() if _parameters(node) > 12] == []


def test_docstrings_do_not_begin_with_questions() -> None:
    first = {
        f"{path} {getattr(node, 'name', '')}": (ast.get_docstring(node) or "").partition(" ")[0]
        for path, nodes in _nodes("syclsched", "kernels", "tests", "tools", "benchmarks", "examples").items()
        for node in nodes
    }
    # "Whether" is how properties with a truth value are described.
    assert [where for where, word in first.items() if word in QUESTIONS - {"Whether"}] == []
    assert [path for path, nodes in _nodes().items() if not ast.get_docstring(nodes[0])] == []


def test_folders_have_few_modules() -> None:
    modules = Counter(path.parent for path in _nodes() if path.name != "__init__.py")
    assert {folder: count for folder, count in modules.items() if count > 15} == {}


def test_a_class_name_has_one_meaning() -> None:
    places: dict[str, set[Path]] = defaultdict(set)
    for path, nodes in _nodes().items():
        for node in nodes:
            if isinstance(node, ast.ClassDef):
                places[node.name].add(path)
    assert {name: found for name, found in places.items() if len(found) > 1 and name not in SHARED_NAMES} == {}


@pytest.mark.sycl  # packages that import SYCL's are among them
def test_few_names_are_public() -> None:
    public = 0
    for path, (module, *_) in _nodes().items():
        said = _package_docstring(path)
        if "Internal" not in said:
            declared = [each for each in ast.iter_child_nodes(module) if isinstance(each, Function | ast.ClassDef)]
            public += sum(not each.name.startswith("_") for each in declared)
        elif path.name == "__init__.py" and "__all__" in said:
            package = path.parent if path.parts[0] == "syclsched" else "syclsched" / path.parent
            public += len(importlib.import_module(".".join(package.parts)).__all__)
    assert public <= 720
