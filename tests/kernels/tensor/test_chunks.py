# SPDX-License-Identifier: Apache-2.0
"""Operations that can be divided along axis 0: chunks have the results of the whole, broadcast operands stay whole."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.repeatable import generator
from support.trying_tensors import on_host, signature_of

from syclsched.kernels.tensor.concat import concat
from syclsched.kernels.tensor.elementwise import elementwise
from syclsched.kernels.tensor.gather import gather, gather_elements
from syclsched.kernels.tensor.pad import pad
from syclsched.kernels.tensor.reductions.arg import arg
from syclsched.kernels.tensor.reductions.reduce import reduce
from syclsched.kernels.tensor.reductions.scan import scan_sum
from syclsched.kernels.tensor.reductions.topk import topk
from syclsched.kernels.tensor.strided_slice import slice_of
from syclsched.kernels.tensor.transpose import transpose
from syclsched.model.operation import Operation

RANDOM = generator(0)
X = RANDOM.integers(-9, 9, (6, 6, 5)).astype("float32")
SQUARE = np.ascontiguousarray(X[:, :, 0])


def like(*shape: int, dtype: str = "float32") -> np.ndarray:
    return np.zeros(shape, dtype)


ADD = elementwise(("add", 0, 1), 2)
CASES: list[tuple[Operation, dict[str, Any], set[str]]] = [
    (ADD, {"y": like(6, 6, 5), "x0": X, "x1": X}, {"y", "x0", "x1"}),
    (ADD, {"y": like(6, 6), "x0": SQUARE, "x1": np.arange(6, dtype="float32")}, {"y", "x0"}),
    (ADD, {"y": like(6, 6), "x0": SQUARE[:1], "x1": SQUARE[:, :1].copy()}, {"y", "x1"}),
    (reduce("sum", (1,)), {"y": like(6, 5), "x": X}, {"y", "x"}),
    (arg("max", 2), {"y": like(6, 6, dtype="int64"), "x": X}, {"y", "x"}),
    (
        topk(2, 1),
        {"values": like(6, 2, 5), "indices": like(6, 2, 5, dtype="int64"), "x": X},
        {"values", "indices", "x"},
    ),
    (scan_sum(1), {"y": like(6, 6, 5), "x": X}, {"y", "x"}),
    (transpose((0, 2, 1)), {"y": like(6, 5, 6), "x": X}, {"y", "x"}),
    (concat(2, 2), {"y": like(6, 6, 10), "x0": X, "x1": X}, {"y", "x0", "x1"}),
    (slice_of((0, 1, 4), (1, 2, -1)), {"y": like(6, 2, 5), "x": X}, {"y", "x"}),
    (pad((0, 1, 1, 0, 0, 1), "reflect"), {"y": like(6, 7, 7), "x": X}, {"y", "x"}),
    (gather(0), {"y": like(6, 6, 5), "x": X, "indices": RANDOM.integers(0, 6, 6)}, {"y", "indices"}),
    (gather(1), {"y": like(6, 2, 5), "x": X, "indices": np.array([3, -1])}, {"y", "x"}),
    (
        gather_elements(1),
        {"y": like(6, 6, 5), "x": X, "indices": RANDOM.integers(0, 6, X.shape)},
        {"y", "x", "indices"},
    ),
]


@pytest.mark.parametrize(("operation", "arrays", "cut"), CASES, ids=lambda each: getattr(each, "name", ""))
def test_chunks_have_the_results_of_the_whole(operation: Operation, arrays: dict[str, Any], cut: set[str]) -> None:
    assert operation.split is not None
    assert set(operation.split.cut(signature_of(arrays))) == cut
    whole = on_host(operation, **arrays)
    parts = [
        on_host(operation, **{name: each[start:stop] if name in cut else each for name, each in arrays.items()})
        for start, stop in ((0, 4), (4, 6))
    ]
    for parameter in operation.arrays:
        if parameter.mode is not None and parameter.mode.writes:
            name = parameter.name
            np.testing.assert_array_equal(np.concatenate([part[name] for part in parts]), whole[name])


def test_operations_that_depend_on_all_rows_are_not_cut() -> None:
    lower = elementwise(("where", ("less", ("index", -1), ("index", -2)), 0, ("const", 0)), 1)
    for operation in (lower, reduce("sum", (0, 1)), transpose((1, 0)), concat(0, 2), scan_sum(0), arg("max", 0)):
        assert operation.split is None, operation.name
