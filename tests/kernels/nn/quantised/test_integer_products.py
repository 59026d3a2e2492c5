# SPDX-License-Identifier: Apache-2.0
"""Integer matrix products and convolutions, compared with exact sums in NumPy."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.examples import examples
from support.integer_products import Case, convolutions, products, same_but_for_rounding
from support.operations import NO_SHRINKING, UNCHECKED, implementations, on_host

from syclsched.kernels.nn.quantised.integer_matmul import integer_matmul


@given(st.one_of(products(), convolutions()))
@settings(max_examples=examples(60), deadline=None)
def test_the_host_is_exact(case: Case) -> None:
    operation, arrays, wanted = case
    same_but_for_rounding(on_host(operation, arrays), wanted)


@pytest.mark.instruction_sets
@pytest.mark.sycl
@pytest.mark.parametrize("name", implementations(integer_matmul()))
@given(case=st.one_of(products(), convolutions()), is_scale_known=st.booleans())
@settings(max_examples=examples(30), deadline=None, phases=NO_SHRINKING, suppress_health_check=UNCHECKED)
def test_devices_are_exact(run: Any, name: str, case: Case, is_scale_known: bool) -> None:
    operation, arrays, wanted = case
    constants = ("w", "s") if is_scale_known and "s" in arrays else ("w",)
    same_but_for_rounding(run(operation, name, arrays, constants=constants)["y"], wanted)
