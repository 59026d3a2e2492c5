# SPDX-License-Identifier: Apache-2.0
"""Reductions, searches and transpositions of work-groups, with the limits of GPUs, compared with the host's."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.examples import examples
from support.grouped import GPUS
from support.operations import NO_SHRINKING, TOLERANCE, UNCHECKED
from support.trying_tensors import on_host, run_on, signature_of

from syclsched.kernels import groups
from syclsched.kernels.tensor.reductions.arg import arg
from syclsched.kernels.tensor.reductions.reduce import MODES, reduce, reduced_shape
from syclsched.kernels.tensor.reductions.reduce_whole import reduce_whole
from syclsched.kernels.tensor.transpose import transpose

FLOATS = ("float32", "float64", "float16")
DTYPES = (*FLOATS, "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "bool")
#: Lengths below a work-item's share, odd, longer than a group, and longer than registers hold.
EXTENTS = st.sampled_from([1, 2, 3, 5, 16, 33, 70, 256, 1111])
SHAPES = st.lists(EXTENTS, min_size=1, max_size=4).map(tuple).filter(lambda shape: math.prod(shape) <= 60_000)


def numbers(shape: tuple[int, ...], dtype: str, seed: int, strange: bool) -> np.ndarray:
    """Return random numbers with repetitions, and with NaN if requested."""
    random = np.random.default_rng(seed)
    x = np.round(random.standard_normal(shape) * 3, 1)
    x = (abs(x) if dtype.startswith("u") else x).astype(dtype)
    if strange and dtype in FLOATS:
        x.reshape(-1)[random.integers(0, x.size, 3)] = [np.nan, np.inf, -np.inf]
    return x


def refused(queue: Any, dtype: str) -> bool:
    return dtype == "float16" and not queue.sycl_device.has_aspect_fp16


@pytest.mark.sycl
@given(data=st.data())
@settings(max_examples=examples(20), deadline=None, phases=NO_SHRINKING, suppress_health_check=UNCHECKED)
def test_teams_of_work_items_reduce(queue: Any, data: st.DataObject) -> None:
    shape, dtype, mode = data.draw(SHAPES), data.draw(st.sampled_from(DTYPES)), data.draw(st.sampled_from(MODES))
    axes = tuple(sorted(data.draw(st.sets(st.integers(0, len(shape) - 1)))))
    whole = dtype not in FLOATS
    if refused(queue, dtype) or (whole and mode in ("l2", "logsum", "logsumexp")):
        return
    if dtype == "bool" and mode not in ("max", "min"):
        return
    arrays = {"x": numbers(shape, dtype, data.draw(st.integers(0, 99)), data.draw(st.booleans()))}
    arrays = {"y": np.zeros(reduced_shape(shape, axes, False), dtype), **arrays}
    limits = data.draw(st.sampled_from(GPUS))
    got = run_on(queue, reduce(mode, axes), groups.NAME, arrays, limits)["y"]
    wanted = on_host(reduce(mode, axes), **arrays)["y"]
    if whole:
        np.testing.assert_array_equal(got, wanted)
        return
    tolerance = TOLERANCE[dtype]
    scale = float(np.nanmax(np.abs(np.where(np.isfinite(arrays["x"]), arrays["x"], 0)), initial=1))
    terms = math.prod(shape) / max(wanted.size, 1) if mode in ("sum", "l1", "sumsquare", "logsum") else 1
    np.testing.assert_allclose(got, wanted, rtol=tolerance * 10, atol=tolerance * scale**2 * terms)


@pytest.mark.sycl
@given(data=st.data())
@settings(max_examples=examples(20), deadline=None, phases=NO_SHRINKING, suppress_health_check=UNCHECKED)
def test_argmax_by_teams_of_work_items(queue: Any, data: st.DataObject) -> None:
    shape, dtype = data.draw(SHAPES), data.draw(st.sampled_from(DTYPES))
    axis = data.draw(st.integers(0, len(shape) - 1))
    if refused(queue, dtype):
        return
    operation = arg(data.draw(st.sampled_from(["max", "min"])), axis, last=data.draw(st.booleans()))
    x = numbers(shape, dtype, data.draw(st.integers(0, 99)), data.draw(st.booleans()))
    arrays = {"y": np.zeros(reduced_shape(shape, (axis,), False), "int64"), "x": x}
    got = run_on(queue, operation, groups.NAME, arrays, data.draw(st.sampled_from(GPUS)))["y"]
    np.testing.assert_array_equal(got, on_host(operation, **arrays)["y"])


@pytest.mark.gpu_shape
@pytest.mark.sycl
@pytest.mark.parametrize("limits", GPUS)
def test_rows_do_not_depend_on_how_many_there_are(queue: Any, limits: Any) -> None:
    x = np.random.default_rng(0).standard_normal((300, 7, 99)).astype("float32")
    for axes in ((2,), (1,)):
        operation = reduce("sum", axes)

        def of(x: np.ndarray, operation: Any = operation, axes: Any = axes) -> np.ndarray:
            arrays = {"y": np.zeros(reduced_shape(x.shape, axes, False), "float32"), "x": x}
            return run_on(queue, operation, groups.NAME, arrays, limits)["y"]

        np.testing.assert_array_equal(np.concatenate([of(x[:1]), of(x[1:37]), of(x[37:])]), of(x))


@pytest.mark.sycl
@pytest.mark.parametrize("mode", ["sum", "max", "mean", "logsumexp"])
@pytest.mark.parametrize("limits", GPUS[1:])
def test_parts_of_a_whole(queue: Any, mode: str, limits: Any) -> None:
    x = np.random.default_rng(1).standard_normal((31, 419))
    arrays = {"parts": np.zeros(8), "x": x, "y": np.zeros(())}
    got = run_on(queue, reduce_whole(mode), f"{groups.NAME}*2", arrays, limits)["y"]
    np.testing.assert_allclose(got, on_host(reduce(mode, (0, 1)), y=np.zeros(()), x=x)["y"], rtol=1e-12, atol=1e-12)


@pytest.mark.sycl
@given(data=st.data())
@settings(max_examples=examples(20), deadline=None, phases=NO_SHRINKING, suppress_health_check=UNCHECKED)
def test_squares_become_columns(queue: Any, data: st.DataObject) -> None:
    shape = data.draw(st.lists(st.sampled_from([1, 2, 3, 16, 17, 45, 130]), min_size=2, max_size=4).map(tuple))
    if math.prod(shape) > 200_000:
        return
    operation = transpose(tuple(data.draw(st.permutations(range(len(shape))))))
    x = numbers(shape, data.draw(st.sampled_from(DTYPES)), 0, False)
    arrays = {"x": x}
    arrays = {"y": np.zeros(wanted_of(operation, x).shape, x.dtype), **arrays}
    requires = operation.implementation(groups.NAME).requires
    assert requires.refuses is not None
    if requires.refuses(signature_of(arrays)):
        return
    got = run_on(queue, operation, groups.NAME, arrays, data.draw(st.sampled_from(GPUS)))["y"]
    np.testing.assert_array_equal(got, wanted_of(operation, x))


def wanted_of(operation: Any, x: np.ndarray) -> np.ndarray:
    """Return an array transposed by an operation's name."""
    return x.transpose(tuple(map(int, operation.name.split()[1].split(","))))
