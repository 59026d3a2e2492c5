# SPDX-License-Identifier: Apache-2.0
"""Decorators of pure functions that run as machine code (`@compiled`, `@lean`), and their calls.

Nothing here imports numba before it is needed.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar, cast
from weakref import WeakValueDictionary

from syclsched.compiled import machine_code
from syclsched.compiled.argument_types import type_of, types_of
from syclsched.compiled.source_stamps import stamp_of
from syclsched.interrupts import interrupts_deferred

_P = ParamSpec("_P")
_R = TypeVar("_R")

#: All functions by module and qualified name, for the build.
known_functions: WeakValueDictionary[str, CompiledFunction] = WeakValueDictionary()


def compiled(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Run a function of numbers, arrays and named tuples of them as machine code.

    It runs without the GIL. Division by zero gives infinity or NaN, as in NumPy.
    """
    return _made(function, {"nogil": True, "error_model": "numpy"})


def lean(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Run a function as `compiled` does, but without reference counting.

    In small functions that are called in a loop, counting costs more than the work itself.
    """
    return _made(function, {"nogil": True, "error_model": "numpy", "_nrt": False})


def specialised(function: Callable[_P, _R], called: Callable[..., Any]) -> Callable[_P, _R]:
    """Compile a closure as `lean` does; it is one of several that differ only in compiled functions they call.

    One of these is given, for the name.
    """
    # The qualified name becomes the names of the machine code's symbols and of its file: these must differ, too.
    callee = cast("CompiledFunction", called).py_func
    function.__qualname__ = f"{function.__name__}.{callee.__module__}.{callee.__qualname__}"
    return lean(function)


def precompile(function: Callable[..., Any], *arguments: Any) -> None:
    """Find a function's machine code for the types of these arguments, or compile it, without calling it."""
    cast("CompiledFunction", function).make_ready(arguments)


def _made(function: Callable[_P, _R], options: dict[str, Any]) -> Callable[_P, _R]:
    return cast("Callable[_P, _R]", CompiledFunction(function, options))


class CompiledFunction:
    """A function that runs as machine code: the package's own, or numba's."""

    def __init__(self, function: Callable[..., Any], options: dict[str, Any]) -> None:
        functools.update_wrapper(self, function)
        self.py_func = function
        self.options = options
        #: What to call, by fingerprint of the arguments. A fingerprint has addresses of types, which are kept alive.
        self._entries: dict[bytes, Callable[..., Any]] = {}
        self._kept: list[Any] = []
        known_functions[self.name] = self

    @property
    def name(self) -> str:
        """Module and qualified name."""
        return f"{self.py_func.__module__}:{self.py_func.__qualname__}"

    @functools.cached_property
    def dispatcher(self) -> Any:
        """The function as numba's dispatcher, which compiles it for any types."""
        from syclsched.compiled.dispatchers import dispatcher_of

        return dispatcher_of(self.py_func, self.options)

    @property
    def _numba_type_(self) -> Any:
        # numba asks for this where compiled code calls the function.
        return self.dispatcher._numba_type_

    def __call__(self, *args: Any, **named: Any) -> Any:
        """Call the machine code for the types of these arguments."""
        key = None if named else machine_code.fingerprinter()(args)
        if key is None:
            return self.dispatcher(*args, **named)
        entry = self._entries.get(key)
        if entry is None:
            entry = self._found(key, args)
        return entry(*args)

    def make_ready(self, args: tuple[Any, ...]) -> None:
        """Find or compile the machine code for the types of these arguments."""
        key = machine_code.fingerprinter()(args)
        if key is not None and key in self._entries:
            return
        # A function with machine code needs no dispatcher: the first one imports numba.
        if key is None or self._found(key, args) is vars(self).get("dispatcher"):
            self.dispatcher.make_ready(args)

    def _found(self, key: bytes, args: tuple[Any, ...]) -> Callable[..., Any]:
        """Find what to call for arguments of these types, and keep it."""
        types = [type_of(value) for value in args]
        built = machine_code.find(self.name, types, stamp_of(self.py_func))
        entry = self.dispatcher if built is None else _uninterrupted(built) if built.__doc__ else built
        self._kept += types_of(args)
        self._entries[key] = entry
        return cast("Callable[..., Any]", entry)


def _uninterrupted(entry: Callable[..., Any]) -> Callable[..., Any]:
    """Return a call with Ctrl-C deferred.

    Python raises it while a result is made into an object. The machine code does not check for it there, so the
    interpreter reports a ``SystemError``; for a named tuple of arrays there is no result, and the process crashes.
    """

    def called(*args: Any) -> Any:
        with interrupts_deferred():
            return entry(*args)

    return called


class _CallAddress:
    """The intrinsic function `call_address`, which numba sees when it compiles a caller."""

    @property
    def _numba_type_(self) -> Any:
        from syclsched.compiled.dispatchers import type_of_call_address

        return type_of_call_address()


#: Calls a C function in compiled code: its address, and a tuple of arguments. Arguments and result are 64-bit integers
#: or pointers.
call_address: Any = _CallAddress()
