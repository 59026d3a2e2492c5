# SPDX-License-Identifier: Apache-2.0
"""Products and convolutions of 8-bit numbers through oneDNN against exact sums."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.examples import examples
from support.integer_products import Case, convolutions, products, same_but_for_rounding
from support.operations import UNCHECKED

from syclsched.kernels.onednn.operations import integer

pytestmark = [pytest.mark.sycl, pytest.mark.instruction_sets]


@given(case=st.one_of(products(), convolutions()))
@settings(max_examples=examples(120), deadline=None, suppress_health_check=UNCHECKED)
def test_what_is_not_refused_is_exact(onednn: Any, case: Case) -> None:
    operation, arrays, wanted = case
    if onednn.refused(operation, arrays, ("w",)) is None:
        same_but_for_rounding(onednn(operation, arrays, ("w",), "y"), wanted)


@given(case=st.one_of(products(), convolutions()))
@settings(max_examples=examples(60), deadline=None, suppress_health_check=UNCHECKED)
def test_wide_weights_need_sums_of_32_bits(onednn: Any, monkeypatch: pytest.MonkeyPatch, case: Case) -> None:
    operation, arrays, _ = case
    monkeypatch.setattr(integer, "_multiplies_bytes", lambda: False)
    if "narrow" not in operation.name or arrays["x"].dtype != "uint8":
        assert onednn.refused(operation, arrays, ("w",)) is not None
