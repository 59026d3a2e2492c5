# SPDX-License-Identifier: Apache-2.0
"""Products with packed weights of 4 bits, compared with NumPy in double precision."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.examples import examples
from support.operations import NO_SHRINKING, UNCHECKED, implementations, numbers, on_host, unwritten

from syclsched.kernels.nn.quantised.block_matmul import block_matmul
from syclsched.model.operation import Operation

Case = tuple[Operation, dict[str, np.ndarray], np.ndarray]


@st.composite
def products(draw: st.DrawFn) -> Case:
    """Draw a product, its arrays and its expected result."""
    random = np.random.default_rng(draw(st.integers(0, 99)))
    before = draw(st.sampled_from([(1,), (1, 1), (2, 3), (13,), (100,), ()]))
    block, terms = draw(st.sampled_from([(16, 16), (16, 40), (32, 96), (128, 136), (8, 64), (32, 544)]))
    columns = draw(st.sampled_from([1, 8, 16, 37, 64]))
    blocks = -(-terms // block)
    codes = random.choice([0, 15, 7], (columns, blocks * block)) if draw(st.booleans()) else None
    codes = random.integers(0, 16, (columns, blocks * block)) if codes is None else codes
    pairs = codes.astype(np.uint8).reshape(columns, blocks, block // 2, 2)
    arrays = {
        "y": unwritten((*before, columns), "float32"),
        "x": numbers(*before, terms),
        "w": pairs[..., 0] | pairs[..., 1] << 4,
        "s": numbers(columns, blocks, seed=1),
    }
    zero: Any = 8
    if zeros := draw(st.booleans()):
        arrays["z"] = random.integers(0, 16, (columns, blocks)).astype(np.uint8)
        zero = arrays["z"].astype(int)[..., None]
    full = (codes.reshape(columns, blocks, block) - zero) * arrays["s"].astype(float)[..., None]
    wanted = arrays["x"].astype(float) @ full.reshape(columns, -1)[:, :terms].T
    if bias := draw(st.booleans()):
        arrays["b"] = numbers(columns, seed=2)
        wanted = wanted + arrays["b"]
    return block_matmul(block, zeros=zeros, bias=bias), arrays, wanted


def _check(found: np.ndarray, wanted: np.ndarray) -> None:
    assert found.shape == wanted.shape
    np.testing.assert_allclose(found, wanted, rtol=2e-5, atol=2e-5 * np.abs(wanted).max() + 1e-4)


@given(products())
@settings(max_examples=examples(40), deadline=None)
def test_the_host_multiplies(case: Case) -> None:
    operation, arrays, wanted = case
    _check(on_host(operation, arrays), wanted)


@pytest.mark.instruction_sets
@pytest.mark.sycl
@pytest.mark.parametrize("name", implementations(block_matmul(16)))
@given(case=products())
@settings(max_examples=examples(20), deadline=None, phases=NO_SHRINKING, suppress_health_check=UNCHECKED)
def test_devices_multiply(run: Any, name: str, case: Case) -> None:
    operation, arrays, wanted = case
    constants = tuple(each for each in "wsz" if each in arrays)
    _check(run(operation, name, arrays, constants=constants)["y"], wanted)
