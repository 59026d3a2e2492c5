# SPDX-License-Identifier: Apache-2.0
"""Inputs as they come to the host's memory."""

from __future__ import annotations

import numpy as np
import pytest

from syclsched.errors import ArgumentError
from syclsched.execution.inputs import to_numpy
from syclsched.model.binding import check_data
from syclsched.model.task import LogicalArray


@pytest.mark.parametrize("order", ["<", ">"])
def test_numbers_in_another_byte_order_are_the_same_numbers(order: str) -> None:
    given = np.arange(6).astype(f"{order}f4")
    check_data(LogicalArray("a", (6,), "float32"), given)
    found = to_numpy(given)
    assert found.dtype == np.dtype("float32")
    assert found.dtype.isnative
    assert found.tolist() == [0, 1, 2, 3, 4, 5]
    assert (found is given) == given.dtype.isnative


def test_another_dtype_is_refused() -> None:
    with pytest.raises(ArgumentError, match="dtype float64"):
        check_data(LogicalArray("a", (6,), "float32"), np.arange(6.0))
