# SPDX-License-Identifier: Apache-2.0
"""Concatenation with scale and shift, compared with NumPy in double precision."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.examples import examples
from support.operations import NO_SHRINKING, UNCHECKED, close, implementations, numbers, on_host, unwritten

from syclsched.errors import ArgumentError
from syclsched.kernels import nn
from syclsched.model.operation import Operation, Signature

Case = tuple[Operation, dict[str, np.ndarray], np.ndarray, str]


@st.composite
def joins(draw: st.DrawFn) -> Case:
    """Draw a concatenation of some values."""
    dtype = draw(st.sampled_from(["float32", "float64"]))
    widths = draw(st.lists(st.sampled_from([0, 1, 3, 16, 32, 37, 70]), min_size=1, max_size=5))
    leading = draw(st.sampled_from([(1,), (7,), (2, 3), (1, 5, 9)]))
    parts = {f"x{i}": numbers(*leading, n, dtype=dtype, seed=i) for i, n in enumerate(widths)}
    scale, shift = (numbers(sum(widths), dtype=dtype, seed=seed) for seed in (91, 92))
    whole = np.concatenate(list(parts.values()), axis=-1).astype("float64")
    activation = draw(st.sampled_from([(), (("relu",),)]))
    wanted = whole * scale + shift
    wanted = np.maximum(wanted, 0) if activation else wanted
    arrays = {"y": unwritten(wanted.shape, dtype), **parts, "scale": scale, "shift": shift}
    return nn.join(len(widths), activation), arrays, wanted, dtype


@given(joins())
@settings(max_examples=examples(50), deadline=None)
def test_host_results_equal_numpy(case: Case) -> None:
    operation, arrays, wanted, dtype = case
    close(on_host(operation, arrays), wanted, dtype)


@pytest.mark.sycl
@pytest.mark.parametrize("name", implementations(nn.join(2)))
@given(data=st.data())
@settings(max_examples=examples(8), deadline=None, phases=NO_SHRINKING, suppress_health_check=UNCHECKED)
def test_device_results_equal_numpy(run: Any, name: str, data: st.DataObject) -> None:
    operation, arrays, wanted, dtype = data.draw(joins())
    close(run(operation, name, arrays)["y"], wanted, dtype)


@pytest.mark.sycl
@pytest.mark.parametrize("widths", [[8, *[32] * 13, 5], [64] * 20, [33] * 14])
def test_many_parts_of_one_width_are_put_together_by_a_loop(run: Any, widths: list[int]) -> None:
    parts = {f"x{i}": numbers(6, n, dtype="float32", seed=i) for i, n in enumerate(widths)}
    scale, shift = (numbers(sum(widths), dtype="float32", seed=seed) for seed in (91, 92))
    wanted = np.concatenate(list(parts.values()), axis=-1).astype("float64") * scale + shift
    arrays = {"y": unwritten(wanted.shape, "float32"), **parts, "scale": scale, "shift": shift}
    close(run(nn.join(len(widths)), "opencl-c", arrays)["y"], wanted, "float32")


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"x0": (3, 4)}, "not as y"),
        ({"x0": (2, 5)}, "together are not as long"),
        ({"scale": (9,)}, "one element for each channel"),
        ({"y": (7,), "x0": (4,), "x1": (3,)}, "two axes or more"),
    ],
)
def test_shapes_that_do_not_fit_are_refused(changed: dict[str, tuple[int, ...]], message: str) -> None:
    shapes = {"y": (2, 7), "x0": (2, 4), "x1": (2, 3), "scale": (7,), "shift": (7,)} | changed
    operation = nn.join(2)
    assert operation.check is not None
    wrong = operation.check(Signature(shapes, dict.fromkeys(shapes, "float32")))
    assert wrong is not None
    assert message in wrong


@pytest.mark.parametrize("count", [0, 65])
def test_as_many_parts_as_a_kernel_takes(count: int) -> None:
    with pytest.raises(ArgumentError, match="cannot be joined"):
        nn.join(count)
