# SPDX-License-Identifier: Apache-2.0
"""Digests of the sources that are compiled into machine code: it is valid as long as they are unchanged."""

from __future__ import annotations

import hashlib
import re
from functools import lru_cache
from operator import attrgetter
from pathlib import Path
from typing import Any

_PACKAGE = Path(__file__).resolve().parents[1]
_IMPORT = re.compile(rb"^(?:from|import) (syclsched[\w.]*)", re.MULTILINE)
#: A module matters if it has one of these, or is one of those that compile.
_WORDS = re.compile(rb"@compiled|@lean|NamedTuple")


def stamp_of(function: Any) -> str:
    """Return a digest of the code of a function and of the compiled functions in its closure."""
    digest = hashlib.sha256(stamp_of_file(Path(function.__code__.co_filename)).encode())
    for called in compiled_in_closure(function):
        digest.update(stamp_of(called).encode())
    return digest.hexdigest()


def compiled_in_closure(function: Any) -> list[Any]:
    """Return the compiled functions in the closure of a function, as Python functions."""
    cells = [cell.cell_contents for cell in function.__closure__ or ()]
    return [value.py_func for value in cells if hasattr(value, "py_func")]


@lru_cache(maxsize=1024)
def stamp_of_file(path: Path) -> str:
    """Return a digest of the compiled code and the named tuples of a module and of all modules it imports."""
    return hashlib.sha256("".join(_read(each)[0] for each in files_of(path)).encode()).hexdigest()


def files_of(path: Path) -> list[Path]:
    """Return a module and all modules of this package that its imports reach."""
    own = _PACKAGE / "compiled"
    seen = {path.resolve(), own / "functions.py", own / "dispatchers.py"}
    todo = list(seen)
    while todo:
        fresh = set(_read(todo.pop())[1]) - seen
        seen |= fresh
        todo += fresh
    return sorted(seen, key=attrgetter("parts"))  # comparing paths takes ten times as long


@lru_cache(maxsize=1024)
def _read(path: Path) -> tuple[str, tuple[Path, ...]]:
    """Return a digest of a module (empty if irrelevant) and the modules of this package that it imports."""
    if not path.is_file():
        return "", ()  # a function that was typed into an interpreter
    content = path.read_bytes()
    imported = [file for name in sorted(set(_IMPORT.findall(content))) if (file := _module(name.decode())) is not None]
    matters = path.parent == _PACKAGE / "compiled" or _WORDS.search(content)
    return (hashlib.sha256(content).hexdigest() if matters else ""), tuple(imported)


@lru_cache(maxsize=1024)
def _module(name: str) -> Path | None:
    """Return the file of a module or package of this package."""
    file = _PACKAGE.parent.joinpath(*name.split("."))
    for candidate in (file.with_suffix(".py"), file / "__init__.py"):
        if candidate.is_file():
            return candidate
    return None
