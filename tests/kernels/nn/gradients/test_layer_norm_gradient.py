# SPDX-License-Identifier: Apache-2.0
"""Gradient of layer normalisation, compared with its definition in double precision."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.examples import examples
from support.operations import NO_SHRINKING, UNCHECKED, close, described, implementations, numbers, unwritten

from syclsched.kernels.nn.gradients.layer_norm_gradient import layer_norm_gradient
from syclsched.model.operation import Operation

Case = tuple[Operation, dict[str, np.ndarray], dict[str, np.ndarray], str]
RESULTS = ("y", "dscale", "dbias")


def case_of(shape: tuple[int, ...], axis: int, parts: int, *, centred: bool, dtype: str) -> Case:
    """Return a gradient, its arrays and its expected results, with the whole sums of scale and bias."""
    x, dy = numbers(*shape, dtype=dtype), numbers(*shape, dtype=dtype, seed=1)
    scale = numbers(*shape[axis:], dtype=dtype, seed=2)
    sums = unwritten((parts, *shape[axis:]), dtype)
    arrays = {"y": unwritten(shape, dtype), "dscale": sums, "dbias": sums.copy(), "x": x, "scale": scale, "dy": dy}
    axes, rows = tuple(range(axis, len(shape))), tuple(range(axis))
    wide, given = x.astype("float64"), dy.astype("float64")
    mean = wide.mean(axis=axes, keepdims=True) if centred else 0.0
    deviation = np.sqrt(np.square(wide - mean).mean(axis=axes, keepdims=True) + 1e-5)
    normalised, scaled = (wide - mean) / deviation, given * scale
    inner = scaled - normalised * (scaled * normalised).mean(axis=axes, keepdims=True)
    if centred:
        inner = inner - scaled.mean(axis=axes, keepdims=True)
    wanted = {"y": inner / deviation, "dscale": (given * normalised).sum(axis=rows), "dbias": given.sum(axis=rows)}
    return layer_norm_gradient(axis, 1e-5, centred), arrays, wanted, dtype


@st.composite
def gradients(draw: st.DrawFn) -> Case:
    """Gradients of a few rows of any length, in parts of equal and of unequal numbers of rows."""
    shape = (
        *draw(st.lists(st.integers(1, 6), min_size=1, max_size=2)),
        *draw(st.lists(st.sampled_from([1, 3, 8, 17, 70]), min_size=1, max_size=2)),
    )
    axis = draw(st.integers(0, len(shape) - 1))
    return case_of(
        shape,
        axis,
        draw(st.integers(1, 7)),
        centred=draw(st.booleans()),
        dtype=draw(st.sampled_from(["float32", "float64"])),
    )


def check(made: dict[str, np.ndarray], wanted: dict[str, np.ndarray], dtype: str) -> None:
    close(made["y"], wanted["y"], dtype, 4.0)
    for name in ("dscale", "dbias"):
        close(made[name].sum(axis=0), wanted[name], dtype, 4.0)


@given(gradients())
@settings(max_examples=examples(60), deadline=None)
def test_the_host(case: Case) -> None:
    operation, arrays, wanted, dtype = case
    made = {name: each.copy() for name, each in arrays.items()}
    host = next(each for each in operation.implementations if each.kind == "host")
    host.load(described(operation, made))(**made)
    check(made, wanted, dtype)


@pytest.mark.sycl
@pytest.mark.parametrize("name", implementations(layer_norm_gradient()))
@given(case=gradients())
@settings(max_examples=examples(40), deadline=None, phases=NO_SHRINKING, suppress_health_check=UNCHECKED)
def test_devices(run: Any, name: str, case: Case) -> None:
    operation, arrays, wanted, dtype = case
    check(run(operation, name, arrays), wanted, dtype)


@pytest.mark.sycl
@pytest.mark.parametrize("shape", [(300, 256), (65, 1030)])
def test_many_rows(run: Any, shape: tuple[int, int]) -> None:
    operation, arrays, wanted, dtype = case_of(shape, 1, 64, centred=True, dtype="float32")
    check(run(operation, "opencl-c", arrays), wanted, dtype)


def test_shapes_that_do_not_fit_are_refused() -> None:
    operation, arrays, _, _ = case_of((4, 6), 1, 2, centred=True, dtype="float32")
    for name, shape in {"scale": (5,), "dy": (4, 5), "dscale": (2, 5), "dbias": (3, 6)}.items():
        with pytest.raises(AssertionError, match=r"not|is"):
            described(operation, {**arrays, name: np.zeros(shape, "float32")})
