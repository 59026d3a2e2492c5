# SPDX-License-Identifier: Apache-2.0
"""Softmax and normalisations of work-groups, with the limits of GPUs, compared with the host's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.examples import examples
from support.grouped import GPUS
from support.operations import NO_SHRINKING, UNCHECKED, close, numbers, on_host, unwritten

from syclsched.kernels import groups, nn
from syclsched.model.operation import Operation

#: Lengths below a work-item's share, odd, longer than a group, and longer than registers hold.
EXTENTS = st.sampled_from([1, 2, 3, 5, 16, 33, 70, 256, 777])
DTYPES = st.sampled_from(["float32", "float64", "float16"])
Case = tuple[Operation, dict[str, np.ndarray], str]


@st.composite
def shapes(draw: st.DrawFn, least: int = 1) -> tuple[int, ...]:
    """Draw a shape with a limited number of elements."""
    return draw(st.lists(EXTENTS, min_size=least, max_size=4).map(tuple).filter(lambda shape: np.prod(shape) <= 40_000))


@st.composite
def softmaxes(draw: st.DrawFn) -> Case:
    """A softmax or its logarithm along any axis."""
    shape, dtype, log = draw(shapes()), draw(DTYPES), draw(st.booleans())
    arrays = {"y": unwritten(shape, dtype), "x": numbers(*shape, dtype=dtype) * 9 + 80}
    return nn.softmax_over(draw(st.integers(-len(shape), len(shape) - 1)), log), arrays, dtype


@st.composite
def layers(draw: st.DrawFn) -> Case:
    """A layer normalisation."""
    shape, dtype, bias = draw(shapes()), draw(DTYPES), draw(st.booleans())
    axis = draw(st.integers(-len(shape), len(shape) - 1))
    arrays = {"y": unwritten(shape, dtype), "x": numbers(*shape, dtype=dtype) * 3 + 5}
    arrays["scale"] = numbers(*shape[axis:], dtype=dtype, seed=1)
    if bias:
        arrays["b"] = numbers(*shape[axis:], dtype=dtype, seed=2)
    return nn.layer_norm(axis, 0.01, bias, draw(st.booleans())), arrays, dtype


@st.composite
def groupings(draw: st.DrawFn) -> Case:
    """A group or instance normalisation in either layout."""
    shape, dtype, last = draw(shapes(2)), draw(DTYPES), draw(st.booleans())
    count = shape[-1 if last else 1]
    number = draw(st.sampled_from([n for n in range(1, count + 1) if count % n == 0]))
    activation = draw(st.sampled_from([(), (("relu",),), (("gelu",), ("scale", 0.5))]))
    arrays = {"y": unwritten(shape, dtype), "x": numbers(*shape, dtype=dtype) * 2 - 7}
    arrays |= {name: numbers(count, dtype=dtype, seed=seed) for seed, name in enumerate(("scale", "bias"), 1)}
    return nn.group_norm(number, 0.01, last, activation), arrays, dtype


KINDS = {"softmax": softmaxes(), "layer": layers(), "group": groupings()}


@pytest.mark.sycl
@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
@settings(max_examples=examples(15), deadline=None, phases=NO_SHRINKING, suppress_health_check=UNCHECKED)
def test_work_groups_have_the_results_of_the_host(run: Any, queue: Any, kind: str, data: st.DataObject) -> None:
    operation, arrays, dtype = data.draw(KINDS[kind])
    if dtype == "float16" and not queue.sycl_device.has_aspect_fp16:
        return
    got = run(operation, groups.NAME, arrays, limits=data.draw(st.sampled_from(GPUS)))["y"]
    close(got, on_host(operation, arrays), dtype, 10)


@pytest.mark.sycl
@pytest.mark.parametrize("axis", [0, 1])
def test_softmax_of_masked_values_and_nan(run: Any, axis: int) -> None:
    x = numbers(300, 300) * 40
    x[0, 3:] = x[3:, 0] = -np.inf
    x[1, 7] = x[7, 1] = np.nan
    x[2] = x[:, 2] = -np.inf
    operation, arrays = nn.softmax_over(axis), {"y": unwritten(x.shape, "float32"), "x": x}
    for limits in GPUS[1:3]:
        close(run(operation, groups.NAME, arrays, limits=limits)["y"], on_host(operation, arrays), "float32", 10)


@pytest.mark.sycl
@pytest.mark.parametrize("axis", [0, 1])
def test_log_softmax_is_accurate_for_large_numbers(run: Any, axis: int) -> None:
    x = (numbers(70, 33) * 9 + 65_536).astype("float32")
    operation, arrays = nn.softmax_over(axis, True), {"y": unwritten(x.shape, "float32"), "x": x}
    wanted = on_host(operation, {name: each.astype("float64") for name, each in arrays.items()})
    for limits in GPUS:
        close(run(operation, groups.NAME, arrays, limits=limits)["y"], wanted, "float32")
