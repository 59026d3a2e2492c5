# SPDX-License-Identifier: Apache-2.0
"""Surviving array values after a failure, copied to host memory, where every plan starts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from syclsched.devices.native.sycl_types import SyclQueue
from syclsched.devices.submission import faultpoints
from syclsched.execution.core.program import Buffer
from syclsched.execution.memory.buffers import AllocatedBuffer, BufferLookup, NumpyArray
from syclsched.execution.memory.readback import read_numpy
from syclsched.execution.recovery.versions import GIVEN
from syclsched.model.plan import PlannedArray
from syclsched.model.platform import HOST


class UnreachableValueError(Exception):
    """A value in a buffer that can no longer be read."""

    def __init__(self, buffer: Buffer) -> None:
        super().__init__(buffer)
        self.buffer = buffer


def collect_surviving_values(
    start: Mapping[str, int],
    contents: Mapping[Buffer, int],
    buffers: BufferLookup,
    given: Mapping[str, NumpyArray],
    arrays: Mapping[str, PlannedArray],
) -> dict[str, NumpyArray]:
    """Return the start values for the remaining tasks, and the results already available."""
    found: dict[str, NumpyArray] = {}
    for name, version in start.items():
        array = arrays[name]
        rows = array.rows
        if version == GIVEN and (name if rows is None else rows.array) in given:
            if rows is None:
                found[name] = given[name]
            elif rows.array not in found:
                found[rows.array] = given[rows.array]
            elif found[rows.array] is not given[rows.array]:
                found[rows.array][rows.start : rows.stop] = given[rows.array][rows.start : rows.stop]
            continue
        value = read_version(name, version, contents, buffers)
        if rows is None:
            found[name] = value
            continue
        whole = found.get(rows.array)
        if whole is None or whole is given.get(rows.array):
            whole = found[rows.array] = _writable_copy(given.get(rows.array), arrays[rows.array])
        whole[rows.start : rows.stop] = value
    return found


def _writable_copy(given: NumpyArray | None, array: PlannedArray) -> NumpyArray:
    return np.zeros(array.shape, array.dtype) if given is None else given.copy()


def read_version(name: str, version: int, contents: Mapping[Buffer, int], buffers: BufferLookup) -> NumpyArray:
    """Return a copy of an array's version that a buffer holds."""
    places = sorted((b for b, v in contents.items() if b[0] == name and v == version), key=lambda b: b[1] != HOST)
    for buffer in places[:1]:
        try:
            live = buffers.get(buffer)
            if live is not None:
                _check(live)
                return read_numpy(live)
        except Exception as error:  # any error of the runtime
            raise UnreachableValueError(buffer) from error
        raise UnreachableValueError(buffer)
    raise AssertionError(f"no version {version} of {name!r} was said to be anywhere")


def _check(live: AllocatedBuffer) -> None:
    if faultpoints.active is not None and live.is_usm and not live.on_host:
        queue: SyclQueue = live.storage.sycl_queue
        faultpoints.active.uses(queue)


def reachable(contents: Mapping[Buffer, int], spaces: Iterable[str]) -> dict[Buffer, int]:
    """Return the contents restricted to some memory spaces."""
    kept = frozenset(spaces)
    return {buffer: version for buffer, version in contents.items() if buffer[1] in kept}
