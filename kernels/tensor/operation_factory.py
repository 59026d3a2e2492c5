# SPDX-License-Identifier: Apache-2.0
"""Helpers of operation factories: parameters, shape checks, work estimates, and assembly of operations."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

from syclsched.kernels.common import ALL_DTYPES, ITEM_BYTES, numpy_implementation
from syclsched.model.access import AccessMode
from syclsched.model.operation import Implementation, Operation, Parameter, Shape, Signature, Split, Work

Check = Callable[[Signature], str | None]

#: Message for the status of a kernel with an out-of-range index; the status is 1 + position of the index.
OUT_OF_RANGE = "an index is out of range: the {} of the indices (from 0, in memory order)"


def output_parameter(name: str = "y", *, dtypes: tuple[str, ...] = ALL_DTYPES) -> Parameter:
    """Return the parameter of a written array."""
    return Parameter(name, AccessMode.WRITE, dtypes=dtypes)


def input_parameter(name: str = "x", *, like: str | None = None, dtypes: tuple[str, ...] = ALL_DTYPES) -> Parameter:
    """Return the parameter of a read array."""
    return Parameter(name, AccessMode.READ, dtypes=dtypes, like=like)


STATUS = Parameter("status", AccessMode.WRITE, dtypes=("int32",))


def _explain_index_status(status: int) -> str:
    """Return the message for a non-zero status of a checked operation."""
    return OUT_OF_RANGE.format(status - 1)


def make_operation(
    name: str,
    parameters: tuple[Parameter, ...],
    host: Callable[..., None],
    check: Check,
    *,
    work: Callable[[Signature], Work],
    kernels: tuple[Implementation, ...] = (),
    split: Split | None = None,
    checked: bool = False,
) -> Operation:
    """Return an operation with generated kernels and a NumPy host implementation."""
    return Operation(
        name=f"{name} checked" if checked else name,
        parameters=(*parameters, STATUS) if checked else parameters,
        implementations=(*kernels, numpy_implementation(host, efficiency=0.3)),
        work=work,
        check=partial(_check_all, check=check),
        status="status" if checked else None,
        explain_status=_explain_index_status if checked else None,
        split=split,
    )


def _check_all(signature: Signature, *, check: Check) -> str | None:
    if math.prod(signature.shapes.get("status", ())) != 1:
        return f"status has one element, not shape {signature.shapes['status']}"
    return check(signature)


def elements(signature: Signature, name: str = "y") -> int:
    """Return the number of elements of a parameter."""
    return math.prod(signature.shapes[name])


def array_bytes(signature: Signature, name: str) -> int:
    """Return the number of bytes of a parameter."""
    return elements(signature, name) * ITEM_BYTES[signature.dtypes[name]]


def copy_work(signature: Signature, *, read_as: str = "y") -> Work:
    """Return the work of data movement: one read and one write per result element, and reads of indices."""
    dtype = signature.dtypes["y"]
    indices = array_bytes(signature, "indices") if "indices" in signature.shapes else 0
    moved = array_bytes(signature, "y") + array_bytes(signature, read_as) + indices
    return Work(0.0, float(moved), dtype, float(max(elements(signature), 1)))


def shape_error(signature: Signature, shape: Shape, what: str) -> str | None:
    """Return an error message if the result does not have a shape, else None."""
    return None if signature.shapes["y"] == shape else f"{what} gives shape {shape}, not {signature.shapes['y']}"


def axis_error(axis: int, rank: int) -> str | None:
    """Return an error message if an axis, counted from the front, does not exist, else None."""
    return None if 0 <= axis < rank else f"an array of {rank} dimensions has no axis {axis}"
