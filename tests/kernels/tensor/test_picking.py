# SPDX-License-Identifier: Apache-2.0
"""Gathering, scattering, searching, sorting and cumulative sums, every implementation, compared with NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.examples import examples
from support.repeatable import generator
from support.trying_tensors import Try, on_host, signature_of

from syclsched.errors import ArgumentError
from syclsched.kernels.tensor.gather import gather, gather_elements, gather_nd
from syclsched.kernels.tensor.reductions.arg import arg
from syclsched.kernels.tensor.reductions.scan import scan_sum
from syclsched.kernels.tensor.reductions.scan_parts import scan_in_parts, scan_in_parts_is_faster
from syclsched.kernels.tensor.reductions.topk import topk
from syclsched.kernels.tensor.scatter import REDUCTIONS, scatter_elements, scatter_nd
from syclsched.model.operation import Operation

LANGUAGES = ["opencl-c", "python"]
RANDOM = generator(5)


def check(on_device: Try, operation: Operation, language: str, expected: dict[str, Any], **arrays: np.ndarray) -> None:
    for got in (on_host(operation, **arrays), on_device(operation, language, **arrays)):
        for name, value in expected.items():
            np.testing.assert_array_equal(got[name], value, name)


@pytest.mark.sycl
@pytest.mark.parametrize("language", LANGUAGES)
def test_gather(on_device: Try, language: str) -> None:
    x = RANDOM.standard_normal((3, 5, 20)).astype("float32")
    for axis, indices in ((0, np.array([[2, -1], [0, 0]])), (1, np.array([4, -5, 1], "int32")), (2, np.array(3))):
        expected = np.take(x, indices, axis=axis)
        y = np.zeros_like(expected)
        check(on_device, gather(axis), language, {"y": expected}, y=y, x=x, indices=indices)
    nothing = np.zeros((3, 0, 20), "float32")
    check(on_device, gather(1), language, {"y": nothing}, y=nothing, x=x, indices=np.zeros(0, "int64"))


@pytest.mark.sycl
@pytest.mark.parametrize("language", LANGUAGES)
def test_gather_elements_and_nd(on_device: Try, language: str) -> None:
    x = RANDOM.standard_normal((3, 5, 20)).astype("float32")
    for axis in range(3):
        indices = RANDOM.integers(-x.shape[axis], x.shape[axis], (2, 4, 18))
        expected = np.take_along_axis(
            x[tuple(slice(0, n if d != axis else None) for d, n in enumerate((2, 4, 18)))], indices, axis
        )
        check(
            on_device, gather_elements(axis), language, {"y": expected}, y=np.zeros_like(expected), x=x, indices=indices
        )
    pairs = np.array([[[0, 1], [2, -1]], [[-3, 4], [1, 1]]])
    expected = x[pairs[..., 0], pairs[..., 1]]
    check(on_device, gather_nd(), language, {"y": expected}, y=np.zeros_like(expected), x=x, indices=pairs)
    batched = np.array([[[1]], [[-1]], [[0]]])
    expected = np.stack([x[b, batched[b, :, 0]] for b in range(3)])
    check(on_device, gather_nd(1), language, {"y": expected}, y=np.zeros_like(expected), x=x, indices=batched)


@pytest.mark.sycl
@pytest.mark.parametrize("language", LANGUAGES)
def test_an_index_out_of_range_sets_the_status_and_writes_nothing(on_device: Try, language: str) -> None:
    x, status = np.arange(5, dtype="float32"), np.array([9], "int32")
    indices = np.array([0, 5, -6, 2**40, -(2**62)])
    nearest = np.array([0, 4, 0, 4, 0], "float32")
    for operation in (gather(0, checked=True), gather_elements(0, checked=True)):
        for picks, expected, told in (
            (indices, nearest, 2),
            (indices[:1], nearest[:1], 0),
            (indices[:0], nearest[:0], 0),
        ):
            arrays = {"y": np.zeros_like(expected), "x": x, "indices": picks, "status": status}
            check(on_device, operation, language, {"y": expected, "status": [told]}, **arrays)
        assert operation.status == "status"
        assert "the 1 of the indices" in operation.explain_status(2)  # type: ignore[misc]
    check(on_device, gather(0), language, {"y": nearest}, y=np.zeros_like(nearest), x=x, indices=indices)
    arrays = {"y": np.zeros_like(x), "x": x, "indices": indices, "updates": np.full(5, -1, "float32"), "status": status}
    expected = np.array([-1, 1, 2, 3, 4], "float32")
    check(on_device, scatter_elements(0, checked=True), language, {"y": expected, "status": [2]}, **arrays)
    arrays["indices"] = indices[:, None]
    check(on_device, scatter_nd(checked=True), language, {"y": expected, "status": [2]}, **arrays)


@pytest.mark.sycl
@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_scatter(on_device: Try, queue: Any, reduction: str, language: str) -> None:
    if queue.sycl_device.device_type.name != "cpu" and reduction != "add":
        return  # the same compiler as the CPU device's
    x = RANDOM.integers(-9, 9, (4, 6, 18)).astype("float32")
    do = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}.get(reduction)
    for axis in range(3):
        indices = RANDOM.integers(-x.shape[axis], x.shape[axis], (3, 5, 17))
        updates = RANDOM.integers(-9, 9, indices.shape).astype("float32")
        expected = x.copy()
        for place in np.ndindex(*indices.shape):
            at = (*place[:axis], indices[place], *place[axis + 1 :])
            expected[at] = updates[place] if do is None else do(expected[at], updates[place])
        arrays = {"y": np.zeros_like(x), "x": x, "indices": indices, "updates": updates}
        check(on_device, scatter_elements(axis, reduction), language, {"y": expected}, **arrays)
    for depth in (1, 2, 3):
        indices = np.stack([RANDOM.integers(-n, n, (2, 3)) for n in x.shape[:depth]], axis=-1)
        updates = RANDOM.integers(-9, 9, (2, 3, *x.shape[depth:])).astype("float32")
        expected = x.copy()
        for place in np.ndindex(2, 3):
            at = tuple(indices[place])
            expected[at] = updates[place] if do is None else do(expected[at], updates[place])
        arrays = {"y": np.zeros_like(x), "x": x, "indices": indices, "updates": updates}
        check(on_device, scatter_nd(reduction), language, {"y": expected}, **arrays)


@pytest.mark.sycl
@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("mode", ["max", "min"])
@pytest.mark.parametrize("last", [False, True])
def test_arg(on_device: Try, mode: str, last: bool, language: str) -> None:
    x = RANDOM.integers(0, 4, (3, 7, 18)).astype("float32")
    x[0, 2, 3] = x[0, 5, 3] = np.nan
    find = np.argmax if mode == "max" else np.argmin
    for axis in (1, 2):
        found = x.shape[axis] - 1 - find(np.flip(x, axis), axis) if last else find(x, axis)
        expected = np.expand_dims(found, axis)
        operation = arg(mode, axis, keepdims=True, last=last)
        check(on_device, operation, language, {"y": expected}, y=np.zeros(expected.shape, "int64"), x=x)


@pytest.mark.sycl
@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
def test_scan(on_device: Try, exclusive: bool, reverse: bool, language: str) -> None:
    x = RANDOM.integers(-9, 9, (3, 7, 18)).astype("int32")
    for axis in (0, 2):
        given = np.flip(x, axis) if reverse else x
        sums = np.cumsum(given, axis) - (given if exclusive else 0)
        expected = np.flip(sums, axis) if reverse else sums
        check(on_device, scan_sum(axis, exclusive, reverse), language, {"y": expected}, y=np.zeros_like(x), x=x)


@pytest.mark.sycl
@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("dtype", ["float32", "float64", "uint32"])
def test_columns_in_blocks(on_device: Try, queue: Any, dtype: str, language: str) -> None:
    if queue.sycl_device.device_type.name != "cpu" and (dtype, language) != ("float32", "opencl-c"):
        return  # the same compiler as the CPU device's
    # Blocks that end with the line, and others: the last block overlaps the one before it.
    for shape, axis in (((17, 2048), 0), ((4, 20, 3, 133), 1)):
        x = RANDOM.integers(0, 30, shape).astype(dtype)
        if dtype.startswith("float"):
            x[..., 3:9:2] = np.nan
            x[0, ..., 7] = 1
        for reverse in (False, True):
            operation = scan_sum(axis, exclusive=reverse, reverse=reverse)
            arrays = {"y": np.zeros_like(x), "x": x}
            check(on_device, operation, language, on_host(operation, **arrays), **arrays)
            operation = arg("min" if reverse else "max", axis, last=reverse)
            arrays = {"y": np.zeros((*shape[:axis], *shape[axis + 1 :]), "int64"), "x": x}
            check(on_device, operation, language, on_host(operation, **arrays), **arrays)


@pytest.mark.sycl
@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("dtype", ["float32", "float64", "uint32", "int64"])
def test_rows_in_vectors(on_device: Try, queue: Any, dtype: str, language: str) -> None:
    if queue.sycl_device.device_type.name != "cpu" and (dtype, language) != ("float32", "opencl-c"):
        return  # the same compiler as the CPU device's
    # Rows of one vector, of several in turn with remaining vectors and elements, and more rows than work-items.
    for shape in ((40, 16), (6, 309), (70, 63, 33)) if dtype == "float32" else ((6, 309),):
        # Few different numbers: of equal ones the first or the last is found, in any lane.
        x = RANDOM.integers(0, 3, shape).astype(dtype)
        if dtype.startswith("float"):
            x[0, [3, 8]] = x[1, -2:] = np.nan
            x[2], x[3] = np.inf, -np.inf
        for last in (False, True):
            operation = arg("min" if last else "max", x.ndim - 1, last=last)
            arrays = {"y": np.zeros(shape[:-1], "int64"), "x": x}
            check(on_device, operation, language, on_host(operation, **arrays), **arrays)


@pytest.mark.sycl
@settings(max_examples=examples(8), deadline=None, suppress_health_check=list(HealthCheck))
@given(
    shape=st.sampled_from([(5001,), (2, 2048), (2049, 2), (1, 3000, 1), (3,), (2, 0), (300_000,)]),
    exclusive=st.booleans(),
    reverse=st.booleans(),
    language=st.sampled_from(LANGUAGES),
    dtype=st.sampled_from(["float32", "int32"]),
)
def test_scan_in_parts(
    on_device: Try, shape: tuple[int, ...], exclusive: bool, reverse: bool, language: str, dtype: str
) -> None:
    axis = int(np.argmax(shape))
    x = np.random.default_rng(0).integers(-9, 10, shape).astype(dtype)  # sums of these are exact
    arrays = {"y": np.zeros_like(x), "x": x}
    expected = on_host(scan_sum(axis, exclusive, reverse), **arrays)["y"]
    operation = scan_in_parts(axis, exclusive, reverse)
    assert [each.name for each in operation.implementations] == ["opencl-c*3", "python*3", "numpy*3"]
    np.testing.assert_array_equal(on_device(operation, f"{language}*3", **arrays)["y"], expected)
    operation.implementation("numpy*3").load(signature_of(arrays))(**arrays)
    np.testing.assert_array_equal(arrays["y"], expected)


def test_scans_of_few_long_lines_are_done_in_parts() -> None:
    assert scan_in_parts_is_faster((1, 1 << 20), 1, "float32")
    assert not scan_in_parts_is_faster((1, 1 << 20), 1, "float16")
    assert not scan_in_parts_is_faster((4096, 4096), 1, "float32")
    assert not scan_in_parts_is_faster((0, 4096), 1, "float32")


@pytest.mark.sycl
@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("largest", [True, False])
def test_topk(on_device: Try, queue: Any, largest: bool, language: str) -> None:
    cpu = queue.sycl_device.device_type.name == "cpu"
    if not cpu and language != "opencl-c":
        return  # the same compiler as the CPU device's
    x = RANDOM.integers(0, 6, (3, 20, 4)).astype("float32")
    x[1, 4, 2] = x[1, 9, 2] = np.nan
    for axis, k in ((1, 7), (0, 3), (1, 0), (1, 20), (2, 1))[: 5 if cpu and language == "opencl-c" else 3]:
        key = np.where(np.isnan(x), np.inf, x)
        order = np.argsort(-key if largest else key, axis=axis, kind="stable")
        indices = np.take(order, range(k), axis=axis)
        values = np.take_along_axis(x, indices, axis)
        arrays = {"values": np.zeros(values.shape, "float32"), "indices": np.zeros(values.shape, "int64"), "x": x}
        check(on_device, topk(k, axis, largest), language, {"values": values, "indices": indices}, **arrays)


def test_unsuitable_arguments_are_refused() -> None:
    x, indices = np.zeros((2, 3), "float32"), np.zeros(4, "int64")
    cases: list[tuple[Operation, dict[str, Any], str]] = [
        (gather(1), {"y": x, "x": x, "indices": indices}, "gives shape (2, 4)"),
        (gather(2), {"y": x, "x": x, "indices": indices}, "no axis 2"),
        (gather(0), {"y": np.zeros((4, 3)), "x": np.zeros((0, 3)), "indices": indices}, "no elements to pick"),
        (gather_elements(0), {"y": x, "x": x, "indices": np.zeros((1, 4), "int64")}, "do not fit"),
        (gather_nd(), {"y": x, "x": x, "indices": indices}, "no index into the axes"),
        (gather(0, True), {"y": x, "x": x, "indices": indices[:2], "status": np.zeros(2, "int32")}, "status has one"),
        (
            scatter_nd(),
            {"y": x, "x": x, "indices": np.zeros((1, 1), "int64"), "updates": x},
            "updates have shape (1, 3)",
        ),
        (arg("max", 1), {"y": indices[:0], "x": np.zeros((2, 0), "float32")}, "has no elements"),
        (topk(4, 1), {"values": x, "indices": x, "x": x}, "there are 3 elements"),
        (scan_sum(0), {"y": x, "x": indices}, "gives shape (4,)"),
    ]
    for operation, arrays, message in cases:
        assert operation.check is not None
        assert message in str(operation.check(signature_of(arrays))), message
    with pytest.raises(ArgumentError, match="no reduction"):
        scatter_nd("sub")
    with pytest.raises(ArgumentError, match="no mode"):
        arg("mean", 0)
