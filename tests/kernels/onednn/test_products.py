# SPDX-License-Identifier: Apache-2.0
"""Matrix products by oneDNN, compared with the host's, over random shapes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.examples import examples
from support.operations import numbers, unwritten

from syclsched.kernels import nn

pytestmark = [pytest.mark.sycl, pytest.mark.instruction_sets]
Case = tuple[Any, dict[str, np.ndarray], list[str]]


@st.composite
def products(draw: st.DrawFn) -> Case:
    """Draw a product that oneDNN accepts."""
    m, n, k = (draw(st.sampled_from([1, 2, 5, 16, 33])) for _ in range(3))
    batch = draw(st.sampled_from([((), ()), ((3,), ()), ((2, 3), (3,)), ((2, 1), (4,)), ((2, 3), (2, 3)), ((), (4,))]))
    first, second = draw(st.booleans()), draw(st.booleans())
    a = numbers(*batch[0], *((k, m) if first else (m, k)))
    b = numbers(*batch[1], *((n, k) if second else (k, n)), seed=1)
    y = (*np.broadcast_shapes(*batch), m, n)
    four_axes = [name for name, each in (("a", a.shape), ("b", b.shape), ("y", y)) if 4 <= len(each) == len(y)]
    interleaved = tuple(name for name in four_axes if draw(st.booleans()))
    biases = [None, (n,), (1, n), ()]
    bias = draw(st.sampled_from(biases if "y" in interleaved else [*biases, (*y[:-2], 1, n), (m, n)]))
    residual, constant = draw(st.booleans()), draw(st.booleans())
    operation = nn.matmul(
        first,
        second,
        draw(st.sampled_from([1.0, 0.125])),
        draw(st.sampled_from([1.0, 2.0])) if constant else 1.0,
        bias is not None,
        residual,
        draw(st.sampled_from([(), (("relu",),), (("gelu",),)])),
        interleaved,
    )
    a, b = (np.ascontiguousarray(x.swapaxes(-2, -3)) if i in interleaved else x for i, x in (("a", a), ("b", b)))
    y = (*y[:-3], y[-2], y[-3], y[-1]) if "y" in interleaved else y
    arrays = {"y": unwritten(y, "float32"), "a": a, "b": b}
    if bias is not None:
        arrays["c"] = numbers(*bias, seed=2)
    if residual:
        arrays["r"] = numbers(*y, seed=3)
    return operation, arrays, [name for name in "bc" if constant and name in arrays]


@given(products())
@settings(max_examples=examples(80), deadline=None)
def test_products(onednn: Any, case: Case) -> None:
    operation, arrays, constants = case
    onednn.agrees(operation, arrays, constants, factor=5)


def test_single_precision_stays_single(onednn: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    # With half the digits of float32, as bfloat16 has them, errors would be a thousand times as large.
    monkeypatch.setenv("ONEDNN_DEFAULT_FPMATH_MODE", "ANY")
    arrays = {"y": unwritten((65, 65), "float32"), "a": numbers(65, 257), "b": numbers(257, 65, seed=1)}
    got = onednn(nn.matmul(), arrays, ["b"])
    wanted = arrays["a"].astype("float64") @ arrays["b"].astype("float64")
    assert np.abs(got - wanted).max() < 1e-4


def test_unsupported_biases_are_refused(onednn: Any) -> None:
    arrays = {"y": unwritten((5, 7), "float32"), "a": numbers(5, 3), "b": numbers(3, 7), "c": numbers(5, 1)}
    assert "one for each column" in str(onednn.refused(nn.matmul(bias=True), arrays))
    arrays["c"] = numbers(7)
    assert "beta is 1" in str(onednn.refused(nn.matmul(beta=2.0, bias=True), arrays))
    assert onednn.refused(nn.matmul(beta=2.0, bias=True), arrays, ["c"]) is None
    empty = {"y": unwritten((5, 7), "float32"), "a": numbers(5, 0), "b": numbers(0, 7)}
    assert onednn.refused(nn.matmul(), empty) == "a has no elements"
