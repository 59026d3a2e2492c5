# SPDX-License-Identifier: Apache-2.0
"""Copies of rows out of an array and into one, on every device and by the host; and divisible operations in chunks."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from syclsched.kernels import get, names
from syclsched.kernels.row_copies import TAKE_ROWS, put_rows
from syclsched.model.operation import Signature


@pytest.mark.sycl
@pytest.mark.parametrize("name", ["memcpy", "host"])
@pytest.mark.parametrize("shape", [(10,), (10, 3), (10, 2, 2)])
def test_rows_are_taken_and_put_back(run: Any, name: str, shape: tuple[int, ...]) -> None:
    whole = np.arange(np.prod(shape), dtype="float32").reshape(shape)
    parts = {}
    for index, (start, stop) in enumerate(pairwise((0, 4, 4, 9, 10))):
        empty = np.zeros((stop - start, *shape[1:]), "float32")
        parts[f"part{index}"] = (
            run(TAKE_ROWS, name, {"rows": empty, "whole": whole}, start=start)["rows"] if (stop > start) else empty
        )
        np.testing.assert_array_equal(parts[f"part{index}"], whole[start:stop])
    got = run(put_rows(4), name, {"whole": np.zeros_like(whole), **parts})
    np.testing.assert_array_equal(got["whole"], whole)


def test_rows_that_are_not_there_are_refused() -> None:
    def check(rows: tuple[int, ...], whole: tuple[int, ...], start: int) -> str | None:
        assert TAKE_ROWS.check is not None
        return TAKE_ROWS.check(Signature({"rows": rows, "whole": whole}, {}, {"start": start}))

    assert check((3, 2), (10, 2), 7) is None
    assert check((3, 2), (10, 2), 8) == "there are no rows of shape (3, 2) from row 8 of (10, 2)"
    assert check((3, 2), (10, 2), -1) is not None
    assert check((3, 2), (10, 3), 0) is not None


def test_parts_that_are_no_whole_are_refused() -> None:
    operation = put_rows(2)
    assert operation is put_rows(2)
    assert operation.check is not None
    assert operation.check(Signature({"whole": (5, 2), "part0": (2, 2), "part1": (3, 2)}, {})) is None
    assert "do not make up" in str(operation.check(Signature({"whole": (5, 2), "part0": (2, 2), "part1": (2, 2)}, {})))
    assert "are not rows of" in str(operation.check(Signature({"whole": (5, 2), "part0": (2, 2), "part1": (3,)}, {})))


def test_row_copies_count_the_bytes_of_the_rows_only() -> None:
    signature = Signature({"rows": (2, 3), "whole": (100, 3)}, {"rows": "float64", "whole": "float64"}, {"start": 0})
    assert TAKE_ROWS.work(signature).bytes == 2 * 2 * 3 * 8


SPLITTING = sorted(name for name in names() if get(name).split is not None)


def test_operations_that_can_be_cut_by_rows_are_listed() -> None:
    assert SPLITTING == ["add", "axpy", "copy", "dense", "fill", "gemm", "scale", "softmax"]


@pytest.mark.parametrize("name", SPLITTING)
def test_chunks_of_rows_have_the_results_of_the_whole(name: str) -> None:
    operation, rows, rng = get(name), 96, np.random.default_rng(3)
    split = operation.split
    assert split is not None
    shapes = {"w": (5, 5), "b": (5,)} if name == "dense" else {"b": (5, 5)} if name == "gemm" else {}
    arrays = {
        # Integers: sums of products are exact in any order.
        p.name: rng.integers(-9, 9, (rows, 5) if p.name in split.rows else shapes[p.name]).astype("float64")
        for p in operation.arrays
    }
    scalars: dict[str, Any] = {
        p.name: 1 if p.name == "activation" else 2.0 if p.default is None else p.default
        for p in operation.parameters
        if not p.is_array
    }
    host = next(i for i in operation.implementations if i.kind == "host")

    def do(some: dict[str, Any]) -> dict[str, Any]:
        made = {key: value.copy() for key, value in some.items()}
        dtypes = dict.fromkeys(made, "float64")
        host.load(Signature({key: value.shape for key, value in made.items()}, dtypes, scalars))(**made, **scalars)
        return made

    whole_signature = Signature({k: v.shape for k, v in arrays.items()}, dict.fromkeys(arrays, "float64"), scalars)
    grain = split.grain(whole_signature) if split.grain is not None else 1
    assert 1 <= grain <= rows // 2
    expected = do(arrays)
    chunks = [
        do({key: value[start:stop] if key in split.rows else value for key, value in arrays.items()})
        for start, stop in ((0, grain), (grain, rows))
    ]
    for p in operation.arrays:
        if p.mode is not None and p.mode.writes:
            np.testing.assert_array_equal(np.concatenate([c[p.name] for c in chunks]), expected[p.name])
