# SPDX-License-Identifier: Apache-2.0
"""Row copies between arrays: `take_rows` extracts a range of rows, `put_rows` assembles an array from parts.

Both are copies within one memory space or on the host. Graph rewrites that split tasks into chunks use them for arrays
that are also needed whole.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cache, partial
from typing import Any

from syclsched.model.access import AccessMode
from syclsched.model.operation import Copies, Implementation, Operation, Parameter, Signature, Work


class _UsmSlice:
    """A byte range of USM memory, exposed through the USM array interface."""

    def __init__(self, array: Any, first_byte: int, nbytes: int) -> None:
        memory = array.usm_data
        self.memory = memory
        self.__sycl_usm_array_interface__ = {
            "data": (memory._pointer + first_byte, False),
            "shape": (nbytes,),
            "strides": None,
            "typestr": "|u1",
            "version": 1,
            "syclobj": array.sycl_queue,
            "offset": 0,
        }


def _rows(array: Any, start: int, count: int) -> Any:
    """Return rows of a C-contiguous `usm_ndarray` as USM memory, without a copy."""
    row_bytes = math.prod(array.shape[1:]) * array.itemsize
    return type(array.usm_data)(_UsmSlice(array, start * row_bytes, count * row_bytes))


# --- take_rows ------------------------------------------------------------------------------------


def _take(arguments: Mapping[str, Any]) -> list[tuple[Any, Any, int]]:
    rows, whole = arguments["rows"], arguments["whole"]
    return [(rows.usm_data, _rows(whole, arguments["start"], rows.shape[0]), rows.nbytes)]


def _take_on_host(*, rows: Any, whole: Any, start: int) -> None:
    rows[...] = whole[start : start + rows.shape[0]]


def _take_check(signature: Signature) -> str | None:
    rows, whole, start = signature.shapes["rows"], signature.shapes["whole"], signature.scalars["start"]
    if not rows or rows[1:] != whole[1:] or not 0 <= start <= whole[0] - rows[0]:
        return f"there are no rows of shape {rows} from row {start} of {whole}"
    return None


def _take_work(signature: Signature) -> Work:
    size = Signature({"rows": signature.shapes["rows"]}, signature.dtypes).nbytes
    return Work(flops=0.0, bytes=2.0 * size, dtype=signature.dtypes["rows"])


TAKE_ROWS = Operation(
    name="take_rows",
    parameters=(
        Parameter("rows", AccessMode.WRITE),
        Parameter("whole", AccessMode.READ, like="rows"),
        Parameter("start"),
    ),
    implementations=(
        Implementation("memcpy", "library", load=lambda _: Copies(_take), efficiency=0.8),
        Implementation("host", "host", load=lambda _: _take_on_host, efficiency=0.8),
    ),
    work=_take_work,
    check=_take_check,
)


# --- put_rows -------------------------------------------------------------------------------------


def _put(arguments: Mapping[str, Any], *, names: tuple[str, ...]) -> list[tuple[Any, Any, int]]:
    whole, start, found = arguments["whole"], 0, []
    for name in names:
        part = arguments[name]
        if part.nbytes:
            found.append((_rows(whole, start, part.shape[0]), part.usm_data, part.nbytes))
        start += part.shape[0]
    return found


def _put_on_host(*, names: tuple[str, ...], whole: Any, **parts: Any) -> None:
    start = 0
    for name in names:
        part = parts[name]
        whole[start : start + part.shape[0]] = part
        start += part.shape[0]


def _put_check(signature: Signature, *, names: tuple[str, ...]) -> str | None:
    whole, parts = signature.shapes["whole"], [signature.shapes[name] for name in names]
    if not whole or any(not part or part[1:] != whole[1:] for part in parts):
        return f"{parts} are not rows of {whole}"
    if sum(part[0] for part in parts) != whole[0]:
        return f"{parts} do not make up {whole}"
    return None


def _put_work(signature: Signature) -> Work:
    return Work(flops=0.0, bytes=float(signature.nbytes), dtype=signature.dtypes["whole"])


@cache
def put_rows(count: int) -> Operation:
    """Return the operation that writes the array ``whole`` from ``count`` parts with consecutive rows."""
    names = tuple(f"part{index}" for index in range(count))
    return Operation(
        name="put_rows",
        parameters=(
            Parameter("whole", AccessMode.WRITE),
            *(Parameter(name, AccessMode.READ, like="whole") for name in names),
        ),
        implementations=(
            Implementation("memcpy", "library", load=lambda _: Copies(partial(_put, names=names)), efficiency=0.8),
            Implementation("host", "host", load=lambda _: partial(_put_on_host, names=names), efficiency=0.8),
        ),
        work=_put_work,
        check=partial(_put_check, names=names),
    )
