# SPDX-License-Identifier: Apache-2.0
"""2-D heat equation with explicit time steps on blocks: many small tasks that depend on their neighbours.

u_new = u + r (u_north + u_south + u_west + u_east - 4 u) with r = alpha dt / h^2, zero outside the domain. Blocks are
double-buffered: even steps read ``u0[i,j]`` and write ``u1[i,j]``, odd steps the other way round.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from syclsched import kernels
from syclsched.errors import ArgumentError, FormatError
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

NAME = "stencil"

#: Upper bound on the rounding errors per element and step: eight operations on values of at most the initial maximum.
TOLERANCE = 16.0


@dataclass(frozen=True, slots=True)
class StencilOptions:
    """Options of the stencil workload."""

    n: int = field(default=1024, metadata={"help": "Rows and columns of the grid; with an input, taken from it."})
    tile: int = field(default=256, metadata={"help": "Rows and columns of a block; the last ones may be smaller."})
    steps: int = field(default=20, metadata={"help": "Time steps."})
    coefficient: float = field(default=0.2, metadata={"help": "r = alpha dt / h^2; the scheme is stable up to 0.25."})
    dtype: str = field(default="float32", metadata={"help": "float32 or float64; with an input, taken from it."})
    seed: int = field(default=0, metadata={"help": "Seed of the random initial temperature."})
    input: Path | None = field(
        default=None, metadata={"help": "A .npy file with the initial temperature, rows x columns."}
    )


def build(options: StencilOptions | None = None) -> Workload:
    """Build the workload."""
    options = options or StencilOptions()
    size, steps = require_count(options.tile, "tile", NAME), require_count(options.steps, "steps", NAME)
    r = options.coefficient
    if not isinstance(r, (int, float)) or not 0 < r <= 0.25:
        raise ArgumentError(
            f"must be above 0 and at most 0.25, where the scheme is stable, not {r!r}", where=f"{NAME}: coefficient"
        )
    grid = _grid(options)
    rows, columns = blocks(grid.shape[0], size), blocks(grid.shape[1], size)
    limit_tasks(steps * len(rows) * len(columns), NAME, "Take a larger tile or fewer steps")
    graph = TaskGraph(NAME)
    now = _declare(graph, grid, rows, columns, "u0", with_data=True)
    new = _declare(graph, grid, rows, columns, "u1", with_data=False)
    boundaries = _boundaries(graph, now)
    for step in range(steps):
        for i, j in now:
            center = now[i, j]
            arguments: dict[str, Any] = {
                "out": new[i, j],
                "center": center,
                "coefficient": float(r),
                "north": now.get((i - 1, j), boundaries[1, center.shape[1]]),
                "south": now.get((i + 1, j), boundaries[1, center.shape[1]]),
                "west": now.get((i, j - 1), boundaries[center.shape[0], 1]),
                "east": now.get((i, j + 1), boundaries[center.shape[0], 1]),
            }
            graph.kernel(kernels.get("heat_step"), name=f"heat({step},{i},{j})", **arguments)
        now, new = new, now
    results = tuple(block.name for block in now.values())
    return Workload(NAME, graph, results, partial(_check, grid, float(r), steps, rows, columns))


def _grid(options: StencilOptions) -> Array:
    if options.input is None:
        n, dtype = require_count(options.n, "n", NAME), require_dtype(options.dtype, NAME)
        return allocate(lambda: np.random.default_rng(options.seed).random((n, n)).astype(dtype), NAME)
    grid = read_npy(options.input)
    if grid.ndim != 2 or grid.size == 0:
        raise FormatError(f"expected a grid of rows and columns, found shape {grid.shape}", where=str(options.input))
    return grid


def _declare(
    graph: TaskGraph,
    grid: Array,
    rows: tuple[slice, ...],
    columns: tuple[slice, ...],
    name: str,
    *,
    with_data: bool,
) -> dict[tuple[int, int], LogicalArray]:
    found = {}
    for i, down in enumerate(rows):
        for j, across in enumerate(columns):
            block = grid[down, across]
            data = np.ascontiguousarray(block) if with_data else None
            found[i, j] = graph.array(f"{name}[{i},{j}]", block.shape, block.dtype, data=data)
    return found


def _boundaries(graph: TaskGraph, parts: dict[tuple[int, int], LogicalArray]) -> dict[tuple[int, int], LogicalArray]:
    """Declare shared boundary arrays: a row and a column of zeros for every block size."""
    boundaries: dict[tuple[int, int], LogicalArray] = {}
    for block in parts.values():
        for shape in ((1, block.shape[1]), (block.shape[0], 1)):
            if shape not in boundaries:
                name = f"wall[{shape[0]}x{shape[1]}]"
                boundaries[shape] = graph.array(name, data=np.zeros(shape, block.dtype))
    return boundaries


def reference(grid: Array, coefficient: float, steps: int) -> Array:
    """Return the grid after a number of steps, computed by NumPy in float64."""
    r = float(grid.dtype.type(coefficient))
    u = np.pad(grid.astype("float64"), 1)
    for _ in range(steps):
        inner = u[1:-1, 1:-1]
        u[1:-1, 1:-1] = inner + r * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4 * inner)
    return u[1:-1, 1:-1]


def _check(
    grid: Array,
    coefficient: float,
    steps: int,
    rows: tuple[slice, ...],
    columns: tuple[slice, ...],
    arrays: Arrays | dict[str, Any],
) -> CheckResult:
    got = np.empty(grid.shape)
    for i, down in enumerate(rows):
        for j, across in enumerate(columns):
            name = f"u{steps % 2}[{i},{j}]"
            got[down, across] = require_array(arrays, name, grid[down, across].shape, grid.dtype)
    error = float(np.abs(got - reference(grid, coefficient, steps)).max())
    scale = steps * float(np.finfo(grid.dtype).eps) * float(np.abs(grid).max())
    residual = error / scale if scale > 0 else (0.0 if error == 0 else float("inf"))
    return check_residual(residual, TOLERANCE, "largest |u - u_NumPy| / (steps eps max|u|)")


KIND = WorkloadKind(NAME, "2-D heat equation: many small dependent tasks.", StencilOptions, build)
