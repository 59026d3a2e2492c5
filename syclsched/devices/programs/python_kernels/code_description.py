# SPDX-License-Identifier: Apache-2.0
"""Descriptions of functions and data by text that is equal in every process, as parts of a key.

A function is described by its code and by the values that it takes from its closure, its defaults and its module:
constants, and other functions in the same way. Of another module it is described by what it uses there, not as a whole.
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

from syclsched.devices.programs.python_kernels.function_references import UnassignedVariable, references

#: Packages whose functions and classes are described by their names alone: a key has their versions or sources apart.
NAMED: Final = (
    "math", "cmath", "operator", "builtins", "numpy", "numba", "numba_dpex", "syclsched.kernel_api",
    "syclsched.kernel_compiler",
)  # fmt: skip
#: Packages whose other classes and data are described as well: keys have the package's version.
_OWN: Final = "syclsched.model"
_DEEPEST = 40


class _Indescribable(Exception):
    """A value that has no description; the message is its type."""


def described(*values: Any) -> str | None:
    """Return a text for values that is the same in every process; None if there is none for one of them."""
    try:
        return "".join(_parts(values, ()))
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


def _parts(value: Any, above: tuple[Any, ...]) -> Iterator[str]:
    """Yield the pieces of a value's description; ``above`` are the values that it is a part of."""
    if len(above) > _DEEPEST:
        raise _Indescribable("a structure that is too deep")
    kind, within = type(value), (*above, value)
    if value is None or value is Ellipsis or kind in (bool, int, float, complex, str, bytes):
        yield f"{kind.__name__}:{value!r};"
    elif kind.__module__ == "numpy" and hasattr(value, "tobytes"):
        yield from _numbers(value)
    elif kind in (tuple, list):
        yield f"{kind.__name__}["
        for each in value:
            yield from _parts(each, within)
        yield "]"
    elif kind in (set, frozenset):
        yield f"{kind.__name__}[{''.join(sorted(''.join(_parts(each, within)) for each in value))}]"
    elif isinstance(value, (dict, types.MappingProxyType)):
        yield from _mapping(value, within)
    elif isinstance(value, enum.Enum):
        yield f"{_name(kind)}.{value.name};"
    elif isinstance(value, types.CodeType):
        yield from _code(value, within)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        yield f"{_name(kind)}["
        for field in dataclasses.fields(value):
            yield f"{field.name}="
            yield from _parts(getattr(value, field.name), within)
        yield "]"
    elif isinstance(value, (type, types.BuiltinFunctionType)) or _is_named(getattr(value, "__module__", None)):
        yield f"{_name(value)};"
    elif isinstance(value, types.FunctionType):
        yield "recursion;" if any(each is value for each in above) else "".join(_function(value, within))
    elif isinstance(value, types.MethodType):
        yield "method["
        yield from _parts((value.__func__, value.__self__), within)
        yield "]"
    elif kind is partial:
        yield "partial["
        yield from _parts((value.func, value.args, value.keywords), within)
        yield "]"
    else:
        raise _Indescribable(kind.__qualname__)


def _numbers(value: Any) -> Iterator[str]:
    """Yield the description of a NumPy number or array."""
    if value.dtype.hasobject:
        raise _Indescribable("an array of objects")
    yield f"{value.dtype.str}{value.shape}:{value.tobytes().hex()};"


def _mapping(value: Mapping[Any, Any], above: tuple[Any, ...]) -> Iterator[str]:
    """Yield the pieces of a mapping, whose order may matter."""
    yield "mapping["
    for key, each in value.items():
        yield from _parts((key, each), above)
    yield "]"


def _function(function: types.FunctionType, above: tuple[Any, ...]) -> Iterator[str]:
    """Yield the pieces of a function, with all that it refers to."""
    yield f"function {function.__name__}["
    yield from _code(function.__code__, above)
    yield from _parts((function.__defaults__, function.__kwdefaults__), above)
    try:
        read = references(function)
    except UnassignedVariable:
        raise _Indescribable("an empty closure") from None
    for path, value in read:
        yield f"{'.'.join(path)}="
        yield from _referred(value, path[1:], above)
    yield "]"


def _referred(value: Any, attributes: tuple[str, ...], above: tuple[Any, ...]) -> Iterator[str]:
    """Yield the pieces of a value, or, of a module, of its attributes that are used there."""
    if not isinstance(value, types.ModuleType):
        yield from _parts(value, above)
    elif _is_named(value.__name__):
        yield f"{value.__name__}.{'.'.join(attributes)};"
    elif attributes and hasattr(value, attributes[0]):
        yield from _referred(getattr(value, attributes[0]), attributes[1:], above)
    else:
        raise _Indescribable(f"module {value.__name__}")


def _code(code: types.CodeType, above: tuple[Any, ...]) -> Iterator[str]:
    """Yield the pieces of compiled Python code."""
    yield "code["
    yield from _parts((code.co_code, code.co_names, code.co_varnames, code.co_freevars, code.co_consts), above)
    yield "]"


def _is_named(module: Any) -> bool:
    """Return whether a module's attribute is described by its name."""
    return isinstance(module, str) and any(module == each or module.startswith(f"{each}.") for each in NAMED)


def _name(named: Any) -> str:
    """Return the full name of a class or function that is described by its name."""
    module = str(named.__module__)
    if not _is_named(module) and module != _OWN and not module.startswith(f"{_OWN}."):
        raise _Indescribable(f"{module}.{getattr(named, '__qualname__', named)}")
    name = getattr(named, "__qualname__", None) or repr(named)
    if " at 0x" in name:
        raise _Indescribable(name)
    return f"{module}:{name}"
