# SPDX-License-Identifier: Apache-2.0
"""The tiled Cholesky factorisation: its graph, its input files, and a check that detects errors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.sequential import run_on_host

from syclsched.errors import ArgumentError, FormatError, StorageError, SyclschedError
from syclsched.workloads.cholesky import CholeskyOptions, build, random_spd


def test_the_tasks_and_their_dependencies() -> None:
    graph = build(CholeskyOptions(n=12, tile=4)).graph
    assert [t.name for t in graph.tasks] == [
        "potrf(0)", "trsm(1,0)", "trsm(2,0)", "syrk(1,0)", "syrk(2,0)", "gemm(2,1,0)",
        "potrf(1)", "trsm(2,1)", "syrk(2,1)", "potrf(2)",
    ]  # fmt: skip
    flows = {(d.before, d.after) for d in graph.dependencies() if d.kind == "RAW"}
    assert flows == {
        ("potrf(0)", "trsm(1,0)"), ("potrf(0)", "trsm(2,0)"), ("trsm(1,0)", "syrk(1,0)"), ("trsm(2,0)", "syrk(2,0)"),
        ("trsm(1,0)", "gemm(2,1,0)"), ("trsm(2,0)", "gemm(2,1,0)"), ("syrk(1,0)", "potrf(1)"),
        ("gemm(2,1,0)", "trsm(2,1)"), ("potrf(1)", "trsm(2,1)"), ("trsm(2,1)", "syrk(2,1)"),
        ("syrk(2,0)", "syrk(2,1)"), ("syrk(2,1)", "potrf(2)"),
    }  # fmt: skip
    assert set(graph.arrays) == {f"A[{i},{j}]" for i in range(3) for j in range(i + 1)} | {
        f"status[{k}]" for k in range(3)
    }
    assert (
        graph.find_task("potrf(0)").priority
        > graph.find_task("trsm(1,0)").priority
        > graph.find_task("gemm(2,1,0)").priority
    )


@given(st.integers(1, 40), st.integers(1, 17), st.sampled_from(["float32", "float64"]), st.integers(0, 3))
def test_factorises_with_any_tile(n: int, tile: int, dtype: str, seed: int) -> None:
    workload = build(CholeskyOptions(n=n, tile=tile, dtype=dtype, seed=seed))
    values = run_on_host(workload.graph)
    result = workload.check({name: values[name] for name in workload.results})
    assert result.ok, result.text
    assert f"{result.residual:.3g}" in result.text
    exact = np.linalg.cholesky(random_spd(n, np.dtype(dtype), seed).astype("float64"))
    corner = values["A[0,0]"]
    assert np.allclose(np.tril(corner), exact[: len(corner), : len(corner)], rtol=1e-3)


@pytest.mark.parametrize("left_out", ["gemm(5,3,2)", "syrk(5,4)", "trsm(3,1)", "potrf(5)"])
def test_the_check_notices_a_task_left_out(left_out: str) -> None:
    workload = build(CholeskyOptions(n=192, tile=32, dtype="float32"))
    assert not workload.check(run_on_host(workload.graph, frozenset({left_out}))).ok


def test_the_check_notices_one_wrong_element_and_nan() -> None:
    workload = build(CholeskyOptions(n=64, tile=16, dtype="float64"))
    values = {name: np.array(v) for name, v in run_on_host(workload.graph).items()}
    values["A[3,1]"][5, 7] += 1e-9
    assert not workload.check(values).ok
    values["A[3,1]"][5, 7] = np.nan
    assert not workload.check(values).ok


def test_the_check_needs_all_tiles_as_declared() -> None:
    workload = build(CholeskyOptions(n=8, tile=4))
    values = dict(run_on_host(workload.graph))
    with pytest.raises(ArgumentError, match=r"A\[1,0\].*float64, not .*float32"):
        workload.check(values | {"A[1,0]": values["A[1,0]"].astype("float32")})
    del values["A[1,1]"]
    with pytest.raises(ArgumentError, match=r"A\[1,1\].*needs this array"):
        workload.check(values)


def test_a_matrix_that_is_not_positive_definite_fails_in_its_tile(tmp_path: Path) -> None:
    matrix = np.eye(12)
    matrix[9, 9] = -1
    np.save(tmp_path / "m.npy", matrix)
    graph = build(CholeskyOptions(tile=4, input=tmp_path / "m.npy")).graph
    with pytest.raises(SyclschedError, match="pivot 2 of the tile"):
        run_on_host(graph)
    before = run_on_host(graph, frozenset({"potrf(2)"}))  # every other task succeeds
    assert before["status[0]"] == before["status[1]"] == 0
    assert graph.find_task("potrf(2)").arguments == {"a": "A[2,2]", "status": "status[2]"}


def test_a_matrix_from_a_file_of_any_layout(tmp_path: Path) -> None:
    matrix = random_spd(20, np.dtype("float32"), 7)
    np.save(tmp_path / "m.npy", np.asfortranarray(matrix.astype(">f4")))
    workload = build(CholeskyOptions(n=999, tile=6, dtype="float64", input=tmp_path / "m.npy"))
    assert {a.dtype for a in workload.graph.arrays.values()} == {"float32", "int32"}
    assert all(v.dtype.isnative and v.flags.c_contiguous for v in workload.graph.data.values())
    assert workload.check(run_on_host(workload.graph)).ok


def asymmetric() -> Any:
    matrix = np.eye(4)
    matrix[3, 1] = 0.5
    return matrix


def with_nan() -> Any:
    matrix = np.eye(4)
    matrix[2, 0] = np.nan
    return matrix


@pytest.mark.parametrize(
    ("matrix", "said"),
    [
        (np.ones((3, 4)), r"square matrix, found shape \(3, 4\)"),
        (np.ones(4), "square matrix"),
        (np.ones((0, 0)), "square matrix"),
        (np.eye(3, dtype="int64"), "float32 or float64 numbers, found int64"),
        (np.eye(3, dtype="complex128"), "found complex128"),
        (np.eye(3, dtype="float16"), "found float16"),
        (asymmetric(), r"not symmetric: element \[1, 3\] is 0, \[3, 1\] is 0.5"),
        (with_nan(), r"element \[2, 0\] is nan"),
        (np.full((2, 2), np.inf), "not a finite number"),
    ],
)
def test_a_file_with_another_matrix_is_refused(tmp_path: Path, matrix: Any, said: str) -> None:
    np.save(tmp_path / "m.npy", matrix)
    with pytest.raises(FormatError, match=said) as caught:
        build(CholeskyOptions(input=tmp_path / "m.npy"))
    assert str(tmp_path / "m.npy") in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"n": 0}, "n: must be a positive whole number, not 0"),
        ({"tile": -3}, "tile: must be a positive"),
        ({"n": True}, "n: must be a positive"),
        ({"dtype": "float16"}, "dtype: must be float32 or float64"),
        ({"n": 2048, "tile": 1}, "tasks, more than 1,000,000"),
        ({"n": 1 << 40}, "does not fit"),
    ],
)
def test_bad_options_are_refused_by_name(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ArgumentError, match=said):
        build(CholeskyOptions(**changes))


def test_a_missing_file_is_reported() -> None:
    with pytest.raises(StorageError, match=r"nowhere\.npy: cannot read the file: No such file"):
        build(CholeskyOptions(input=Path("nowhere.npy")))


def test_the_same_seed_gives_the_same_matrix() -> None:
    first, second, other = (random_spd(9, np.dtype("float64"), s) for s in (1, 1, 2))
    assert (first == second).all()
    assert (first != other).any()
    assert (first == first.T).all()
