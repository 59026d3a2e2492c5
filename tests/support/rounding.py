# SPDX-License-Identifier: Apache-2.0
"""Comparison of arrays that may differ by rounding."""

from __future__ import annotations

from typing import Any

import numpy as np


def assert_rounded_alike(found: Any, wanted: Any, tolerance: float = 3e-6) -> None:
    """Compare arrays relative to their largest element: a sum whose terms cancel keeps the rounding of the terms."""
    assert found.dtype == wanted.dtype
    largest = np.abs(wanted[np.isfinite(wanted)]).max(initial=0)
    np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance * max(1.0, largest))
