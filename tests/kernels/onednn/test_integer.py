# SPDX-License-Identifier: Apache-2.0
"""Products and convolutions of 8-bit numbers by oneDNN, compared with exact sums."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.examples import examples
from support.integer_products import Case, convolutions, products, same_but_for_rounding
from support.operations import UNCHECKED

from syclsched.kernels.nn.quantised.integer_conv import integer_conv
from syclsched.kernels.onednn.operations import integer

pytestmark = [pytest.mark.sycl, pytest.mark.instruction_sets]
#: The zero point of an operand without one.
_ZERO = np.zeros(1, np.int32)
#: Whether oneDNN may use VNNI: not where it is limited to an older instruction set.
_VNNI = integer._multiplies_bytes()


@given(case=st.one_of(products(), convolutions()))
@settings(max_examples=examples(120), deadline=None, suppress_health_check=UNCHECKED)
def test_sums_are_exact(onednn: Any, monkeypatch: pytest.MonkeyPatch, case: Case) -> None:
    operation, arrays, wanted = case
    # Without VNNI, as selected here, it is exact for uint8 and weights of 7 bits.
    if not _VNNI and not ("narrow" in operation.name and arrays["x"].dtype == "uint8"):
        return
    monkeypatch.setattr(integer, "_multiplies_bytes", lambda: True)
    refused = onednn.refused(operation, arrays, ("w",))
    if refused is None:
        same_but_for_rounding(onednn(operation, arrays, ("w",), "y"), wanted)
    else:
        last = " last" in operation.name or operation.name.startswith("integer matmul")
        assert (
            "padding" in refused or not last or arrays["w"].dtype != "int8" or arrays.get("z", _ZERO).dtype != "int32"
        ), refused


@given(case=st.one_of(products(), convolutions()))
@settings(max_examples=examples(20), deadline=None, suppress_health_check=UNCHECKED)
def test_processors_without_8_bit_products_are_refused(
    onednn: Any, monkeypatch: pytest.MonkeyPatch, case: Case
) -> None:
    operation, arrays, _ = case
    monkeypatch.setattr(integer, "_multiplies_bytes", lambda: False)
    assert onednn.refused(operation, arrays, ("w",)) is not None


def test_windows_in_padding_are_refused(onednn: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(integer, "_multiplies_bytes", lambda: True)
    arrays = {"x": np.ones((1, 4, 2, 16), np.uint8), "w": np.ones((20, 16, 9, 1), np.int8)}
    arrays |= {"z": _ZERO, "y": np.empty((1, 1, 2, 20), np.int32)}
    operation = integer_conv(2, (2, 2), (3, 0, 2, 2), channels_last=True)  # oneDNN 2024.2 crashes
    assert "padding" in (onednn.refused(operation, arrays, ("w",)) or "")
