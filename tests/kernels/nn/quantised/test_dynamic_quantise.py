# SPDX-License-Identifier: Apache-2.0
"""Quantisation of arrays by their own ranges, compared with NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays as any_arrays
from support.examples import examples
from support.grouped import GPUS
from support.operations import NO_SHRINKING, UNCHECKED
from support.trying_tensors import run_on, signature_of

from syclsched.kernels import groups
from syclsched.kernels.nn.quantised.dynamic_quantise import (
    dynamic_quantise,
    dynamic_quantise_in_parts,
    in_parts_is_faster,
)
from syclsched.model.operation import Operation

Arrays = dict[str, np.ndarray]
SHAPES = st.sampled_from([(), (1,), (15,), (3, 5), (16,), (17,), (2, 3, 7, 11), (64, 63), (4097,), (3, 5000)])
RESULTS = "yszi"


def prepared(x: np.ndarray, parts: int | None = None) -> Arrays:
    """Return the operation's arrays; results have values that must be overwritten."""
    more = {} if parts is None else {"parts": np.full((2, parts), np.nan, np.float32)}
    numbers = {"s": np.full((), np.nan, np.float32), "z": np.full((), 77, np.uint8), "i": np.full((), 77, np.int32)}
    return {"y": np.full(x.shape, 77, np.uint8), **numbers, "x": x, **more}


def expected(x: np.ndarray) -> Arrays:
    """Return the results of ONNX's formulas; the scale is 1 where they give 0."""
    low, high = np.float32(min(x.min(initial=0), 0)), np.float32(max(x.max(initial=0), 0))
    scale = (high - low) / np.float32(255) or np.float32(1)
    zero = np.clip(np.rint(-low / scale), 0, 255)
    y = np.clip(np.rint(x / scale) + zero, 0, 255)
    return {"y": y.astype(np.uint8), "s": scale, "z": zero.astype(np.uint8), "i": zero.astype(np.int32)}


def on_host(operation: Operation, arrays: Arrays) -> Arrays:
    """Return the arrays after the host's implementation, which is the last one."""
    signature = signature_of(arrays)
    assert operation.check is not None and operation.check(signature) is None
    made = {name: each.copy() for name, each in arrays.items()}
    operation.implementations[-1].load(signature)(**made)
    return made


def check_same(found: Arrays, wanted: Arrays) -> None:
    for name in RESULTS:
        np.testing.assert_array_equal(found[name], wanted[name], err_msg=name)


@st.composite
def values(draw: st.DrawFn) -> np.ndarray:
    """Draw numbers of both signs or of one, constant, of small steps (so that quotients are ties), large or tiny."""
    shape = draw(SHAPES)
    random = np.random.default_rng(draw(st.integers(0, 99)))
    x = random.standard_normal(shape) * draw(st.sampled_from([1.0, 1e-30, 1e30]))
    kind = draw(st.sampled_from(["both", "positive", "negative", "equal", "steps", "zeros", "one of them"]))
    if kind == "steps":  # 255 steps of 2: halves of the scale
        x = random.integers(-100, 411, shape)
        x.reshape(-1)[:2] = [-100, 410][: x.size]
    changed = {
        "positive": np.abs,
        "negative": lambda x: -np.abs(x) - 1,
        "equal": lambda x: np.full_like(x, -3.7),
        "zeros": lambda x: x * 0,
        "one of them": lambda x: np.where(np.arange(x.size).reshape(x.shape) == x.size - 1, x, 0),
    }
    return np.asarray(changed.get(kind, np.asarray)(x), np.float32)


@given(values())
@settings(max_examples=examples(60), deadline=None)
def test_the_host_follows_the_formulas(x: np.ndarray) -> None:
    check_same(on_host(dynamic_quantise(), prepared(x)), expected(x))
    if x.size:
        whole = dynamic_quantise_in_parts()
        check_same(on_host(whole, prepared(x, min(x.size, 4))), expected(x))


