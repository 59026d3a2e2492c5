# SPDX-License-Identifier: Apache-2.0
"""Peak throughput: the chain of multiply-adds, and the measured element types."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from syclsched.model.platform import Device
from syclsched.profiling.measure import microkernels, throughput


def cpu(**changes: Any) -> Device:
    device = Device("cpu", "key", "cpu", "opencl", "a CPU", "cpu", ("cpu",), dtypes=("float32", "float64", "int32"))
    return replace(device, **changes)


def test_the_reference_of_the_fma_chain_is_the_closed_form() -> None:
    x = np.array([0.0, 1.0], np.float32)
    result = microkernels.fma_reference(x, np.array([2, 1], np.float32), 3)
    assert result.tolist() == [12 * 7.0, 78 * 8 + 12 * 7.0]


@pytest.mark.parametrize("dtype", throughput.DTYPES)
def test_expected_answers_are_exact_in_every_dtype(dtype: str) -> None:
    for multiplier, addend, n in throughput._KNOWN_ANSWERS:
        wide = microkernels.fma_reference(np.arange(2).astype("float64"), np.array([multiplier, addend], "float64"), n)
        narrow = microkernels.fma_reference(np.arange(2).astype(dtype), np.array([multiplier, addend], dtype), n)
        assert narrow.astype("float64").tolist() == wide.tolist()


def test_half_precision_is_measured_only_where_it_can_be() -> None:
    assert throughput.measurable_dtypes(cpu()) == ("float32", "float64", "int32")
    half = (*cpu().dtypes, "float16")
    assert "float16" in throughput.measurable_dtypes(cpu(dtypes=half))
    assert "float16" not in throughput.measurable_dtypes(cpu(dtypes=half, backend="level_zero"))
