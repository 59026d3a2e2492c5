# SPDX-License-Identifier: Apache-2.0
"""Source code of kernels."""

from __future__ import annotations

import pytest

import syclsched
from syclsched.errors import ArgumentError


@pytest.mark.parametrize("extent", [1 << 31, -(1 << 31) - 1])
def test_an_extent_that_an_int_does_not_hold_is_refused(extent: int) -> None:
    assert syclsched.OpenCLSource("", "k", extents=((1 << 31) - 1, -(1 << 31))).extents[0] == 2147483647
    with pytest.raises(ArgumentError, match=f"extents of kernel 'k': {extent} does not fit into an int of 32 bits"):
        syclsched.OpenCLSource("", "k", extents=(7, extent))
