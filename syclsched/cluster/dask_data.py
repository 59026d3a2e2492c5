# SPDX-License-Identifier: Apache-2.0
"""Dask's futures and arrays as inputs and results of runs; their data goes from worker to worker."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from syclsched.cluster.part_runner import give_input, take_result
from syclsched.execution.memory.buffers import NumpyArray
from syclsched.model.access import RowRange

if TYPE_CHECKING:
    from distributed import Client, Future

#: An address, the keys of a part and of a run, an array, and its rows there, if they are not all.
Place = tuple[str, str, str, str, "RowRange | None"]


def is_remote(value: Any) -> bool:
    """Return whether a value is one of Dask's, which may lie on a worker."""
    from distributed import Future

    return isinstance(value, Future) or hasattr(value, "__dask_graph__")


def as_future(client: Client, value: Any) -> Future:
    """Return the future of a value of Dask's; a collection is computed, and its blocks put together, on a worker."""
    from distributed import Future

    return value if isinstance(value, Future) else client.compute(value)


def send_inputs(client: Client, futures: Mapping[str, Future], places: Sequence[Place]) -> None:
    """Let Dask bring values to the machines whose parts need them, and wait for it."""
    sent = [
        client.submit(give_input, futures[name], part, run, name, workers=[address], pure=False)
        for address, part, run, name, _ in places
    ]
    client.gather(sent)


def future_of(client: Client, places: Sequence[Place]) -> Future:
    """Return a future of a result, copied on the worker that has it; pieces are put together on one of them.

    It waits for the copies, since the next run of the part writes where they are taken from.
    """
    pieces = [
        client.submit(take_result, part, run, array, rows, workers=[address], pure=False)
        for address, part, run, array, rows in places
    ]
    for piece in pieces:
        if piece.exception() is not None:
            piece.result()  # raises it
    return pieces[0] if len(pieces) == 1 else client.submit(_joined, pieces, workers=[places[0][0]], pure=False)


def array_of(client: Client, places: Sequence[Place], shape: tuple[int, ...], dtype: Any) -> Any:
    """Return a result as a Dask array with a block for each piece, on the worker that has it."""
    import dask.array

    blocks = []
    for place in places:
        rows = place[-1]
        extent = shape if rows is None else (rows[1] - rows[0], *shape[1:])
        blocks.append(dask.array.from_delayed(future_of(client, [place]), extent, dtype=dtype))
    return blocks[0] if len(blocks) == 1 else dask.array.concatenate(blocks)


def _joined(pieces: Sequence[NumpyArray]) -> NumpyArray:
    """Put the rows of an array together; called on a worker."""
    return np.concatenate(pieces)
