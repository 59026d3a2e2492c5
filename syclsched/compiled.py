# SPDX-License-Identifier: Apache-2.0
"""Compilation of the hot pure code with numba: three decorators, so that all of it is compiled and cached alike."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, cast

import numba
from llvmlite import ir
from numba import types
from numba._dispatcher import compute_fingerprint
from numba.core import caching
from numba.core.registry import CPUDispatcher
from numba.core.typing.typeof import Purpose, typeof
from numba.extending import intrinsic

_P = ParamSpec("_P")
_R = TypeVar("_R")

_PACKAGE = Path(__file__).parent
_IMPORT = re.compile(rb"^(?:from|import) (syclsched[\w.]*)", re.MULTILINE)


def compiled(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Compile a function of numbers, arrays and named tuples of them, when it is first called.

    The machine code is kept on disk, beside the source or in the user's cache folder, so that the next process loads
    it; it runs without the GIL. Division by zero gives infinity or NaN, as in NumPy.

    Parameters
    ----------
    function : callable
        In numba's nopython subset.

    Returns
    -------
    callable
        The compiled function; what it was made of is its ``py_func``.
    """
    return cast("Callable[_P, _R]", _made(numba.njit(nogil=True, error_model="numpy")(function)))


def lean(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Compile a function as `compiled` does, but without counting references.

    Counting them costs more than the work itself where small functions are given tuples of many arrays in a loop.

    Parameters
    ----------
    function : callable
        In numba's nopython subset; it must make no arrays (views are none), lists or strings, assign no array to a
        part of another, and call nothing that does; numba refuses it otherwise.

    Returns
    -------
    callable
        The compiled function; what it was made of is its ``py_func``.
    """
    options = {"nogil": True, "error_model": "numpy", "_nrt": False}
    return cast("Callable[_P, _R]", _made(numba.njit(**options)(function)))


def inlined(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Compile a function as `lean` does, as a part of each compiled function that calls it.

    A call passes every field of every array of the tuples it is given, some hundred numbers: a tenth of a microsecond,
    which is more than small functions in a hot loop take.

    Parameters
    ----------
    function : callable
        See `lean`.

    Returns
    -------
    callable
        The compiled function; what it was made of is its ``py_func``.
    """
    options = {"nogil": True, "error_model": "numpy", "_nrt": False, "forceinline": True}
    return cast("Callable[_P, _R]", _made(numba.njit(**options)(function)))


@intrinsic  # type: ignore[untyped-decorator]
def call_at(_: Any, address: Any, arguments: Any) -> Any:
    """Call a C function by its address, in compiled code: of whole numbers or pointers of 64 bits, as its result is.

    Parameters
    ----------
    address : int
        The function's. Its address is no part of the machine code, which can so be kept on disk.
    arguments : tuple of int
        What it is called with.
    """

    def generate(_: Any, builder: Any, signature: Any, values: Any) -> Any:
        word, count = ir.IntType(64), len(signature.args[1])
        function = builder.inttoptr(values[0], ir.FunctionType(word, [word] * count).as_pointer())
        return builder.call(function, [builder.extract_value(values[1], n) for n in range(count)])

    return types.int64(types.int64, types.UniTuple(types.int64, len(arguments))), generate


class _Recognising(CPUDispatcher):  # type: ignore[misc]
    """A compiled function that recognises the types of named tuples again.

    numba finds what it compiled by a fingerprint of the arguments' types. Version 0.59 puts whatever lies in memory
    into the first 40 bytes of a longer one (``string_writer_ensure`` in its ``_typeof.cpp``), and a named tuple's, with
    the names of its fields, is longer. Such arguments are hardly ever found again: each call asks Python for their
    types and keeps one more fingerprint for ever; and where the same lies in memory, one named tuple can be taken for
    another.
    """

    def __call__(self, *args: Any, **named: Any) -> Any:
        if named or not any(isinstance(value, tuple) for value in args):
            return super().__call__(*args, **named)
        try:
            key = compute_fingerprint((*_PADDING, args))[_LOST:]
        except (NotImplementedError, ValueError):  # of a value that has none, such as a string or an empty list
            return super().__call__(*args)
        entries = self.__dict__.setdefault("_entries", {})
        entry = entries.get(key)
        if entry is None:
            overload = self.overloads.get(tuple(typeof(value, Purpose.argument) for value in args))
            if overload is None:
                return super().__call__(*args)
            entry = entries[key] = overload.entry_point
        return entry(*args)


#: Bytes of a fingerprint that are lost, and what has them to lose: an opening bracket and so many times None.
_LOST = 40
_PADDING = (None,) * (_LOST - 1)


def _made(dispatcher: Any) -> Any:
    """Return a function as all that is compiled here is: cached, and not compiled again for named tuples."""
    dispatcher.__class__ = _Recognising
    return _cached(dispatcher)


def _cached(dispatcher: Any) -> Any:
    """Keep a function's machine code on disk, where there is a place for it.

    numba's own cache looks at the file a function stands in, and so goes on using it when a function it calls, in
    another file, has changed. This one looks at all the compiled code within reach of its imports.
    """
    try:
        dispatcher._cache = _Cache(dispatcher.py_func)
    except RuntimeError:
        return dispatcher  # no folder can be written: it is compiled in every process
    return dispatcher


@lru_cache(maxsize=1024)
def _read(path: Path) -> tuple[bytes, tuple[Path, ...]]:
    """Return what a module adds to the stamp, and the modules of this package it imports."""
    content = path.read_bytes()
    named = {module.decode() for module in _IMPORT.findall(content)}
    files = [_PACKAGE.parent.joinpath(*module.split(".")) for module in sorted(named)]
    modules = [file.with_suffix(".py") for file in files]
    imported = [one if one.is_file() else file / "__init__.py" for one, file in zip(modules, files, strict=True)]
    matters = any(word in content for word in (b"@compiled", b"@lean", b"@inlined", b"NamedTuple"))
    return (content if matters else b""), tuple(file for file in imported if file.is_file())


@lru_cache(maxsize=1024)
def _stamp(path: Path) -> str:
    """Return a digest of the compiled code and the named tuples of a module and of those it imports."""
    seen, todo = {path}, [path, Path(__file__)]
    while todo:
        fresh = set(_read(todo.pop())[1]) - seen
        seen |= fresh
        todo += fresh
    digest = hashlib.sha256()
    for each in sorted(seen):
        digest.update(_read(each)[0])
    return digest.hexdigest()


class _SourceStamp:
    """Makes a cache entry valid as long as all the code that may be compiled into it is unchanged."""

    def get_source_stamp(self) -> str:
        return _stamp(Path(self._py_file))  # type: ignore[attr-defined]


class _InTree(_SourceStamp, caching._InTreeCacheLocator):  # type: ignore[misc]
    """Beside the source."""


class _Provided(_SourceStamp, caching._UserProvidedCacheLocator):  # type: ignore[misc]
    """Where ``NUMBA_CACHE_DIR`` says."""


class _UserWide(_SourceStamp, caching._UserWideCacheLocator):  # type: ignore[misc]
    """In the user's cache folder."""


class _Implementation(caching.CompileResultCacheImpl):  # type: ignore[misc]
    _locator_classes = (_Provided, _InTree, _UserWide)


class _Cache(caching.FunctionCache):  # type: ignore[misc]
    _impl_class = _Implementation
