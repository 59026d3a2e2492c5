# SPDX-License-Identifier: Apache-2.0
"""Operations that move elements, every implementation, compared with NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.examples import examples
from support.trying_tensors import Try, on_host, signature_of

from syclsched.errors import ArgumentError
from syclsched.kernels.tensor.concat import concat
from syclsched.kernels.tensor.pad import MODES, pad
from syclsched.kernels.tensor.strided_slice import slice_of
from syclsched.kernels.tensor.transpose import transpose
from syclsched.model.operation import Operation

LANGUAGES = ["opencl-c", "python"]
SETTINGS = settings(
    max_examples=examples(6),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


def filled(shape: tuple[int, ...], dtype: str = "float32") -> np.ndarray:
    return np.arange(int(np.prod(shape)), dtype="int64").reshape(shape).astype(dtype)


def check(on_device: Try, operation: Operation, expected: Any, language: str, **arrays: np.ndarray) -> None:
    y = np.zeros(np.shape(expected), arrays[next(iter(arrays))].dtype)
    np.testing.assert_array_equal(on_host(operation, y=y, **arrays)["y"], expected)
    np.testing.assert_array_equal(on_device(operation, language, y=y, **arrays)["y"], expected)


@pytest.mark.sycl
@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize(
    ("shape", "permutation"),
    [
        ((37, 50), (1, 0)),
        ((2, 40, 5, 7), (0, 2, 3, 1)),
        ((2, 5, 7, 40), (0, 3, 1, 2)),
        ((3, 4, 2, 20), (0, 2, 1, 3)),
        ((3, 17, 2, 5), (3, 1, 0, 2)),
        ((4, 1, 3), (1, 2, 0)),
        ((5,), (0,)),
        ((), ()),
        ((0, 3), (1, 0)),
        # Several blocks for a work-item, of which the last overlap those before them.
        ((300, 537), (1, 0)),
        ((150, 2600), (1, 0)),
        ((2, 20, 5, 7), (0, 2, 3, 1)),
        ((5, 18, 3, 20), (3, 2, 1, 0)),
        # Few rows, whose elements are interleaved.
        ((2, 3, 20, 31), (0, 2, 3, 1)),
        ((7, 2, 5, 40), (2, 1, 3, 0)),
    ],
)
def test_transpose(on_device: Try, shape: tuple[int, ...], permutation: tuple[int, ...], language: str) -> None:
    x = filled(shape)
    check(on_device, transpose(permutation), x.transpose(permutation), language, x=x)


@pytest.mark.sycl
@pytest.mark.parametrize("dtype", ["bool", "int8", "float64", "uint16"])
def test_transpose_of_other_dtypes(on_device: Try, dtype: str) -> None:
    x = filled((33, 20), dtype)
    for language in LANGUAGES:
        check(on_device, transpose((1, 0)), x.T, language, x=x)
        check(on_device, transpose((1, 0)), x[:5].T, language, x=x[:5])


@pytest.mark.sycl
@SETTINGS
@given(data=st.data())
def test_few_lines_are_interleaved(on_device: Try, data: st.DataObject) -> None:
    planes, lines = data.draw(st.sampled_from([1, 3])), data.draw(st.integers(2, 8))
    columns = data.draw(st.sampled_from([16, 17, 40, 2100, 5000]))
    x = filled((planes, lines, columns), data.draw(st.sampled_from(["uint8", "float16", "float32", "int64"])))
    check(on_device, transpose((0, 2, 1)), x.transpose(0, 2, 1), "opencl-c", x=x)


@pytest.mark.sycl
@SETTINGS
@given(data=st.data(), language=st.sampled_from(LANGUAGES))
def test_any_permutation(on_device: Try, data: st.DataObject, language: str) -> None:
    shape = data.draw(st.lists(st.sampled_from([1, 2, 8, 16, 17, 35]), min_size=2, max_size=4).map(tuple))
    permutation = tuple(data.draw(st.permutations(range(len(shape)))))
    x = filled(shape, data.draw(st.sampled_from(["int32", "float64", "int16"])))
    check(on_device, transpose(permutation), x.transpose(permutation), language, x=x)


@pytest.mark.sycl
@SETTINGS
@given(data=st.data(), language=st.sampled_from(LANGUAGES))
def test_any_slice(on_device: Try, data: st.DataObject, language: str) -> None:
    shape = data.draw(st.lists(st.sampled_from([1, 2, 5, 18, 40]), max_size=3).map(tuple))
    slices = []
    for n in shape:
        start = data.draw(st.integers(0, n - 1))
        step = data.draw(st.sampled_from([1, 2, -1, -3]))
        count = data.draw(st.integers(0, (n - 1 - start) // step + 1 if step > 0 else start // -step + 1))
        slices.append((start, step, count))
    x = filled(shape, "int32")
    expected = x[np.ix_(*([start + step * i for i in range(count)] for start, step, count in slices))] if shape else x
    operation = slice_of(tuple(s for s, _, _ in slices), tuple(step for _, step, _ in slices))
    check(on_device, operation, expected.reshape([count for *_, count in slices]), language, x=x)


@pytest.mark.sycl
@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("mode", MODES)
def test_pad(on_device: Try, mode: str, language: str) -> None:
    x = filled((3, 4, 18), "float32")
    pads = (1, 0, 2, 0, 2, 3)
    widths = ((1, 0), (0, 2), (2, 3))
    more = {"constant_values": 2.5} if mode == "constant" else {}
    expected = np.pad(x, widths, mode=mode, **more)  # type: ignore[call-overload]
    check(on_device, pad(pads, mode, 2.5), expected, language, x=x)
    if mode != "constant":
        wide = np.pad(x[:, 0, :3], ((7, 5), (4, 8)), mode=mode)  # type: ignore[call-overload]
        check(on_device, pad((7, 4, 5, 8), mode), wide, language, x=np.ascontiguousarray(x[:, 0, :3]))
    else:
        check(on_device, pad((0, 1, 1, 0), mode, -1), np.full((1, 4), -1), language, x=np.zeros((0, 3), "int64"))


@pytest.mark.sycl
@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize(("axis", "widths"), [(0, (1, 0, 3)), (1, (5, 18)), (2, (3, 1, 2, 30)), (1, (4,))])
def test_concat(on_device: Try, axis: int, widths: tuple[int, ...], language: str) -> None:
    parts = {}
    for i, width in enumerate(widths):
        shape = [2, 3, 5]
        shape[axis] = width
        parts[f"x{i}"] = filled(tuple(shape)) + 100 * i
    check(on_device, concat(axis, len(widths)), np.concatenate(list(parts.values()), axis), language, **parts)


def test_unsuitable_arguments_are_refused() -> None:
    x = np.zeros((2, 3), "float32")
    for operation, y, message in (
        (transpose((1, 0)), (2, 3), "gives shape (3, 2)"),
        (transpose((0,)), (2,), "no permutation of the axes"),
        (slice_of((0, 2), (1, 1)), (2, 2), "has no 2 elements from 2"),
        (slice_of((0,), (1,)), (2,), "1 starts for 2 axes"),
        (pad((0, 1, 0, 0)), (2, 3), "gives shape (2, 4)"),
    ):
        assert message in str(operation.check(signature_of({"y": np.zeros(y, "float32"), "x": x})))  # type: ignore[misc]
    parts = {"y": x, "x0": x, "x1": np.zeros((3, 3), "float32")}
    assert "differ but along axis 1" in str(concat(1, 2).check(signature_of(parts)))  # type: ignore[misc]
    with pytest.raises(ArgumentError, match="no permutation"):
        transpose((0, 2))
    with pytest.raises(ArgumentError, match="steps"):
        slice_of((0,), (0,))
    with pytest.raises(ArgumentError, match="not negative"):
        pad((-1, 0))
    with pytest.raises(ArgumentError, match="no mode"):
        pad((1, 0), "mirror")


def test_vectors_are_read_and_written_without_calls_and_kept_whole() -> None:
    parts = {"y": filled((3, 96)), "x0": filled((3, 32)), "x1": filled((3, 64))}
    source = concat(1, 2).implementation("opencl-c").load(signature_of(parts)).source
    assert source.count("__global const float16_at_any*") == 2 * len(parts) - 2
    assert "vload" not in source
    assert "vec_type_hint(float16)" in source
