# SPDX-License-Identifier: Apache-2.0
"""Graphs of functions for clusters, for all libraries that compute values from values; NumPy and SciPy only.

A case is a program: it takes a function that schedules a call of another one, and the inputs. ``cluster.py`` has the
same graphs for syclsched, whose functions write into arrays, and ``cluster_ray.py`` computes them with Ray.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import cholesky as factor
from scipy.linalg import solve_triangular

#: Length of a small task, and number of all of them.
SPIN_S = 1e-4
TASKS = 2000

#: Schedules a call: ``later(function, *values)``; with ``outputs=3`` it returns three values.
Later = Callable[..., Any]


@dataclass(frozen=True)
class GraphCase:
    """A graph: its inputs, its program, and a check of its results, which come in the program's order."""

    inputs: Mapping[str, Any]
    program: Callable[[Later, Mapping[str, Any]], list[Any]]
    check: Callable[[list[Any]], bool]


def spin() -> None:
    """Compute for the length of a small task."""
    end = time.perf_counter() + SPIN_S
    while time.perf_counter() < end:
        pass


def spun(x: Any) -> Any:
    spin()
    return x + 1.0


def small(workers: int) -> GraphCase:
    """Return chains of small tasks, one for each worker."""

    def program(later: Later, inputs: Mapping[str, Any]) -> list[Any]:
        values = list(inputs.values())
        for _ in range(TASKS // workers):
            values = [later(spun, value) for value in values]
        return values

    made = {f"x{chain}": np.zeros(1) for chain in range(workers)}
    return GraphCase(made, program, lambda found: all(each[0] == TASKS // workers for each in found))


def potrf(a: Any) -> Any:
    return factor(a, lower=True, check_finite=False)


def trsm(b: Any, a: Any) -> Any:
    return solve_triangular(a, b.T, lower=True, check_finite=False).T


def updated(c: Any, a: Any, b: Any) -> Any:
    return c - a @ b.T


def cholesky(n: int, tile: int) -> GraphCase:
    """Return a tiled factorisation of a matrix; its inputs are the tiles ``i.j`` of the lower half, by rows."""
    rng, count = np.random.default_rng(0), n // tile
    root = rng.standard_normal((n, n))
    matrix = root @ root.T + n * np.eye(n)
    places = [(i, j) for i in range(count) for j in range(i + 1)]
    rows = [slice(i * tile, (i + 1) * tile) for i in range(count)]

    def program(later: Later, inputs: Mapping[str, Any]) -> list[Any]:
        t = {(i, j): inputs[f"{i}.{j}"] for i, j in places}
        for k in range(count):
            t[k, k] = later(potrf, t[k, k])
            for i in range(k + 1, count):
                t[i, k] = later(trsm, t[i, k], t[k, k])
            for i in range(k + 1, count):
                for j in range(k + 1, i + 1):
                    t[i, j] = later(updated, t[i, j], t[i, k], t[j, k])
        return list(t.values())

    def check(found: list[Any]) -> bool:
        low = np.zeros((n, n))
        for (i, j), value in zip(places, found, strict=True):
            low[rows[i], rows[j]] = np.tril(value) if i == j else value
        return bool(np.allclose(low @ low.T, matrix))

    return GraphCase({f"{i}.{j}": np.ascontiguousarray(matrix[rows[i], rows[j]]) for i, j in places}, program, check)


def swept(block: Any, above: Any, below: Any) -> tuple[Any, Any, Any]:
    """Return a block after one Jacobi sweep, its first row and its last; edges of the grid stay as they are."""
    new = np.empty_like(block)
    sweep_into(new, block, above, below)
    return new, new[0].copy(), new[-1].copy()


def sweep_into(new: Any, block: Any, above: Any, below: Any) -> None:
    """Write a block after one Jacobi sweep."""
    padded = np.concatenate((above[None], block, below[None]))
    new[...] = block
    new[:, 1:-1] = padded[:-2, 1:-1]
    new[:, 1:-1] += padded[2:, 1:-1]
    new[:, 1:-1] += block[:, :-2]
    new[:, 1:-1] += block[:, 2:]
    new[:, 1:-1] *= 0.25


def jacobi(n: int, blocks: int, sweeps: int) -> GraphCase:
    """Return Jacobi sweeps over a grid in blocks of rows, which exchange their outer rows after each sweep."""
    rows = n // blocks
    grid = np.random.default_rng(1).standard_normal((n, n))
    edge = np.zeros(n)
    made = {"edge": edge}
    for number in range(blocks):
        block = np.ascontiguousarray(grid[number * rows : (number + 1) * rows])
        made |= {f"block{number}": block, f"first{number}": block[0].copy(), f"last{number}": block[-1].copy()}

    def program(later: Later, inputs: Mapping[str, Any]) -> list[Any]:
        kept, parts = inputs["edge"], [inputs[f"block{number}"] for number in range(blocks)]
        first, last = ([inputs[f"{end}{number}"] for number in range(blocks)] for end in ("first", "last"))
        for _ in range(sweeps):
            new = [
                later(
                    swept,
                    parts[number],
                    last[number - 1] if number else kept,
                    first[number + 1] if number + 1 < blocks else kept,
                    outputs=3,
                )
                for number in range(blocks)
            ]
            parts, first, last = (list(each) for each in zip(*new, strict=True))
        return parts

    def check(found: list[Any]) -> bool:
        now = grid
        for _ in range(sweeps):
            now = swept(now, edge, edge)[0]
        return bool(np.allclose(np.concatenate(found), now))

    return GraphCase(made, program, check)


def layer(x: Any, w: Any, b: Any) -> Any:
    return np.maximum(x @ w + b, 0.0)


def perceptron(batch: int, width: int, layers: int, parts: int) -> GraphCase:
    """Return the layers of a multilayer perceptron on a batch in parts, in single precision."""
    rng = np.random.default_rng(2)
    made = {f"w{n}": (rng.standard_normal((width, width)) / width**0.5).astype("f4") for n in range(layers)}
    made |= {f"b{n}": rng.standard_normal(width).astype("f4") for n in range(layers)}
    made |= {f"x{n}": rng.standard_normal((batch // parts, width)).astype("f4") for n in range(parts)}

    def program(later: Later, inputs: Mapping[str, Any]) -> list[Any]:
        values = [inputs[f"x{number}"] for number in range(parts)]
        for number in range(layers):
            values = [later(layer, value, inputs[f"w{number}"], inputs[f"b{number}"]) for value in values]
        return values

    def check(found: list[Any]) -> bool:
        return all(np.allclose(a, b, atol=1e-3) for a, b in zip(found, program(_now, made), strict=True))

    return GraphCase(made, program, check)


def _now(function: Callable[..., Any], *values: Any, outputs: int = 1) -> Any:
    return function(*values)


CASES: Mapping[str, Callable[..., GraphCase]] = {each.__name__: each for each in (small, cholesky, jacobi, perceptron)}
