# SPDX-License-Identifier: Apache-2.0
"""The global and free variables that a Python function reads, and copies of functions that read other values."""

from __future__ import annotations

import builtins
import dis
from collections.abc import Callable
from types import CellType, CodeType, FunctionType, ModuleType
from typing import Any

#: Names of a variable and of the attributes that are read from it, such as ``numpy``, ``pi``.
Path = tuple[str, ...]


class UnassignedVariable(Exception):
    """A variable of a closure that has no value yet."""


def references(function: FunctionType) -> list[tuple[Path, Any]]:
    """Return the global and free variables that a function reads, sorted, with the variable's value.

    Builtins count as global variables; a name that is defined nowhere has the value `UNDEFINED`.
    """
    cells = _cells(function)
    made: list[tuple[Path, Any]] = []
    for path in sorted(_paths(function.__code__, frozenset(cells))):
        if path[0] in cells:
            value = _content(cells[path[0]])
        else:
            value = function.__globals__.get(path[0], getattr(builtins, path[0], UNDEFINED))
        made.append((path, value))
    return made


#: The value of a name that is defined nowhere.
UNDEFINED = object()


def with_replaced(function: FunctionType, replace: Callable[[Any], Any]) -> FunctionType:
    """Return a copy of a function that reads other values: ``replace`` returns a value, or another in its place.

    Of a module, the attributes that the function reads are replaced, in a copy of the module.
    """
    cells, globals_ = _cells(function), dict(function.__globals__)
    held: dict[str, CellType] = dict(cells)
    for path, value in references(function):
        given = held[path[0]].cell_contents if path[0] in held else globals_.get(path[0], value)
        other = _replaced(given, path[1:], replace)
        if other is given:
            continue
        if path[0] in held:
            held[path[0]] = CellType(other)
        else:
            globals_[path[0]] = other
    closure = tuple(held[name] for name in function.__code__.co_freevars)
    made = FunctionType(function.__code__, globals_, function.__name__, function.__defaults__, closure)
    made.__kwdefaults__, made.__qualname__ = function.__kwdefaults__, function.__qualname__
    made.__module__, made.__annotations__ = function.__module__, function.__annotations__
    return made


def _replaced(value: Any, attributes: Path, replace: Callable[[Any], Any]) -> Any:
    """Return a value or its replacement; of a module, a copy with another attribute."""
    other = replace(value)
    if other is not value or not isinstance(value, ModuleType) or not attributes:
        return other
    inner = getattr(value, attributes[0], None)
    new = _replaced(inner, attributes[1:], replace)
    if new is inner:
        return value
    copied = ModuleType(value.__name__)
    copied.__dict__.update(vars(value))
    setattr(copied, attributes[0], new)
    return copied


def _cells(function: FunctionType) -> dict[str, CellType]:
    return dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))


def _content(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        raise UnassignedVariable from None


def _paths(code: CodeType, held: frozenset[str]) -> set[Path]:
    """Return the variables that code and the functions in it read, each with the attributes that follow."""
    found: set[Path] = set()
    path: list[str] = []
    for instruction in dis.get_instructions(code):
        is_attribute = instruction.opname in ("LOAD_ATTR", "LOAD_METHOD")
        if path and is_attribute:
            path.append(str(instruction.argval))
            continue
        if path:
            found.add(tuple(path))
            path = []
        is_free = instruction.opname in ("LOAD_DEREF", "LOAD_CLASSDEREF") and instruction.argval in held
        if is_free or instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            path = [str(instruction.argval)]
    if path:
        found.add(tuple(path))
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            found |= _paths(constant, held)
    return found
