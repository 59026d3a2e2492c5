# SPDX-License-Identifier: Apache-2.0
"""Calls of libraries: native functions that the compiled submission loop calls, and sequences of copies."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class NativeCall:
    """A library function that the compiled submission loop calls without Python.

    The function submits its work to the in-order queue it was made for and returns without waiting. It takes up to six
    machine words and returns an ``int32_t``: 0 on success.

    Parameters
    ----------
    function : int
        Address of the function.
    arguments : tuple of int
        Its arguments: numbers and addresses.
    keep : object
        Object that must stay alive until the last call's work has completed.
    explain : Callable[[int], str] or None, optional
        Translates a non-zero return value into a description of the error.
    event : int or None, optional
        Index of the argument for the address of a ``sycl::event`` that the function assigns (oneDNN's
        ``return_event``); it completes with the call's work. Without it fences are submitted before and after the call,
        which cost more.
    on_queue : bool, optional
        Whether the work is submitted to the native queue below the SYCL queue, as kernels are. False for host tasks,
        which run on threads of the SYCL runtime: oneDNN's primitives on CPU devices. Such a call is submitted only when
        other work before it on its lane has completed.
    reading_elsewhere : Callable[[int], ReadingElsewhere or None] or None, optional
        Given the address of an array that the call only reads, returns an equivalent call whose address of this array
        can be changed; None if there is none.

    Examples
    --------
    Any C function that returns 0 on success can be called, here one of three words:

    >>> import ctypes
    >>> import syclsched
    >>> prototype = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
    >>> function = prototype(lambda to, source, size: 0)
    >>> address = ctypes.cast(function, ctypes.c_void_p).value
    >>> call = syclsched.NativeCall(address, (0, 0, 8), keep=function, explain=lambda status: f"status {status}")
    """

    function: int
    arguments: tuple[int, ...]
    keep: Any
    explain: Callable[[int], str] | None = None
    event: int | None = None
    on_queue: bool = False
    reading_elsewhere: Callable[[int], ReadingElsewhere | None] | None = None


@dataclass(frozen=True, slots=True)
class ReadingElsewhere:
    """A native call that can read one of its input arrays from another, host-accessible address on each call.

    Parameters
    ----------
    call : NativeCall
        The call.
    move : int
        Address of a function that sets the array's address before the call. It takes ``moved`` and that address, and
        returns an ``int32_t``: 0 on success.
    moved : int
        First argument of ``move``: a machine word.

    Examples
    --------
    ``move(moved, address)`` is called before each call:

    >>> import ctypes
    >>> import syclsched
    >>> call = syclsched.NativeCall(1 << 20, (), keep=None)
    >>> move = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)(lambda moved, address: 0)
    >>> elsewhere = syclsched.ReadingElsewhere(call, move=ctypes.cast(move, ctypes.c_void_p).value, moved=0)
    """

    call: NativeCall
    move: int
    moved: int


@dataclass(frozen=True, slots=True)
class Copies:
    """A sequence of copies within a memory space, as returned by ``load`` of some ``library`` implementations.

    Parameters
    ----------
    of : Callable[[Mapping[str, Any]], Sequence[tuple[Any, Any, int]]]
        Given the arguments, returns (destination, source, bytes) of at least one copy, with USM memory.

    Examples
    --------
    An implementation that copies ``x`` to ``y``:

    >>> import syclsched
    >>> copies = syclsched.Copies(lambda arguments: [(arguments["y"], arguments["x"], arguments["x"].nbytes)])
    >>> way = syclsched.Implementation("copy", "library", lambda signature: copies)
    """

    of: Callable[[Mapping[str, Any]], Sequence[tuple[Any, Any, int]]]

    def __call__(self, queue: Any, arguments: Mapping[str, Any], depends: list[Any]) -> Any:
        """Submit the copies, as a ``library`` implementation; see `Implementation`."""
        for to, source, nbytes in self.of(arguments):
            # Chained, so that the last event covers all copies also on an out-of-order queue.
            depends = [queue.memcpy_async(to, source, nbytes, depends)]
        return depends[0]
