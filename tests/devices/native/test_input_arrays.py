# SPDX-License-Identifier: Apache-2.0
"""Input arrays as seen by C code: recognition of supported arrays, and the addresses of their data."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from syclsched.devices.native.input_arrays import INDEX_DTYPES, InputArrays
from syclsched.devices.native.submission_library import load_library
from syclsched.oneapi import load

pytestmark = pytest.mark.sycl


@pytest.fixture(scope="module")
def library() -> Any:
    """Return the compiled C functions."""
    load()
    return load_library()


@pytest.fixture
def given() -> InputArrays:
    return InputArrays([(np.dtype("float32"), (2, 3)), (np.dtype("int64"), ())])


def look(library: Any, given: InputArrays, *arrays: Any) -> bool:
    return bool(library.look(given.address, len(given), arrays))


def unaligned() -> np.ndarray:
    return np.zeros(25, np.uint8)[1:].view(np.float32).reshape(2, 3)


def test_supported_arrays_are_recognised(library: Any, given: InputArrays) -> None:
    assert given.layout_matches(library)
    matrix, number = np.zeros((2, 3), np.float32), np.zeros((), np.int64)
    for first in (matrix, matrix[:], np.zeros(7, np.float32)[1:].reshape(2, 3)):
        assert look(library, given, first, number)
        assert [each.data for each in given.structures] == [first.ctypes.data, number.ctypes.data]


@pytest.mark.parametrize(
    "other",
    [
        np.zeros((3, 2), np.float32),
        np.zeros((2, 3, 1), np.float32),
        np.zeros((2, 3), np.float64),
        np.zeros((2, 3), np.int32),
        np.zeros((2, 3), ">f4"),
        np.zeros((2, 3), np.float32, order="F"),
        np.zeros((2, 6), np.float32)[:, ::2],
        np.zeros((2, 3), np.float32)[::-1],
        np.zeros((2, 3), np.float32).view(np.recarray),
        unaligned(),
        [[0.0] * 3] * 2,
        None,
        0,
    ],
    ids=str,
)
def test_unsupported_arrays_are_rejected(library: Any, given: InputArrays, other: Any) -> None:
    number = np.zeros((), np.int64)
    assert not look(library, given, other, number)
    assert not look(library, given, np.zeros((2, 3), np.float32), other)
    assert not look(library, given, np.zeros((2, 3), np.float32))
    assert not look(library, given, np.zeros((2, 3), np.float32), number, number)
    assert not look(library, given)


def test_a_python_of_another_build_is_noticed(
    library: Any, given: InputArrays, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Blind:
        @staticmethod
        def look(address: int, count: int, arrays: tuple[Any, ...]) -> int:
            return 1  # and reports no address

    assert not given.layout_matches(Blind())
    monkeypatch.setattr("syclsched.devices.native.input_arrays._OBJECT", 24)
    assert not given.layout_matches(library)


@pytest.mark.parametrize("dtype", INDEX_DTYPES, ids=str)
def test_arrays_with_an_index_out_of_range_are_rejected(library: Any, dtype: np.dtype[Any]) -> None:
    given = InputArrays([(dtype, (2, 3)), (dtype, (2, 3))], {1: (-4, 7)})
    assert given.layout_matches(library)
    any_numbers = np.full((2, 3), 1000, dtype)
    for number, seen in ((-5, False), (-4, True), (6, True), (7, False), (np.iinfo(dtype).min, False)):
        for place in range(6):
            indices = np.zeros((2, 3), dtype)
            indices.flat[place] = number
            assert look(library, given, any_numbers, indices) == seen
    assert look(library, InputArrays([(dtype, (0, 3))], {0: (1, 1)}), np.empty((0, 3), dtype))
