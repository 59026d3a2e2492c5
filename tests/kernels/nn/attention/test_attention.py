# SPDX-License-Identifier: Apache-2.0
"""Attention over caches, every implementation, compared with formulas in double precision."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.operations import close, numbers, on_host, unwritten

from syclsched.errors import ArgumentError
from syclsched.kernels import nn
from syclsched.model.graph import TaskGraph

DEVICES = ["opencl-c", "python"]


def attended(q: Any, key: Any, value: Any, starts: Any, scale: float, softcap: float, window: int) -> Any:
    """Return attention by its definition."""
    batch, heads, count, _ = q.shape
    y = np.zeros((*q.shape[:3], value.shape[3]))
    for b, h, i in np.ndindex(batch, heads, count):
        group, place = h * key.shape[1] // heads, starts[b] + i
        seen = [j for j in range(key.shape[2]) if j <= place and (window < 0 or j > place - window)]
        if seen:
            scores = key[b, group, seen].astype(float) @ q[b, h, i].astype(float) * scale
            scores = np.tanh(scores / softcap) * softcap if softcap else scores
            weights = np.exp(scores - scores.max())
            y[b, h, i] = weights / weights.sum() @ value[b, group, seen].astype(float)
    return y


@pytest.mark.sycl
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    ("heads", "groups", "count", "size", "made", "softcap", "window"),
    [(4, 2, 1, 16, 16, 0.0, -1), (2, 2, 5, 64, 64, 2.0, -1), (3, 1, 3, 12, 20, 0.0, 4), (2, 1, 2, 7, 9, 0.0, 0)],
)
def test_attention(
    run: Any, dtype: str, heads: int, groups: int, count: int, size: int, made: int, softcap: float, window: int
) -> None:
    operation = nn.attention(0.25, softcap, window)
    for starts in ([0, 13], [20, 7], [-3, 40]):
        arrays = {
            "y": unwritten((2, heads, count, made), dtype),
            "q": numbers(2, heads, count, size, dtype=dtype),
            "key": numbers(2, groups, 24, size, dtype=dtype),
            "value": numbers(2, groups, 24, made, dtype=dtype),
            "starts": np.array(starts, "int32" if count == 1 else "int64"),
        }
        want = attended(arrays["q"], arrays["key"], arrays["value"], starts, 0.25, softcap, window)
        close(on_host(operation, arrays), want, dtype, 24)
        close(run(operation, "opencl-c", arrays)["y"], want, dtype, 24)


@pytest.mark.sycl
@pytest.mark.parametrize("name", DEVICES)
@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("pairs", [4, 2])
def test_rotary(run: Any, name: str, interleaved: bool, pairs: int) -> None:
    for batch in (1, 2):
        arrays = {
            "y": unwritten((2, 3, 4, 8), "float32"),
            "x": numbers(2, 3, 4, 8),
            "cosines": numbers(9, pairs),
            "sines": numbers(9, pairs),
            "positions": np.array([[0, 8, 3, 99], [-1, 4, 4, 7]][:batch]),
        }
        at = np.clip(arrays["positions"], 0, 8)
        turn = arrays["cosines"][at] + 1j * arrays["sines"][at]
        x, want = arrays["x"], arrays["x"].copy()
        parts = (slice(0, 2 * pairs, 2), slice(1, 2 * pairs, 2))
        parts = parts if interleaved else (slice(0, pairs), slice(pairs, 2 * pairs))
        turned = (x[..., parts[0]] + 1j * x[..., parts[1]]) * turn[:, None]
        want[..., parts[0]], want[..., parts[1]] = turned.real, turned.imag
        operation = nn.rotary(interleaved)
        close(on_host(operation, arrays), want, "float32", 4)
        close(run(operation, name, arrays)["y"], want, "float32", 4)
        arrays["x"] = numbers(2, 4, 31, seed=1)
        arrays["x"][..., 5:29] = x.swapaxes(1, 2).reshape(2, 4, 24)
        operation = nn.rotary(interleaved, (5, 3, 8))
        close(on_host(operation, arrays), want, "float32", 4)
        close(run(operation, name, arrays)["y"], want, "float32", 4)


@pytest.mark.sycl
@pytest.mark.parametrize("name", DEVICES)
@pytest.mark.parametrize("circular", [False, True])
def test_rows_are_written_into_a_cache(run: Any, name: str, circular: bool) -> None:
    arrays = {"y": numbers(2, 3, 5, 4), "rows": numbers(2, 3, 3, 4), "starts": np.array([1, 3], "int32")}
    want = arrays["y"].copy()
    want[0, :, 1:4] = arrays["rows"][0]
    want[1, :, 3:5] = arrays["rows"][1, :, :2]
    if circular:
        want[1, :, 0] = arrays["rows"][1, :, 2]
    operation = nn.cache_write(circular)
    assert np.array_equal(on_host(operation, arrays), want)
    assert np.array_equal(run(operation, name, arrays)["y"], want)
    packed = numbers(2, 3, 17, seed=1)
    packed[..., 4:16] = arrays["rows"].swapaxes(1, 2).reshape(2, 3, 12)
    operation_of_columns = nn.cache_write(circular, 4)
    assert np.array_equal(on_host(operation_of_columns, arrays | {"rows": packed}), want)
    assert np.array_equal(run(operation_of_columns, name, arrays | {"rows": packed})["y"], want)
    arrays["starts"] = np.array([-1, -7], "int32")
    assert np.array_equal(run(operation, name, arrays)["y"], on_host(operation, arrays))


def test_more_rows_than_a_circular_cache_has_are_refused() -> None:
    graph = TaskGraph()
    y, rows = graph.array("y", (1, 2, 3, 4), "float32"), graph.array("rows", (1, 2, 5, 4), "float32")
    starts = graph.array("starts", (1,), "int64")
    with pytest.raises(ArgumentError, match="5 rows are more than the 3 places"):
        graph.kernel(nn.cache_write(True), y=y, rows=rows, starts=starts)


def test_wrong_shapes_are_refused() -> None:
    shapes = {"y": (1, 2, 1, 4), "q": (1, 2, 1, 4), "key": (1, 3, 8, 4), "value": (1, 3, 8, 4), "starts": (1,)}
    graph = TaskGraph()
    arrays = {n: graph.array(n, shape, "int64" if n == "starts" else "float32") for n, shape in shapes.items()}
    with pytest.raises(ArgumentError, match="do not fit q"):
        graph.kernel(nn.attention(1.0), **arrays)
