# SPDX-License-Identifier: Apache-2.0
"""Dispatch of compiled functions by the types of their arguments."""

from __future__ import annotations

import ctypes
import gc
import signal
from typing import Any, NamedTuple, cast

import numpy as np
import pytest

from syclsched.compiled import call_address, compiled, lean, precompile


class Several(NamedTuple):
    """Named tuples whose types' fingerprints differ only where numba 0.59 forgets them."""

    first_with_a_long_name_indeed: Any
    second_with_a_long_name_indeed: Any


@compiled
def first(several: Several) -> float:
    return several.first_with_a_long_name_indeed[0]  # type: ignore[no-any-return]


@compiled
def interrupted(address: int, several: Several, number: int) -> tuple[bool, Any]:
    call_address(address, (number,))
    return True, several.first_with_a_long_name_indeed + 1.0


@compiled
def doubled(several: Several) -> Several:
    return Several(2.0 * several.first_with_a_long_name_indeed, several.second_with_a_long_name_indeed)


@lean
def halved(value: float) -> float:
    return value / 2.0


@lean
def quartered(value: float) -> float:
    return halved(halved(value))


class _Allocated(ctypes.Structure):
    """The number of allocated bytes by glibc's mallinfo2."""

    _fields_ = [
        (name, ctypes.c_size_t)
        for name in (
            *("arena", "ordblks", "smblks", "hblks", "hblkhd"),
            *("usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"),
        )
    ]


def test_wrapper_for_python_is_made_at_the_first_python_call() -> None:
    known: Any = halved
    assert quartered(6.0) == 1.5
    assert not known.dispatcher.overloads
    assert halved(5.0) == 2.5
    assert known.dispatcher.overloads
    assert quartered(10.0) == 2.5


def test_calls_with_named_tuples_keep_no_memory() -> None:
    """Before, numba kept one more fingerprint for each: 130 KiB for each plan."""
    libc = ctypes.CDLL(None)
    libc.mallinfo2.restype, libc.malloc.restype = _Allocated, ctypes.c_void_p
    libc.free.argtypes, libc.memset.argtypes = [ctypes.c_void_p], [ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t]
    several = Several(np.arange(3.0), np.arange(3))

    def allocated() -> int:
        for byte in range(200):
            left = libc.malloc(161)  # of the size of numba's next allocation, to change its contents
            libc.memset(left, byte, 161)
            libc.free(left)
            assert first(several) == 0.0
        gc.collect()
        return int(libc.mallinfo2().uordblks)

    allocated()
    before = allocated()
    assert allocated() - before < 10_000


def test_named_tuples_of_different_types_are_distinguished() -> None:
    whole, real = Several(np.array([7]), np.zeros(1)), Several(np.array([0.5]), np.zeros(1))
    assert [first(whole), first(real), first(whole), first(real)] == [7, 0.5, 7, 0.5]


def test_arguments_without_fingerprint_are_accepted() -> None:
    assert first(Several("a", "b")) == "a"  # type: ignore[comparison-overlap]
    assert first(several=Several([2.5], ())) == 2.5


def test_interrupt_during_return_is_keyboard_interrupt() -> None:
    """Before, the KeyboardInterrupt became a SystemError."""
    libc = ctypes.CDLL(None)
    to_this_thread, to_nobody = (ctypes.cast(getattr(libc, n), ctypes.c_void_p).value or 0 for n in ("raise", "abs"))
    several = Several(np.arange(3.0), np.arange(3))
    assert interrupted(to_nobody, several, int(signal.SIGINT))[0]
    for _ in range(3):
        with pytest.raises(KeyboardInterrupt):
            interrupted(to_this_thread, several, int(signal.SIGINT))
    np.testing.assert_array_equal(interrupted(to_nobody, several, int(signal.SIGINT))[1], [1.0, 2.0, 3.0])


def test_ctrl_c_is_deferred_until_a_named_tuple_is_constructed(monkeypatch: pytest.MonkeyPatch) -> None:
    several, made = Several(np.arange(3.0), np.arange(3)), []
    assert doubled(several)[0][1] == 2.0
    new = Several.__new__

    def interrupted_new(kind: Any, *fields: Any) -> Any:
        signal.raise_signal(signal.SIGINT)
        made.append(new(kind, *fields))
        return made[-1]

    monkeypatch.setattr(Several, "__new__", interrupted_new)
    with pytest.raises(KeyboardInterrupt):
        doubled(several)  # without its result numba ends the process sometimes
    assert len(made) == 1


def test_a_precompiled_function_is_not_compiled_again() -> None:
    @compiled
    def second(several: Several, factor: float) -> float:
        return several.first_with_a_long_name_indeed[1] * factor  # type: ignore[no-any-return]

    dispatcher, several = cast(Any, second).dispatcher, Several(np.arange(3.0), np.arange(3))
    for _ in range(2):
        precompile(second, several, 0.0)
        assert len(dispatcher.overloads) == 1
    assert second(several, 4.0) == 4.0
    assert len(dispatcher.overloads) == 1
