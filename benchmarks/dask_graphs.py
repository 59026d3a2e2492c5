# SPDX-License-Identifier: Apache-2.0
"""Dask collections computed by this package's scheduler and by Dask's threads, alternating.

    python benchmarks/dask_graphs.py [--tasks 500] [--runs 15]

*small tasks* are functions that do nothing, in one sum; *tasks of 2 ms* compute a digest without the GIL; *array*
is the sum of a product of matrices in blocks. Both times include building Dask's graph. Milliseconds a computation,
medians with the quarter points, and the ratio of medians.
"""

from __future__ import annotations

import hashlib
import statistics
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from common import alternating, format_quartiles, parser

import syclsched


def nothing(x: int) -> int:
    """Return a number unchanged."""
    return x


def digest(data: bytes) -> int:
    """Compute for some two milliseconds."""
    return len(hashlib.sha256(data).digest())


def collections(tasks: int) -> dict[str, Callable[[], Any]]:
    """Return functions that make collections."""
    data = b"0" * (1 << 19)
    made: dict[str, Callable[[], Any]] = {
        "small tasks": lambda: dask.delayed(sum)([dask.delayed(nothing)(n) for n in range(tasks)]),
        "tasks of 2 ms": lambda: dask.delayed(sum)([dask.delayed(digest)(data) for _ in range(tasks // 10)]),
    }
    try:
        import dask.array
    except ImportError:
        return made
    values = np.random.default_rng(0).normal(size=(1500, 1500))

    def product() -> Any:
        x = dask.array.from_array(values, chunks=300)
        return (x @ x.T).sum()

    return {**made, "array": product}


def main() -> None:
    """Print the times of each collection."""
    asked = parser(__doc__, tasks=500, runs=15).parse_args()
    ours = syclsched.dask_scheduler()
    for name, make in collections(asked.tasks).items():
        calls = {
            "ours": partial(lambda make: make().compute(scheduler=ours), make),
            "Dask's threads": partial(lambda make: make().compute(scheduler="threads"), make),
        }
        times = {each: [1e3 * one for one in found] for each, found in alternating(calls, asked.runs, 3).items()}
        ratio = statistics.median(times["ours"]) / statistics.median(times["Dask's threads"])
        said = (f"{each} {format_quartiles(found, 1)}" for each, found in times.items())
        print(f"{name}: {', '.join(said)} ms, ratio {ratio:.2f}")


if __name__ == "__main__":
    main()
