# SPDX-License-Identifier: Apache-2.0
"""Compilation of the hot pure code with numba: three decorators, so that all of it is compiled and cached alike."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar, cast

import numba
from llvmlite import ir
from numba import types
from numba._dispatcher import compute_fingerprint
from numba.core.registry import CPUDispatcher
from numba.core.typing.typeof import Purpose, typeof
from numba.extending import intrinsic

from syclsched.compilation_cache import kept_on_disk
from syclsched.interrupts import interrupts_held

_P = ParamSpec("_P")
_R = TypeVar("_R")


def compiled(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Compile a function of numbers, arrays and named tuples of them, when it is first called.

    The machine code is kept on disk, beside the source or in the user's cache folder, so that the next process loads
    it; it runs without the GIL. Division by zero gives infinity or NaN, as in NumPy.
    """
    return cast("Callable[_P, _R]", _made(numba.njit(nogil=True, error_model="numpy")(function)))


def lean(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Compile a function as `compiled` does, but without counting references.

    Counting them costs more than the work itself where small functions are given tuples of many arrays in a loop.
    """
    options = {"nogil": True, "error_model": "numpy", "_nrt": False}
    return cast("Callable[_P, _R]", _made(numba.njit(**options)(function)))


def inlined(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Compile a function as `lean` does, as a part of each compiled function that calls it.

    A call passes every field of every array of the tuples it is given, some hundred numbers: a tenth of a microsecond,
    which is more than small functions in a hot loop take.
    """
    options = {"nogil": True, "error_model": "numpy", "_nrt": False, "forceinline": True}
    return cast("Callable[_P, _R]", _made(numba.njit(**options)(function)))


def make_ready(function: Callable[..., Any], *arguments: Any) -> None:
    """Compile a function for arguments like these, or load its machine code, without calling it."""
    cast("_Recognising", function).make_ready(arguments)


@intrinsic  # type: ignore[untyped-decorator]
def call_at(_: Any, address: Any, arguments: Any) -> Any:
    """Call a C function by its address, in compiled code: of whole numbers or pointers of 64 bits, as its result is."""

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

    And a Ctrl-C that comes as an array is handed back is raised by Python among numba's calls into it, which do not
    look for it: the interpreter finds it left behind a result, and calls that its own error; of a named tuple of arrays
    there is then no result, and the process ends. So it waits until the call is over, but for one that compiles.
    """

    def __call__(self, *args: Any, **named: Any) -> Any:
        if not self._makes_objects:
            return self._found(args, named)
        with interrupts_held():
            return self._found(args, named)

    @property
    def _makes_objects(self) -> bool:
        """Whether results are arrays or tuples, once it is compiled."""
        known: bool | None = self.__dict__.get("_makes")
        if known is None:
            made = next(iter(self.overloads.values()), None)
            if made is None:
                return False
            result = made.signature.return_type
            known = self.__dict__["_makes"] = not isinstance(result, types.Number | types.Boolean | types.NoneType)
        return known

    def _found(self, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        try:
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
        except SystemError as error:
            if isinstance(error.__cause__, KeyboardInterrupt):
                raise error.__cause__ from None
            raise

    def make_ready(self, args: tuple[Any, ...]) -> None:
        key, entries = compute_fingerprint((*_PADDING, args))[_LOST:], self.__dict__.setdefault("_entries", {})
        if key not in entries:  # finding the types takes a hundred times as long
            entries[key] = self.compile(tuple(typeof(value, Purpose.argument) for value in args))


#: Bytes of a fingerprint that are lost, and what has them to lose: an opening bracket and so many times None.
_LOST = 40
_PADDING = (None,) * (_LOST - 1)


def _made(dispatcher: Any) -> Any:
    """Return a function as all that is compiled here is: cached, and not compiled again for named tuples."""
    dispatcher.__class__ = _Recognising
    return kept_on_disk(dispatcher)
