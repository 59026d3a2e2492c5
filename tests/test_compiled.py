# SPDX-License-Identifier: Apache-2.0
"""Machine code is kept, found again, and made anew when anything that went into it has changed."""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from syclsched import compiled as module
from syclsched.compiled import compiled, lean


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A package in which ``outer`` imports ``inner``, and ``other`` stands alone."""
    folder = tmp_path / "syclsched"
    (folder / "room").mkdir(parents=True)
    (folder / "__init__.py").write_text("")
    (folder / "room" / "__init__.py").write_text("from syclsched.room.inner import f\n")
    (folder / "room" / "inner.py").write_text("@compiled\ndef f(): return 1\n")
    (folder / "room" / "plain.py").write_text("def text(): return 'a'\n")
    (folder / "outer.py").write_text(
        "from syclsched.room import f\nimport syclsched.room.plain\n@lean\ndef g(): return f()\n"
    )
    (folder / "other.py").write_text("@compiled\ndef h(): return 2\n")
    monkeypatch.setattr(module, "_PACKAGE", folder)
    forget()
    yield folder
    forget()


def forget() -> None:
    module._stamp.cache_clear()
    module._read.cache_clear()


def test_a_change_in_what_is_called_is_seen(package: Path) -> None:
    before = {name: module._stamp(package / name) for name in ("outer.py", "other.py")}
    (package / "room" / "inner.py").write_text("@compiled\ndef f(): return 3\n")
    forget()
    after = {name: module._stamp(package / name) for name in ("outer.py", "other.py")}
    assert before["outer.py"] != after["outer.py"]
    assert before["other.py"] == after["other.py"]


def test_a_change_elsewhere_is_not(package: Path) -> None:
    before = module._stamp(package / "outer.py")
    (package / "room" / "plain.py").write_text("def text(): return 'b'\n")
    forget()
    assert module._stamp(package / "outer.py") == before


def test_without_a_folder_to_write_to_it_is_compiled_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module._Implementation, "_locator_classes", ())

    @compiled
    def total(values: np.ndarray) -> float:  # type: ignore[type-arg]
        result = 0.0
        for value in values:
            result += value
        return result

    @lean
    def double(value: float) -> float:
        return 2.0 * value

    assert total(np.arange(4.0)) == 6.0
    assert double(3.0) == 6.0


class Several(NamedTuple):
    """Named tuples whose types' fingerprints differ only where numba 0.59 forgets them."""

    first_with_a_long_name_indeed: Any
    second_with_a_long_name_indeed: Any


@compiled
def first(several: Several) -> float:
    return several.first_with_a_long_name_indeed[0]  # type: ignore[no-any-return]


class _Allocated(ctypes.Structure):
    """What glibc's mallinfo2 says."""

    _fields_ = [
        (name, ctypes.c_size_t)
        for name in (
            *("arena", "ordblks", "smblks", "hblks", "hblkhd"),
            *("usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"),
        )
    ]


def test_calls_with_named_tuples_keep_no_memory() -> None:
    """numba kept one more fingerprint for each: 130 KiB for each plan."""
    libc = ctypes.CDLL(None)
    libc.mallinfo2.restype, libc.malloc.restype = _Allocated, ctypes.c_void_p
    libc.free.argtypes, libc.memset.argtypes = [ctypes.c_void_p], [ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t]
    several = Several(np.arange(3.0), np.arange(3))

    def allocated() -> int:
        for byte in range(200):
            left = libc.malloc(161)  # as large as what numba takes next, to leave other things in it each time
            libc.memset(left, byte, 161)
            libc.free(left)
            assert first(several) == 0.0
        gc.collect()
        return int(libc.mallinfo2().uordblks)

    allocated()
    before = allocated()
    assert allocated() - before < 10_000


def test_named_tuples_of_other_types_are_told_apart() -> None:
    whole, real = Several(np.array([7]), np.zeros(1)), Several(np.array([0.5]), np.zeros(1))
    assert [first(whole), first(real), first(whole), first(real)] == [7, 0.5, 7, 0.5]


def test_what_has_no_fingerprint_is_taken_too() -> None:
    assert first(Several("a", "b")) == "a"  # type: ignore[comparison-overlap]
    assert first(several=Several([2.5], ())) == 2.5
