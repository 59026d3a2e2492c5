# SPDX-License-Identifier: Apache-2.0
"""Reductions, compared with NumPy: every mode, every dtype, any axes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.examples import examples
from support.trying_tensors import Try, on_host, signature_of

from syclsched.errors import ArgumentError
from syclsched.kernels.common import ALL_DTYPES
from syclsched.kernels.tensor.reductions.reduce import MODES, reduce, reduced_shape
from syclsched.kernels.tensor.reductions.reduce_whole import MODES as WHOLE_MODES
from syclsched.kernels.tensor.reductions.reduce_whole import reduce_whole, reduce_whole_is_faster

LANGUAGES = ["opencl-c", "python"]


def reference(mode: str, x: np.ndarray, axes: tuple[int, ...], keepdims: bool) -> np.ndarray:
    """Return the reduction in double precision, or in int64."""
    wide = x.astype("float64") if x.dtype.kind == "f" else x.astype("int64")
    how = {"axis": axes, "keepdims": keepdims}
    if mode in ("max", "min"):
        return getattr(np, mode)(x, **how)
    return {
        "sum": lambda: wide.sum(**how),
        "mean": lambda: np.trunc(wide.mean(**how)) if x.dtype.kind != "f" else wide.mean(**how),
        "prod": lambda: wide.prod(**how),
        "l1": lambda: np.abs(wide).sum(**how),
        "l2": lambda: np.sqrt((wide * wide).sum(**how)),
        "sumsquare": lambda: (wide * wide).sum(**how),
        "logsum": lambda: np.log(wide.sum(**how)),
        "logsumexp": lambda: np.log(np.exp(wide).sum(**how)),
    }[mode]()


def check(run: Any, mode: str, x: np.ndarray, axes: tuple[int, ...], keepdims: bool = False) -> None:
    operation = reduce(mode, axes, keepdims)
    y = np.zeros(reduced_shape(x.shape, axes, keepdims), x.dtype)
    expected = reference(mode, x, axes, keepdims)
    tolerance = {"float16": 2e-3, "float32": 1e-5, "float64": 1e-12}.get(x.dtype.name, 0)
    np.testing.assert_allclose(run(operation, y=y, x=x)["y"], expected, rtol=tolerance, atol=tolerance)


SHAPES = [
    ((5, 37), (1,)),
    ((3, 200), (1,)),
    ((37, 5), (0,)),
    ((3, 4, 5, 6), (1, 3)),
    ((2, 3, 20), (0, 1, 2)),
    ((4, 7, 33), (1,)),
    ((2, 5, 5, 16), (1, 2)),
    ((6,), ()),
    ((), ()),
]


@pytest.mark.instruction_sets
@pytest.mark.sycl
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("language", LANGUAGES)
def test_every_mode_has_the_results_of_numpy(on_device: Try, queue: Any, mode: str, language: str) -> None:
    if queue.sycl_device.device_type.name != "cpu" and mode not in ("sum", "max"):
        return  # the same compiler as the CPU device's
    for number, (shape, axes) in enumerate(SHAPES if mode == "sum" else SHAPES[1:4]):
        x = np.random.default_rng(number).uniform(0.5, 1.5, shape).astype("float32")
        check(lambda op, **arrays: on_device(op, language, **arrays), mode, x, axes, keepdims=number % 2 == 0)
        check(on_host, mode, x, axes, keepdims=number % 2 == 0)


@pytest.mark.sycl
@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize(
    ("mode", "dtype"),
    [
        ("mean", "float32"),
        ("max", "float32"),
        ("l2", "float64"),
        ("mean", "int32"),
        ("logsumexp", "float32"),
        ("logsumexp", "float64"),
    ],
)
def test_columns_in_blocks(on_device: Try, queue: Any, mode: str, dtype: str, language: str) -> None:
    if queue.sycl_device.device_type.name != "cpu" and (mode, language) != ("max", "opencl-c"):
        return  # the same compiler as the CPU device's
    run = lambda op, **arrays: on_device(op, language, **arrays)  # noqa: E731
    # Blocks that end with the line, and others: the last block overlaps the one before it.
    shapes = (((3, 2, 5, 8, 301), (1, 3)), ((17, 2048), (0,)), ((4, 20, 3, 133), (1,)), ((1, 31, 100), (1,)))
    for shape, axes in shapes if language == "opencl-c" else shapes[:1]:
        x = np.random.default_rng(0).uniform(1, 9, shape).astype(dtype)
        check(run, mode, x, axes)
    x = np.zeros((16, 1100), "float32")
    x[3, 7] = x[15, 1099] = np.nan
    got = run(reduce("max", (0,)), y=np.zeros(1100, "float32"), x=x)["y"]
    assert np.flatnonzero(np.isnan(got)).tolist() == [7, 1099]
    x[:, 9], x[:, 11], x[5, 11] = -np.inf, 0, np.inf
    got = run(reduce("logsumexp", (0,)), y=np.zeros(1100, "float32"), x=x)["y"]
    assert got[[9, 11]].tolist() == [-np.inf, np.inf]
    assert np.flatnonzero(np.isnan(got)).tolist() == [7, 1099]


@pytest.mark.sycl
@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize(("mode", "dtype"), [("max", "float64"), ("sum", "int32"), ("l1", "int16"), ("min", "uint8")])
def test_many_rows_for_a_work_item(on_device: Try, queue: Any, mode: str, dtype: str, language: str) -> None:
    if queue.sycl_device.device_type.name != "cpu" and mode != "max":
        return  # the same compiler as the CPU device's
    x = np.random.default_rng(0).integers(0, 9, (4099, 37)).astype(dtype)
    check(lambda op, **arrays: on_device(op, language, **arrays), mode, x, (1,))


@pytest.mark.sycl
@pytest.mark.parametrize("dtype", ALL_DTYPES)
def test_every_dtype_has_the_results_of_numpy(on_device: Try, queue: Any, dtype: str) -> None:
    if dtype == "float16" and not queue.sycl_device.has_aspect_fp16:
        pytest.skip("the device has no half precision")
    if queue.sycl_device.device_type.name != "cpu" and dtype not in ("bool", "int64", "float32"):
        return  # the same compiler as the CPU device's
    x = np.random.default_rng(0).integers(0, 3, (6, 40)).astype(dtype)
    modes = ("max", "min") if dtype == "bool" else ("min", "mean")
    for mode, axis in zip(modes, (0, 1) if ALL_DTYPES.index(dtype) % 2 else (1, 0), strict=True):
        check(on_host, mode, x, (axis,))
        for language in LANGUAGES if dtype not in ("bool", "float16") else LANGUAGES[:1]:
            check(lambda op, n=language, **arrays: on_device(op, n, **arrays), mode, x, (axis,))


@pytest.mark.sycl
@pytest.mark.parametrize("language", LANGUAGES)
def test_nan_infinity_and_nothing(on_device: Try, language: str) -> None:
    def of(mode: str, x: Any, axes: tuple[int, ...] = (1,)) -> list[float]:
        array = np.array(x, "float32")
        y = np.zeros(reduced_shape(array.shape, axes, False), "float32")
        got = on_device(reduce(mode, axes), language, y=y, x=array)["y"]
        np.testing.assert_array_equal(got, on_host(reduce(mode, axes), y=y, x=array)["y"])
        return got.tolist()

    rows = np.zeros((3, 40))
    rows[0, 3], rows[1, 38], rows[2, 20] = np.nan, np.nan, np.inf
    assert np.isnan(of("max", rows)[:2]).all()
    assert np.isnan(of("min", rows)[:2]).all()
    assert of("logsumexp", np.full((2, 20), -np.inf)) == [-np.inf, -np.inf]
    assert of("logsumexp", rows[2:]) == [np.inf]
    assert of("sum", np.zeros((2, 0))) == [0, 0]
    assert of("prod", np.zeros((2, 0))) == [1, 1]
    assert of("max", np.zeros((2, 0))) == [-np.inf, -np.inf]
    assert of("sum", np.zeros((0, 3))) == []


@pytest.mark.sycl
@pytest.mark.parametrize("language", LANGUAGES)
def test_logsumexp_with_a_changing_maximum(on_device: Try, queue: Any, language: str) -> None:
    if queue.sycl_device.device_type.name != "cpu":
        return  # the same compiler as the CPU device's
    # Several vectors at once, one by one, and single elements; in columns, several rows at once and one by one.
    x = np.repeat(np.linspace(-300, 300, 309, dtype="float32")[None], 7, axis=0)
    x[1] = -x[1]
    x[2, [3, 200, 308]] = np.inf, -np.inf, np.inf
    x[3, 300:304], x[4], x[4, 308] = (np.nan, np.inf, -np.inf, 0), -np.inf, -3e38
    x[5], x[6, 0] = np.finfo("float32").max, np.inf
    wanted = on_host(reduce("logsumexp", (1,)), y=np.zeros(7, "float32"), x=x)["y"]
    assert np.isnan(wanted[3])
    assert wanted[[2, 4, 6]].tolist() == [np.inf, np.float32(-3e38), np.inf]
    # One row after the other, and several at once, of which the last overlap those before.
    layouts = ((1, x), (0, np.tile(x.T, (1, 40))), (1, np.tile(x, (10, 1))))
    for axis, laid in layouts if language == "opencl-c" else layouts[:2]:
        y = np.zeros(laid.shape[1 - axis], "float32")
        got = on_device(reduce("logsumexp", (axis,)), language, y=y, x=laid)["y"]
        np.testing.assert_allclose(got, np.tile(wanted, y.size // 7), rtol=1e-6)
    # Inputs outside the one-pass algorithm: numbers beyond its range, of either sign, and minus infinity only.
    x[:4] += np.array([[70000], [-1e6], [1e8], [0]], "float32")
    x[4] = -np.inf
    wanted = on_host(reduce("logsumexp", (1,)), y=np.zeros(7, "float32"), x=x)["y"]
    got = on_device(reduce("logsumexp", (1,)), language, y=np.zeros(70, "float32"), x=np.tile(x, (10, 1)))["y"]
    np.testing.assert_allclose(got, np.tile(wanted, 10), rtol=1e-6)


@pytest.mark.sycl
@settings(
    max_examples=examples(6),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(shape=st.lists(st.sampled_from([1, 2, 3, 17, 33]), max_size=4).map(tuple), data=st.data())
def test_any_axes(on_device: Try, shape: tuple[int, ...], data: st.DataObject) -> None:
    axes = tuple(axis for axis in range(len(shape)) if data.draw(st.booleans()))
    language = data.draw(st.sampled_from(LANGUAGES))
    x = np.random.default_rng(1).integers(-4, 5, shape).astype("int32")
    check(lambda op, **arrays: on_device(op, language, **arrays), "sum", x, axes, data.draw(st.booleans()))


@pytest.mark.sycl
@pytest.mark.one_case_in(2)
@pytest.mark.parametrize("mode", WHOLE_MODES)
def test_a_whole_array_by_all_units(on_device: Try, queue: Any, mode: str) -> None:
    if queue.sycl_device.device_type.name != "cpu" and mode not in ("sum", "mean"):
        return  # the same compiler as the CPU device's
    x = np.random.default_rng(0).uniform(0.9, 1.1, (7, 53)).astype("float32")
    expected = reference(mode, x, (0, 1), False)
    arrays = {"parts": np.zeros(4, "float32"), "x": x, "y": np.zeros((), "float32")}
    *names, host = [each.name for each in reduce_whole(mode).implementations]
    assert len(names) == 3
    for name in names:
        np.testing.assert_allclose(on_device(reduce_whole(mode), name, **arrays)["y"], expected, rtol=1e-5)
    reduce_whole(mode).implementation(host).load(signature_of(arrays))(**arrays)
    np.testing.assert_allclose(arrays["y"], expected, rtol=1e-5)
    assert reduce_whole(mode) is reduce_whole(mode)


def test_reductions_in_two_steps_are_chosen_by_size_and_dtype() -> None:
    large = (1, 512, 512)
    assert reduce_whole_is_faster("mean", large, (0, 1, 2), "float32")
    assert not reduce_whole_is_faster("mean", large, (0, 1, 2), "int32")
    assert not reduce_whole_is_faster("sum", large, (1, 2), "float32")
    assert not reduce_whole_is_faster("sum", (2, 512), (0, 1), "float32")
    whole = {"y": np.zeros(4, "int32"), "parts": np.zeros(4, "int32"), "x": np.zeros(9, "int32")}
    assert "mean of integers" in str(reduce_whole("mean").check(signature_of(whole)))  # type: ignore[misc]
    with pytest.raises(ArgumentError, match="no mode 'median'"):
        reduce_whole("median")


def test_unsuitable_arguments_are_refused() -> None:
    assert reduce("sum", (1,)) is reduce("sum", (1,))
    x = np.zeros((2, 3), "float32")
    assert "gives shape (2,)" in str(reduce("sum", (1,)).check(signature_of({"y": x, "x": x})))  # type: ignore[misc]
    assert "no axis 2" in str(reduce("sum", (2,)).check(signature_of({"y": x, "x": x})))  # type: ignore[misc]
    with pytest.raises(ArgumentError, match="no reduction 'median'"):
        reduce("median", (0,))
    with pytest.raises(ArgumentError, match="ascend"):
        reduce("sum", (1, 0))
