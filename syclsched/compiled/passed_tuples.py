# SPDX-License-Identifier: Apache-2.0
"""Compiled functions that other compiled code calls by their address, with the address of a tuple of arrays.

Machine code of the build can so call a function that numba compiles later.
"""

from __future__ import annotations

from typing import Any


class _Intrinsic:
    """An intrinsic function, which numba sees when it compiles a caller."""

    def __init__(self, name: str) -> None:
        self._name = name

    @property
    def _numba_type_(self) -> Any:
        from syclsched.compiled import dispatchers

        return dispatchers.type_of_intrinsic(getattr(dispatchers, self._name))


#: ``address_of(value)``: the address of a named tuple that is an argument, valid until Python's call returns.
address_of: Any = _Intrinsic("address_of")
#: ``call_compiled(address, argument)``: call a function whose address is that of `address_in_compiled_code`.
call_compiled: Any = _Intrinsic("call_compiled")
#: ``number_behind(numbers)``: the integer that lies, as a float, behind the last element of an array.
number_behind: Any = _Intrinsic("number_behind")
#: ``tuple_at(address, kind)``: the named tuple at an address, of a numba type.
tuple_at: Any = _Intrinsic("tuple_at")


def type_for_tuple_at(value: Any) -> Any:
    """Return the numba type of a named tuple, for `tuple_at`."""
    from syclsched.compiled.tuple_references import argument_type

    return argument_type(value)


def address_in_compiled_code(function: Any) -> int:
    """Compile a function of a 64-bit integer that returns one, and return its address for `call_compiled`."""
    from numba.core import types

    from syclsched.compiled.dispatchers import callee_of

    dispatcher, arguments = callee_of(function.dispatcher), (types.int64,)
    dispatcher.compile(arguments)
    made = dispatcher.overloads[arguments]
    return int(made.library.get_pointer_to_function(made.fndesc.llvm_func_name))
