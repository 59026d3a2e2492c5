# SPDX-License-Identifier: Apache-2.0
"""Descriptions of functions and data by text that is equal in every process, as parts of a key.

A function is described by its name, its code and the values in its closure, defaults and `partial` arguments. The
sources of all that it may call are not in it: they have a digest of their own.
"""

from __future__ import annotations

import dataclasses
import enum
import hashlib
import types
from collections.abc import Iterator, Mapping
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Final

#: Only functions and classes of these packages are described: the sources of others may change unseen.
PACKAGES: Final = ("syclsched.kernels", "syclsched.model")
_DEEPEST = 40


class _Indescribable(Exception):
    """A value that has no description; the message is its type."""


def described(*values: Any) -> str | None:
    """Return a text for values that is the same in every process; None if there is none for one of them."""
    try:
        return "".join(_parts(values, 0))
    except _Indescribable:
        return None


@lru_cache(maxsize=16)
def sources_digest(*folders: Path) -> str:
    """Return a digest of all Python sources in some folders."""
    digest = hashlib.sha256()
    for folder in folders:
        for path in sorted(folder.rglob("*.py")):
            content = path.read_bytes()
            digest.update(f"{path.relative_to(folder)}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()


def _parts(value: Any, depth: int) -> Iterator[str]:
    """Yield the pieces of a value's description."""
    if depth > _DEEPEST:
        raise _Indescribable("a structure that is too deep")
    kind = type(value)
    if value is None or value is Ellipsis or kind in (bool, int, float, complex, str, bytes):
        yield f"{kind.__name__}:{value!r};"
    elif kind.__module__ == "numpy" and hasattr(value, "tobytes") and not getattr(value, "ndim", 1):
        yield f"{value.dtype.str}:{value.tobytes().hex()};"
    elif kind in (tuple, list):
        yield f"{kind.__name__}["
        for each in value:
            yield from _parts(each, depth + 1)
        yield "]"
    elif kind in (set, frozenset):
        yield f"{kind.__name__}[{''.join(sorted(''.join(_parts(each, depth + 1)) for each in value))}]"
    elif isinstance(value, (dict, types.MappingProxyType)):
        yield from _mapping(value, depth)
    elif isinstance(value, enum.Enum):
        yield f"{_name(kind)}.{value.name};"
    elif isinstance(value, types.CodeType):
        yield from _code(value, depth)
    elif isinstance(value, types.FunctionType):
        yield from _function(value, depth)
    elif isinstance(value, types.MethodType):
        yield "method["
        yield from _parts((value.__func__, value.__self__), depth + 1)
        yield "]"
    elif kind is partial:
        yield "partial["
        yield from _parts((value.func, value.args, value.keywords), depth + 1)
        yield "]"
    elif isinstance(value, type):
        yield f"class {_name(value)};"
    elif dataclasses.is_dataclass(value):
        yield f"{_name(kind)}["
        for field in dataclasses.fields(value):
            yield f"{field.name}="
            yield from _parts(getattr(value, field.name), depth + 1)
        yield "]"
    else:
        raise _Indescribable(kind.__qualname__)


def _mapping(value: Mapping[Any, Any], depth: int) -> Iterator[str]:
    """Yield the pieces of a mapping, whose order may matter."""
    yield "mapping["
    for key, each in value.items():
        yield from _parts((key, each), depth + 1)
    yield "]"


def _function(function: types.FunctionType, depth: int) -> Iterator[str]:
    """Yield the pieces of a function of these packages."""
    yield f"function {_name(function)}["
    # The code tells lambdas of one name apart.
    yield from _code(function.__code__, depth + 1)
    cells = []
    for cell in function.__closure__ or ():
        try:
            cells.append(cell.cell_contents)
        except ValueError:  # not assigned yet
            raise _Indescribable("an empty closure") from None
    yield from _parts((function.__defaults__, function.__kwdefaults__, tuple(cells)), depth + 1)
    yield "]"


def _code(code: types.CodeType, depth: int) -> Iterator[str]:
    """Yield the pieces of compiled Python code."""
    yield "code["
    yield from _parts((code.co_code, code.co_names, code.co_varnames, code.co_freevars, code.co_consts), depth + 1)
    yield "]"


def _name(named: Any) -> str:
    """Return the full name of a function or class of these packages."""
    module = str(named.__module__)
    if not any(module == package or module.startswith(f"{package}.") for package in PACKAGES):
        raise _Indescribable(f"{module}.{named.__qualname__}")
    return f"{module}:{named.__qualname__}"
