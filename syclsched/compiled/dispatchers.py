# SPDX-License-Identifier: Apache-2.0
"""Compilation by numba on the first call, with an on-disk cache and a look-up of named tuples of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
from llvmlite import ir
from numba import types
from numba._dispatcher import compute_fingerprint
from numba.core.registry import CPUDispatcher, cpu_target
from numba.extending import intrinsic

from syclsched.compiled.disk_cache import cache_on_disk
from syclsched.compiled.tuple_references import argument_type
from syclsched.interrupts import interrupts_deferred


def dispatcher_of(function: Callable[..., Any], options: dict[str, Any]) -> Any:
    """Return a function as numba's dispatcher, with the on-disk cache and the look-up of named tuples."""
    dispatcher: Any = numba.njit(**options)(function)
    dispatcher.__class__ = _Recognising
    dispatcher.asked_options = options
    return cache_on_disk(dispatcher)


def callee_of(dispatcher: Any) -> Any:
    """Return a dispatcher of the same function for compiled callers, which makes no wrappers for other callers.

    For a small function of tuples of many arrays, the wrapper that Python calls takes most of the time to compile.
    """
    made = vars(dispatcher).get("callee")
    if made is None:
        made = numba.njit(**dispatcher.asked_options, no_cpython_wrapper=True, no_cfunc_wrapper=True)(
            dispatcher.py_func
        )
        dispatcher.callee = cache_on_disk(made, "callee.")
    return dispatcher.callee


def type_of_call_address() -> Any:
    """Return numba's type of `call_address`."""
    return type_of_intrinsic(call_address)


def type_of_intrinsic(function: Any) -> Any:
    """Return numba's type of an intrinsic function."""
    return cpu_target.typing_context.resolve_value_type(function)


@intrinsic  # type: ignore[untyped-decorator]
def call_address(_: Any, address: Any, arguments: Any) -> Any:
    """Call a C function by its address in compiled code; arguments and result are 64-bit integers or pointers."""

    def generate(_: Any, builder: Any, signature: Any, values: Any) -> Any:
        word, count = ir.IntType(64), len(signature.args[1])
        function = builder.inttoptr(values[0], ir.FunctionType(word, [word] * count).as_pointer())
        return builder.call(function, [builder.extract_value(values[1], n) for n in range(count)])

    return types.int64(types.int64, types.UniTuple(types.int64, len(arguments))), generate


@intrinsic  # type: ignore[untyped-decorator]
def address_of(_: Any, value: Any) -> Any:
    """Return the address of the fields of a named tuple."""

    def generate(_: Any, builder: Any, __: Any, values: Any) -> Any:
        return builder.ptrtoint(values[0], ir.IntType(64))

    return types.int64(value), generate


@intrinsic  # type: ignore[untyped-decorator]
def call_compiled(_: Any, address: Any, argument: Any) -> Any:
    """Call a compiled function of a 64-bit integer, which returns one, by its address; what it raises is raised."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        convention, kinds = context.call_conv, signature.args[1:]
        kind = convention.get_function_type(signature.return_type, kinds).as_pointer()
        status, result = convention.call_function(
            builder, builder.inttoptr(values[0], kind), signature.return_type, kinds, values[1:]
        )
        with builder.if_then(status.is_error, likely=False):
            convention.return_status_propagate(builder, status)
        return result

    return types.int64(types.int64, types.int64), generate


@intrinsic  # type: ignore[untyped-decorator]
def number_behind(_: Any, numbers: Any) -> Any:
    """Return the integer that lies, as a float, behind the last element of an array of floats."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, values[0])
        place = builder.gep(array.data, [builder.extract_value(array.shape, 0)])
        return builder.fptosi(builder.load(place), ir.IntType(64))

    return types.int64(numbers), generate


@intrinsic  # type: ignore[untyped-decorator]
def tuple_at(_: Any, address: Any, kind: Any) -> Any:
    """Return the named tuple at an address, of a numba type."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return builder.inttoptr(values[0], context.get_value_type(signature.return_type))

    return kind.instance_type(types.int64, kind), generate


# Cached machine code refers to this class by its module and name: renaming either makes old cache files unreadable.
class _Recognising(CPUDispatcher):  # type: ignore[misc]
    """A compiled function with its own dispatch cache for named tuples, and with Ctrl-C deferred during calls.

    Dispatch: numba looks up compiled code by a fingerprint of the argument types. Version 0.59 leaves the first 40
    bytes of a long fingerprint uninitialised (``string_writer_ensure`` in its ``_typeof.cpp``), and those of named
    tuples are long, as they contain the field names. Such arguments are hardly ever found again: each call resolves
    their types in Python and stores one more fingerprint. If the uninitialised bytes happen to agree, one named tuple
    can be taken for another.

    Ctrl-C: Python raises it while numba boxes an array result. numba does not check for it there, so the interpreter
    reports a ``SystemError``; for a named tuple of arrays there is no result, and the process crashes. Hence an
    interrupt waits until the call has ended, except for a call that compiles.
    """

    @property
    def _numba_type_(self) -> Any:
        return types.Dispatcher(callee_of(self))

    def typeof_pyval(self, value: Any) -> Any:
        """Return the type of an argument."""
        return argument_type(value)

    def __call__(self, *args: Any, **named: Any) -> Any:
        if not self._returns_objects:
            return self._found(args, named)
        with interrupts_deferred():
            return self._found(args, named)

    @property
    def _returns_objects(self) -> bool:
        """Whether results are arrays or tuples; False until the function is compiled."""
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
                key = compute_fingerprint((*_PADDING, args))[_N_SKIPPED:]
            except (NotImplementedError, ValueError):  # values without a fingerprint, such as strings or empty lists
                return super().__call__(*args)
            entries = self.__dict__.setdefault("_entries", {})
            entry = entries.get(key)
            if entry is None:
                overload = self.overloads.get(tuple(argument_type(value) for value in args))
                if overload is None:
                    return super().__call__(*args)
                entry = entries[key] = overload.entry_point
            return entry(*args)
        except SystemError as error:
            if isinstance(error.__cause__, KeyboardInterrupt):
                raise error.__cause__ from None
            raise

    def make_ready(self, args: tuple[Any, ...]) -> None:
        key, entries = compute_fingerprint((*_PADDING, args))[_N_SKIPPED:], self.__dict__.setdefault("_entries", {})
        if key not in entries:  # resolving the types takes a hundred times as long as the look-up
            entries[key] = self.compile(tuple(argument_type(value) for value in args))


#: Uninitialised leading bytes of a fingerprint, and padding that fills them: an opening bracket and 39 times None.
_N_SKIPPED = 40
_PADDING = (None,) * (_N_SKIPPED - 1)
