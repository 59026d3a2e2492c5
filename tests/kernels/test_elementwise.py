# SPDX-License-Identifier: Apache-2.0
"""Element-wise operations on lines and planes, for every element type, compared with NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.examples import examples

import syclsched
from syclsched import kernels
from syclsched.model.graph import TaskGraph

pytestmark = pytest.mark.sycl

DTYPES = kernels.get("copy").parameters[0].dtypes
NUMBERS = kernels.get("scale").parameters[0].dtypes
SHAPES = [(1001,), (7, 33), (), (2, 3, 4), (0, 3)]
NAMES = [each.name for each in kernels.get("axpy").implementations]


def numbers(seed: int, shape: tuple[int, ...], dtype: str) -> Any:
    low, high = (0, 2) if dtype == "bool" else (0, 20) if dtype.startswith("u") else (-20, 20)
    random = np.random.default_rng(seed)
    made = random.integers(low, high, shape).astype(dtype)
    return made + np.asarray(1j * random.integers(low, high, shape), dtype) if dtype.startswith("complex") else made


def same(got: Any, wanted: Any) -> None:
    assert got.dtype == wanted.dtype
    assert got.shape == wanted.shape
    assert (got == wanted).all()


@pytest.mark.parametrize("dtype", NUMBERS)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", NAMES)
def test_axpy_and_scale(run: Any, name: str, shape: tuple[int, ...], dtype: str) -> None:
    y, x = numbers(1, shape, dtype), numbers(2, shape, dtype)
    three, two = np.asarray(3, dtype), np.asarray(2, dtype)
    same(run(kernels.get("axpy"), name, {"y": y, "x": x}, alpha=3)["y"], y + three * x)
    same(run(kernels.get("scale"), name, {"x": x}, alpha=2)["x"], two * x)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", NAMES)
def test_add_fill_and_copy(run: Any, name: str, shape: tuple[int, ...], dtype: str) -> None:
    old, x, y = numbers(0, shape, dtype), numbers(1, shape, dtype), numbers(2, shape, dtype)
    same(run(kernels.get("add"), name, {"z": old, "x": x, "y": y})["z"], x + y)
    value = 1 if dtype == "bool" else 9
    same(run(kernels.get("fill"), name, {"x": old}, value=value)["x"], np.full_like(x, value))
    same(run(kernels.get("copy"), name, {"y": old, "x": x})["y"], x)


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint64", "float16", "complex64", "complex128"])
def test_opencl_c_of_element_types_that_need_code_of_their_own(run: Any, queue: Any, dtype: str) -> None:
    if dtype == "float16" and not queue.sycl_device.has_aspect_fp16:
        pytest.skip("this device has no fp16")
    shape, name = (19,), "opencl-c"  # the selected cases need not have these together
    old, x, y = numbers(0, shape, dtype), numbers(1, shape, dtype), numbers(2, shape, dtype)
    same(run(kernels.get("add"), name, {"z": old, "x": x, "y": y})["z"], x + y)
    same(run(kernels.get("copy"), name, {"y": old, "x": x})["y"], x)
    same(run(kernels.get("fill"), name, {"x": old}, value=1)["x"], np.ones(shape, dtype))
    if dtype in NUMBERS:
        same(run(kernels.get("scale"), name, {"x": x}, alpha=3)["x"], np.asarray(3, dtype) * x)
        same(run(kernels.get("axpy"), name, {"y": y, "x": x}, alpha=3)["y"], y + np.asarray(3, dtype) * x)


def test_arrays_of_every_element_type_in_one_graph() -> None:
    graph = TaskGraph("all types")
    wanted = {}
    for dtype in DTYPES:
        for shape in ((), (5,)):
            x = numbers(3, shape, dtype)
            name = f"{dtype} {len(shape)}"
            array, copied = graph.array(name, data=x), graph.array(f"copy of {name}", shape, dtype)
            graph.kernel(kernels.get("copy"), y=copied, x=array)
            if dtype in NUMBERS:
                graph.kernel(kernels.get("scale"), x=copied, alpha=2)
            wanted[copied.name] = x * np.asarray(2, dtype) if dtype in NUMBERS else x
    with syclsched.run(graph) as run:
        for name, value in wanted.items():
            same(run.result(name), value)


@pytest.mark.parametrize("rewrite", ["coarsen", "split", "both"])
def test_an_array_without_dimensions_is_not_split(rewrite: str) -> None:
    graph = TaskGraph("a number")
    x = graph.array("x", data=np.array(3.0))
    for _ in range(2):
        graph.kernel(kernels.get("scale"), x=x, alpha=2.0)
    with syclsched.run(graph, rewrite=rewrite) as run:
        assert run.result(x) == 12.0


@settings(max_examples=examples(8), suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(length=st.integers(1, 300), alpha=st.floats(-1e3, 1e3, width=32), seed=st.integers(0, 9))
def test_axpy_of_any_length_is_the_same_in_every_implementation(run: Any, length: int, alpha: float, seed: int) -> None:
    random = np.random.default_rng(seed)
    y, x = random.standard_normal(length), random.standard_normal(length)
    for name in NAMES:
        got = run(kernels.get("axpy"), name, {"y": y, "x": x}, alpha=alpha)["y"]
        np.testing.assert_allclose(got, y + alpha * x, rtol=1e-14, atol=1e-12)
