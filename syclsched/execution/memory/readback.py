# SPDX-License-Identifier: Apache-2.0
"""Read-back of completed buffers as NumPy, dpnp or dpctl arrays."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from syclsched.devices.memory import usm_memory
from syclsched.devices.memory.resident_array import InputValue, host_value
from syclsched.devices.native.sycl_types import SyclQueue
from syclsched.errors import ArgumentError, UnknownArrayError
from syclsched.execution.memory.buffers import AllocatedBuffer
from syclsched.model.access import RowRange, row_range_name
from syclsched.model.plan import PlannedArray, PlannedRows
from syclsched.oneapi.dpctl_interface import usm_arrays

Like = Literal["numpy", "dpnp", "usm_ndarray"]
NumpyArray = np.ndarray[Any, np.dtype[Any]]


def read_numpy(buffer: AllocatedBuffer) -> NumpyArray:
    """Return a copy of a buffer's value in host memory."""
    if isinstance(buffer.held, np.ndarray):
        return buffer.held.copy()
    result = np.empty(buffer.array.shape, buffer.array.dtype)
    _read_into(result, buffer)
    return result


def _read_into(target: NumpyArray, buffer: AllocatedBuffer) -> None:
    if buffer.on_host:
        np.copyto(target, buffer.numpy(writable=False))
    else:
        usm_memory.read_into(target, buffer.storage)


def covers(pieces: Sequence[PlannedRows], start: int, stop: int) -> bool:
    """Return whether sorted row ranges cover rows ``start`` to ``stop`` without a gap."""
    for rows in pieces:
        if rows.start > start:
            return False
        start = rows.stop
    return start >= stop


def assemble(
    array: PlannedArray,
    rows: RowRange,
    pieces: Sequence[tuple[PlannedRows, AllocatedBuffer]],
    given: InputValue | None,
) -> NumpyArray:
    """Return rows of an array gathered from several buffers."""
    start, stop = rows
    if given is None and not covers([each for each, _ in pieces], start, stop):
        raise UnknownArrayError(
            "some of its rows are written by no task, and no value was given for them",
            where=f"array {row_range_name(array.name, rows)!r}",
            hint="Give the array a value, or ask for the rows that are written",
        )
    result = np.empty((stop - start, *array.shape[1:]), array.dtype)
    if given is not None:
        np.copyto(result, host_value(given)[start:stop])
    for held, live in pieces:
        first, last = max(start, held.start), min(stop, held.stop)
        _read_into(result[first - start : last - start], live.part(first - held.start, last - held.start))
    return result


def read(buffer: AllocatedBuffer, like: Like, queue: SyclQueue | None, *, share: bool) -> Any:
    """Return a buffer's value as the requested kind of array."""
    if like == "numpy":
        return read_numpy(buffer)
    arrays = usm_arrays()
    if buffer.is_usm:
        array = buffer.usm_array(buffer.storage.sycl_queue)
        if share and buffer.owned:  # an input read in place belongs to the caller
            buffer.mark_shared()
        else:
            array = completed(arrays.copy(array))
    else:
        array = completed(arrays.asarray(buffer.numpy(writable=False), sycl_queue=queue))
    if like == "usm_ndarray":
        return array
    import dpnp

    return dpnp.asarray(array)


def completed(array: Any) -> Any:
    """Return a `usm_ndarray` that was just made, when its copy has completed: since dpctl 0.18, copies do not wait."""
    array.sycl_queue.wait()
    return array


def converted_to(value: NumpyArray, like: Any) -> Any:
    """Return a value as an array of another array's library, over the same memory if that library can.

    Raises `ArgumentError` if the library makes no arrays of host memory.
    """
    if isinstance(like, np.ndarray):
        return value
    kind = type(like)
    namespace = getattr(like, "__array_namespace__", None)
    library = sys.modules.get(kind.__module__.partition(".")[0]) if namespace is None else namespace()
    from_dlpack = getattr(library, "from_dlpack", None)
    try:
        if from_dlpack is not None:
            return from_dlpack(value)
        if hasattr(like, "index") and hasattr(like, "name"):  # a column of a table
            return kind(value, index=like.index if len(like) == len(value) else None, name=like.name)
    except (BufferError, TypeError, RuntimeError, ValueError) as error:
        reason = f": {error}"
    else:
        reason = ""
    raise ArgumentError(
        f"no {kind.__module__}.{kind.__name__} can be made of the result{reason}",
        where="like",
        hint="Give 'numpy', 'dpnp', 'usm_ndarray', or an array of a library that has from_dlpack",
    )
