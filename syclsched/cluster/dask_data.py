# SPDX-License-Identifier: Apache-2.0
"""Dask's futures and arrays as inputs and results of runs; their data goes from worker to worker."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from syclsched.cluster.part_runner import give_input, take_result
from syclsched.errors import ClusterError
from syclsched.execution.memory.buffers import NumpyArray
from syclsched.model.access import RowRange

if TYPE_CHECKING:
    from distributed import Client, Future

#: Longest time that Dask may take to move data, in seconds.
WAIT_S: Final = 600.0
#: An address, the keys of a part and of a run, an array, and its rows there, if they are not all.
Place = tuple[str, str, str, str, "RowRange | None"]


def is_remote(value: Any) -> bool:
    """Return whether a value is one of Dask's, which may be on a worker."""
    from distributed import Future

    return isinstance(value, Future) or hasattr(value, "__dask_graph__")


def as_future(client: Client, value: Any) -> Future:
    """Return the future of a value of Dask's; a collection is computed, and its blocks assembled, on a worker."""
    from distributed import Future

    return value if isinstance(value, Future) else client.compute(value)


def fetch(future: Future) -> Any:
    """Return the value of a future, in this process."""
    _wait([future])
    return future.result()


def send_inputs(client: Client, futures: Mapping[str, Future], places: Sequence[Place]) -> None:
    """Let Dask bring values to the machines whose parts need them, and wait for it."""
    _wait(
        [
            client.submit(give_input, futures[name], part, run, name, workers=[address], pure=False)
            for address, part, run, name, _ in places
        ]
    )


def future_of(client: Client, places: Sequence[Place]) -> Future:
    """Return a future of a result, copied on the worker that has it; pieces are assembled on one of them."""
    pieces = _copied(client, places)
    return pieces[0] if len(pieces) == 1 else client.submit(_joined, pieces, workers=[places[0][0]], pure=False)


def array_of(client: Client, places: Sequence[Place], shape: tuple[int, ...], dtype: Any) -> Any:
    """Return a result as a Dask array with a block for each piece, on the worker that has it."""
    import dask.array

    rows = [shape[:1] if place[-1] is None else (place[-1][1] - place[-1][0],) for place in places]
    blocks = [
        dask.array.from_delayed(piece, (*extent, *shape[1:]), dtype=dtype)
        for piece, extent in zip(_copied(client, places), rows, strict=True)
    ]
    return blocks[0] if len(blocks) == 1 else dask.array.concatenate(blocks)


# --- inside ---------------------------------------------------------------------------------------


def _copied(client: Client, places: Sequence[Place]) -> list[Future]:
    """Return a copy of each piece, on the worker that has it.

    It waits for the copies, since the next run of the part writes where they are taken from.
    """
    pieces = [
        client.submit(take_result, part, run, array, rows, workers=[address], pure=False)
        for address, part, run, array, rows in places
    ]
    _wait(pieces)
    return pieces


def _wait(futures: Sequence[Future]) -> None:
    """Wait for futures, and raise the first error; a task for a worker that is lost would wait for ever."""
    from distributed import TimeoutError

    end_s = time.monotonic() + WAIT_S
    for future in futures:
        try:
            error = future.exception(max(0.0, end_s - time.monotonic()))
        except TimeoutError:
            raise ClusterError(
                f"Dask has not moved the data in {WAIT_S:.0f} s",
                where="inputs or results that are Dask's",
                hint="`print(cluster.status())` says which workers answer",
            ) from None
        if error is not None:
            raise error


def _joined(pieces: Sequence[NumpyArray]) -> NumpyArray:
    """Put the rows of an array together; called on a worker."""
    return np.concatenate(pieces)