@given(any_arrays(np.float32, (3, 7), elements=st.floats(-1e6, 1e6, width=32, allow_subnormal=False)))
@settings(max_examples=examples(60), deadline=None)
def test_values_are_restored_within_half_a_step(x: np.ndarray) -> None:
    found = on_host(dynamic_quantise(), prepared(x))
    back = (found["y"].astype(np.float64) - found["i"]) * found["s"]
    # The zero point is rounded as well: at the ends of the range, a value may be cut by half a step.
    assert (np.abs(back - x) <= 1.001 * found["s"]).all()
    assert (back[x == 0] == 0).all()
    assert found["z"] == found["i"]


@pytest.mark.instruction_sets
@pytest.mark.sycl
@pytest.mark.parametrize("name", ["opencl-c", "python"])
@given(x=values(), parts=st.sampled_from([None, 1, 3, 64]))
@settings(max_examples=examples(20), deadline=None, phases=NO_SHRINKING, suppress_health_check=UNCHECKED)
def test_devices_give_the_same_bits(queue: Any, name: str, x: np.ndarray, parts: int | None) -> None:
    if parts is None or parts > x.size:
        check_same(run_on(queue, dynamic_quantise(), name, prepared(x)), expected(x))
    else:
        check_same(run_on(queue, dynamic_quantise_in_parts(), f"{name}*2", prepared(x, parts)), expected(x))


@pytest.mark.sycl
@given(x=values(), parts=st.sampled_from([None, 1, 3, 64]), limits=st.sampled_from(GPUS))
@settings(max_examples=examples(20), deadline=None, phases=NO_SHRINKING, suppress_health_check=UNCHECKED)
def test_work_groups_give_the_same_bits(queue: Any, x: np.ndarray, parts: int | None, limits: Any) -> None:
    if parts is None or parts > x.size:
        found = run_on(queue, dynamic_quantise(), groups.NAME, prepared(x), limits)
    else:
        found = run_on(queue, dynamic_quantise_in_parts(), f"{groups.NAME}*2", prepared(x, parts), limits)
    check_same(found, expected(x))


@pytest.mark.sycl
@pytest.mark.parametrize("name", ["numpy", "opencl-c", "python", groups.NAME])
@pytest.mark.parametrize("in_parts", [False, True])
def test_nan_becomes_zero(queue: Any, name: str, in_parts: bool) -> None:
    x = np.random.default_rng(3).standard_normal((9, 50)).astype(np.float32)
    x[4, ::7] = np.nan
    wanted = expected(np.where(np.isnan(x), np.float32(0), x))
    wanted["y"][np.isnan(x)] = 0
    operation, arrays = dynamic_quantise(), prepared(x)
    if in_parts:
        operation, arrays, name = dynamic_quantise_in_parts(), prepared(x, 5), f"{name}*2"
    is_host = name.startswith("numpy")
    check_same(on_host(operation, arrays) if is_host else run_on(queue, operation, name, arrays), wanted)


def test_an_array_without_elements_has_scale_1() -> None:
    check_same(on_host(dynamic_quantise(), prepared(np.zeros((0, 3), np.float32))), expected(np.zeros((0, 3))))


def test_wrong_shapes_are_named() -> None:
    arrays = prepared(np.zeros(40, np.float32), 4)
    check = dynamic_quantise_in_parts().check
    assert check is not None and check(signature_of(arrays)) is None
    wrong = {"y": np.zeros(3, np.uint8), "s": np.zeros(2, np.float32), "parts": np.zeros((3, 4), np.float32)}
    for name, value in wrong.items():
        assert name in (check(signature_of(arrays | {name: value})) or "")
    assert "no elements" in (check(signature_of(arrays | {"parts": np.zeros((2, 41), np.float32)})) or "")


def test_large_arrays_take_two_kernels() -> None:
    assert not in_parts_is_faster((128, 384)) and in_parts_is_faster((1 << 16,))
