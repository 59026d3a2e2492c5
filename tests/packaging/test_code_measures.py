# SPDX-License-Identifier: Apache-2.0
"""Measures of the code that stay within bounds: size of functions and folders, first words, names, public names."""

from __future__ import annotations

import ast
import importlib
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TREES = {
    path.relative_to(ROOT): ast.parse(path.read_text(encoding="utf-8"))
    for top in ("syclsched", "kernels")
    for path in sorted((ROOT / top).rglob("*.py"))
}
QUESTIONS = {"What", "How", "Which", "Where", "Whether", "When", "Who", "Whose", "Why"}
#: Class names in several files: `Copies` is public in two packages; numba's declarations are classes in functions.
SHARED_NAMES = {"Copies", "Template"}

Function = ast.FunctionDef | ast.AsyncFunctionDef


def _functions() -> Iterator[tuple[str, Function]]:
    """Yield the functions outside the command line, which declares its options as parameters."""
    for path, tree in TREES.items():
        if "cli" not in path.parts:
            for node in ast.walk(tree):
                if isinstance(node, Function):
                    yield f"{path}:{node.lineno} {node.name}", node


def _body_lines(function: Function) -> int:
    """Return the lines of a function behind its declaration and docstring."""
    first = function.body[min(1, len(function.body) - 1) if ast.get_docstring(function) else 0]
    return (function.end_lineno or 0) - first.lineno + 1


def _parameters(function: Function) -> int:
    given = function.args
    return len(given.posonlyargs) + len(given.args) + len(given.kwonlyargs)


def _package_docstring(path: Path) -> str:
    return ast.get_docstring(TREES[path.parent / "__init__.py"]) or ""


def test_functions_are_short_and_take_few_parameters() -> None:
    assert [where for where, node in _functions() if _body_lines(node) > 80] == []
    assert [where for where, node in _functions() if _parameters(node) > 12] == []


def test_docstrings_name_the_thing() -> None:
    documented = ast.Module | ast.ClassDef | Function
    first = {
        f"{path} {getattr(node, 'name', '')}": (ast.get_docstring(node) or "").partition(" ")[0]
        for path, tree in TREES.items()
        for node in ast.walk(tree)
        if isinstance(node, documented)
    }
    # "Whether" is how properties with a truth value are described.
    assert [where for where, word in first.items() if word in QUESTIONS - {"Whether"}] == []
    assert [path for path, tree in TREES.items() if not ast.get_docstring(tree)] == []


def test_folders_have_few_modules() -> None:
    modules = Counter(path.parent for path in TREES if path.name != "__init__.py")
    assert {folder: count for folder, count in modules.items() if count > 16} == {}


def test_a_class_name_has_one_meaning() -> None:
    places: dict[str, set[Path]] = defaultdict(set)
    for path, tree in TREES.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                places[node.name].add(path)
    assert {name: found for name, found in places.items() if len(found) > 1 and name not in SHARED_NAMES} == {}


@pytest.mark.sycl  # packages that import SYCL's are among them
def test_few_names_are_public() -> None:
    public = 0
    for path, tree in TREES.items():
        said = _package_docstring(path)
        if "Internal" not in said:
            public += sum(
                isinstance(node, (Function, ast.ClassDef)) and not node.name.startswith("_") for node in tree.body
            )
        elif path.name == "__init__.py" and "__all__" in said:
            module = path.parent if path.parts[0] == "syclsched" else "syclsched" / path.parent
            public += len(importlib.import_module(".".join(module.parts)).__all__)
    assert public <= 700
