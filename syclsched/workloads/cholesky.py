# SPDX-License-Identifier: Apache-2.0
"""Tiled right-looking Cholesky factorisation A = L L^T of the lower triangle.

Algorithm: Buttari, Langou, Kurzak, Dongarra, "A class of parallel tiled linear algebra algorithms for multicore
architectures", Parallel Computing 35 (2009). Every tile is one logical array ``A[i,j]``; for step k:

    potrf(k)       A[k,k] = cholesky(A[k,k])
    trsm(i,k)      A[i,k] = A[i,k] A[k,k]^-T            for i > k
    syrk(i,k)      A[i,i] -= A[i,k] A[i,k]^T            for i > k
    gemm(i,j,k)    A[i,j] -= A[i,k] A[j,k]^T            for i > j > k
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from syclsched import kernels
from syclsched.errors import FormatError
from syclsched.model.graph import TaskGraph
from syclsched.model.task import LogicalArray
from syclsched.workloads.base import (
    Array,
    Arrays,
    CheckResult,
    Workload,
    WorkloadKind,
    allocate,
    blocks,
    check_residual,
    limit_tasks,
    require_array,
    require_count,
    require_dtype,
)
from syclsched.workloads.numpy_files import read_npy

NAME = "cholesky"

#: Largest accepted error of an element of L L^T, in multiples of the expected rounding error.
TOLERANCE = 8.0

#: Columns of the random factor of a random matrix.
_RANK = 512
#: Rows and columns that are mirrored at a time.
_MIRRORED = 256


@dataclass(frozen=True, slots=True)
class CholeskyOptions:
    """Options of the Cholesky workload."""

    n: int = field(default=2048, metadata={"help": "Rows and columns of the matrix; with an input, taken from it."})
    tile: int = field(default=256, metadata={"help": "Rows and columns of a tile; the last ones may be smaller."})
    dtype: str = field(default="float64", metadata={"help": "float64 or float32; with an input, taken from it."})
    seed: int = field(default=0, metadata={"help": "Seed of the random matrix."})
    input: Path | None = field(
        default=None,
        metadata={"help": "A .npy file with a symmetric positive-definite matrix, instead of a random one."},
    )


def build(options: CholeskyOptions | None = None) -> Workload:
    """Build the workload."""
    options = options or CholeskyOptions()
    size = require_count(options.tile, "tile", NAME)
    matrix = _matrix(options)
    cuts = blocks(len(matrix), size)
    count = len(cuts)
    limit_tasks(count * (count + 1) * (count + 2) // 6, NAME, "Take a larger tile")
    graph = TaskGraph(NAME)
    tiles = {
        (i, j): graph.array(f"A[{i},{j}]", data=np.ascontiguousarray(matrix[cuts[i], cuts[j]]))
        for j in range(count)
        for i in range(j, count)
    }
    status = [graph.array(f"status[{k}]", (1,), "int32") for k in range(count)]
    for k in range(count):
        _step(graph, tiles, status[k], k, count)
    results = tuple(t.name for t in tiles.values())
    return Workload(NAME, graph, results, partial(_check, matrix, cuts))


def random_spd(n: int, dtype: np.dtype[Any], seed: int) -> Array:
    """Return a random symmetric positive-definite matrix.

    It is I + B B^T / r for a random n x r matrix B. Unlike in a diagonally dominant matrix, every tile then depends on
    the previous tiles by more than rounding errors.
    """
    rank = min(n, _RANK)
    factor = np.random.default_rng(seed).standard_normal((n, rank))
    matrix = factor @ factor.T
    matrix /= rank
    for start in range(0, n, _MIRRORED):  # symmetric to the last bit
        stop = start + _MIRRORED
        square = matrix[start:stop, start:stop]
        square[...] = np.tril(square) + np.tril(square, -1).T
        matrix[start:stop, stop:] = matrix[stop:, start:stop].T
    np.fill_diagonal(matrix, matrix.diagonal() + 1)
    return matrix.astype(dtype, copy=False)


def _matrix(options: CholeskyOptions) -> Array:
    if options.input is None:
        n = require_count(options.n, "n", NAME)
        dtype = require_dtype(options.dtype, NAME)
        return allocate(lambda: random_spd(n, dtype, options.seed), NAME)
    matrix, where = read_npy(options.input), str(options.input)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or matrix.size == 0:
        raise FormatError(f"expected a square matrix, found shape {matrix.shape}", where=where)
    difference = np.abs(matrix - matrix.T)
    # A product B B^T computed in floating point is symmetric up to rounding only.
    if difference.max() > 100 * np.finfo(matrix.dtype).eps * np.abs(matrix).max():
        i, j = (int(x) for x in np.unravel_index(int(difference.argmax()), difference.shape))
        raise FormatError(
            f"the matrix is not symmetric: element [{i}, {j}] is {matrix[i, j]:g}, [{j}, {i}] is {matrix[j, i]:g}",
            where=where,
            hint="A Cholesky factorisation needs a symmetric positive-definite matrix",
        )
    return matrix


def _step(
    graph: TaskGraph, tiles: dict[tuple[int, int], LogicalArray], status: LogicalArray, k: int, count: int
) -> None:
    """Add the tasks of step ``k``; tasks on the critical path get a higher priority."""
    potrf, trsm, syrk, gemm = (kernels.get(name) for name in ("potrf", "trsm", "syrk", "gemm"))
    graph.kernel(potrf, name=f"potrf({k})", a=tiles[k, k], status=status, priority=3)
    for i in range(k + 1, count):
        graph.kernel(trsm, name=f"trsm({i},{k})", a=tiles[i, k], l=tiles[k, k], priority=2)
    for i in range(k + 1, count):
        graph.kernel(syrk, name=f"syrk({i},{k})", c=tiles[i, i], a=tiles[i, k], priority=1)
        for j in range(k + 1, i):
            graph.kernel(
                gemm,
                name=f"gemm({i},{j},{k})",
                c=tiles[i, j],
                a=tiles[i, k],
                b=tiles[j, k],
                alpha=-1.0,
                beta=1.0,
                trans_b=1,
            )


def _check(matrix: Array, cuts: tuple[slice, ...], arrays: Arrays) -> CheckResult:
    n, dtype = len(matrix), matrix.dtype
    factor = np.zeros((n, n))
    for j, columns in enumerate(cuts):
        for i, rows in enumerate(cuts[j:], j):
            shape = (rows.stop - rows.start, columns.stop - columns.start)
            factor[rows, columns] = require_array(arrays, f"A[{i},{j}]", shape, dtype)
    factor = np.tril(factor)  # the upper triangle of a diagonal tile is undefined
    scale = np.sqrt(matrix.diagonal().astype("float64"))
    worst, error_sums, exact_sums = 0.0, np.zeros(n), np.zeros(n)
    # By tiles of the lower triangle, all that was given to the tasks: a sixth of the work of whole matrices.
    for j, columns in enumerate(cuts):
        for rows in cuts[j:]:
            exact = matrix[rows, columns].astype("float64")
            if rows == columns:
                exact = np.tril(exact) + np.tril(exact, -1).T
            product = factor[rows, : columns.stop] @ factor[columns, : columns.stop].T
            error = np.abs(exact - product)
            worst = float(np.maximum(worst, (error / np.outer(scale[rows], scale[columns])).max()))  # keeps a NaN
            for sums, values in ((error_sums, error), (exact_sums, np.abs(exact))):
                sums[columns] += values.sum(axis=0)
                if rows != columns:  # the same tile above the diagonal
                    sums[rows] += values.sum(axis=1)
    eps = float(np.finfo(dtype).eps)
    residual = worst / (np.sqrt(n) * eps)
    norm = float(error_sums.max() / (n * exact_sums.max() * eps))
    return check_residual(
        residual,
        TOLERANCE,
        f"||A - L L^T||_1 / (n ||A||_1 eps) = {norm:.3g}; largest |A - L L^T|_ij / (sqrt(a_ii a_jj n) eps)",
    )


KIND = WorkloadKind(
    NAME, "Tiled Cholesky factorisation of a symmetric positive-definite matrix.", CholeskyOptions, build
)
