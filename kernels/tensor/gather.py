# SPDX-License-Identifier: Apache-2.0
"""`gather`, `gather_elements`, `gather_nd`: elements selected by index.

Negative indices count from the end. Out-of-range indices are clamped, on every device; in a *checked* operation they
also set the status, and the run fails. The indexed axis must not be empty.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache, partial
from typing import Any

from syclsched.kernels.common import with_recipe
from syclsched.kernels.tensor.operation_factory import (
    STATUS,
    axis_error,
    copy_work,
    elements,
    input_parameter,
    make_operation,
    output_parameter,
    shape_error,
)
from syclsched.kernels.tensor.writing.implementation_factory import generated_implementations
from syclsched.kernels.tensor.writing.index_arrays import clamped_index, load_index, write_index_check
from syclsched.kernels.tensor.writing.iteration_space import (
    IterationSpace,
    contiguous_strides,
    iteration_launch,
    iteration_space,
    write_iteration,
)
from syclsched.kernels.tensor.writing.kernel_writer import KernelWriter
from syclsched.model.operation import DeviceLimits, Implementation, Launch, Operation, Signature, Split

#: Dtypes of index arrays.
INDEX_DTYPES = ("int64", "int32")

_PARAMETERS = (output_parameter(), input_parameter(like="y"), input_parameter("indices", dtypes=INDEX_DTYPES))


@with_recipe
@cache
def gather(axis: int, checked: bool = False) -> Operation:
    """Return the operation that writes the slices of ``x`` selected by ``indices`` along an axis to ``y``."""
    return make_operation(
        f"gather axis {axis}",
        _PARAMETERS,
        partial(_gather_host, axis=axis),
        partial(_gather_check, axis=axis),
        work=copy_work,
        split=Split(("y", "x") if axis else ("y", "indices")),
        kernels=_kernels(partial(_gather_space, axis=axis), checked),
        checked=checked,
    )


@with_recipe
@cache
def gather_elements(axis: int, checked: bool = False) -> Operation:
    """Return the operation that writes, for each of ``indices``, the element of ``x`` at it along an axis."""
    return make_operation(
        f"gather_elements axis {axis}",
        _PARAMETERS,
        partial(_elements_host, axis=axis),
        partial(elements_check, axis=axis, like="y"),
        work=copy_work,
        split=Split(("y", "x", "indices")) if axis else None,
        kernels=_kernels(partial(_elements_space, axis=axis), checked),
        checked=checked,
    )


@with_recipe
@cache
def gather_nd(batch_dims: int = 0, checked: bool = False) -> Operation:
    """Return the operation that writes the slices of ``x`` selected by index tuples in ``indices`` to ``y``."""
    return make_operation(
        f"gather_nd batch_dims {batch_dims}",
        _PARAMETERS,
        partial(_nd_host, batch_dims=batch_dims),
        partial(_nd_check, batch_dims=batch_dims),
        work=copy_work,
        kernels=_kernels(partial(_nd_space, batch_dims=batch_dims), checked),
        checked=checked,
    )


# --- checks -----------------------------------------------------------------------------------------


def _gather_check(signature: Signature, *, axis: int) -> str | None:
    x, indices = signature.shapes["x"], signature.shapes["indices"]
    wrong = axis_error(axis, len(x))
    if wrong is None and x[axis] == 0 and elements(signature):
        return f"axis {axis} of {x} has no elements to pick"
    return wrong or shape_error(
        signature, (*x[:axis], *indices, *x[axis + 1 :]), f"{indices} indices into axis {axis} of {x}"
    )


def elements_check(signature: Signature, *, axis: int, like: str) -> str | None:
    """Return an error message if ``indices`` do not match ``x`` or ``like``, else None."""
    x, indices = signature.shapes["x"], signature.shapes["indices"]
    wrong = axis_error(axis, len(x))
    if wrong is not None:
        return wrong
    if len(indices) != len(x) or any(n > m for d, (n, m) in enumerate(zip(indices, x, strict=True)) if d != axis):
        return f"indices of shape {indices} do not fit into {x} but for axis {axis}"
    if signature.shapes[like] != indices:
        return f"{like} has the shape of the indices, {indices}, not {signature.shapes[like]}"
    return f"axis {axis} of {x} has no elements to pick" if x[axis] == 0 and elements(signature, "indices") else None


def _nd_check(signature: Signature, *, batch_dims: int) -> str | None:
    x, indices = signature.shapes["x"], signature.shapes["indices"]
    if not indices or x[:batch_dims] != indices[:batch_dims] or len(indices) <= batch_dims:
        return f"{x} and the indices' {indices} do not share {batch_dims} leading axes"
    depth = indices[-1]
    if not 1 <= depth <= len(x) - batch_dims:
        return f"{depth} numbers are no index into the axes of {x} after the first {batch_dims}"
    picked = x[batch_dims : batch_dims + depth]
    if 0 in picked and elements(signature):
        return f"axes {picked} of {x} have no elements to pick"
    return shape_error(signature, (*indices[:-1], *x[batch_dims + depth :]), f"{indices} indices into {x}")


# --- the host -----------------------------------------------------------------------------------------


def _clamped_indices(indices: Any, extents: Any, status: Any) -> Any:
    """Return indices counted from 0 and clamped to their extents; set the status to 1 + first bad position."""
    import numpy as np

    wide = indices.astype("int64", copy=False)
    bad = (wide < -extents) | (wide >= extents)
    if status is not None:
        status[...] = int(np.argmax(bad)) + 1 if bad.any() else 0
    return np.clip(np.where(wide < 0, wide + extents, wide), 0, np.maximum(extents - 1, 0))


def _gather_host(*, axis: int, y: Any, x: Any, indices: Any, status: Any = None) -> None:
    import numpy as np

    at = _clamped_indices(indices, x.shape[axis], status)
    if y.size:
        y[...] = np.take(x, at, axis=axis)


def _elements_host(*, axis: int, y: Any, x: Any, indices: Any, status: Any = None) -> None:
    at = _clamped_indices(indices, x.shape[axis], status)
    if y.size:
        y[...] = x[element_index(at, axis)]


def element_index(at: Any, axis: int) -> tuple[Any, ...]:
    """Return the NumPy index of elements given their indices along one axis."""
    import numpy as np

    places: list[Any] = list(np.indices(at.shape, sparse=True))
    places[axis] = at
    return tuple(places)


def _nd_host(*, batch_dims: int, y: Any, x: Any, indices: Any, status: Any = None) -> None:
    import numpy as np

    depth = indices.shape[-1]
    extents = np.array(x.shape[batch_dims : batch_dims + depth], dtype="int64")
    at = _clamped_indices(indices, extents, status)
    if not y.size:
        return
    batch = math.prod(x.shape[:batch_dims])
    rows = at.reshape(batch, -1, depth)
    flat = x.reshape(batch, *x.shape[batch_dims:])
    picked = flat[(np.arange(batch)[:, None], *(rows[:, :, d] for d in range(depth)))]
    y[...] = picked.reshape(y.shape)


# --- devices ------------------------------------------------------------------------------------------

#: Iteration space of the result, with operands ``x`` and ``indices``; and extent and stride of each indexed axis.
_Gather = tuple[IterationSpace, tuple[tuple[int, int], ...]]


def _gather_space(signature: Signature, *, axis: int) -> _Gather:
    x, indices = signature.shapes["x"], signature.shapes["indices"]
    after = math.prod(x[axis + 1 :])
    shape = (math.prod(x[:axis]), math.prod(indices), after)
    return iteration_space(shape, [(x[axis] * after, 0, 1), (0, 1, 0)]), ((x[axis], after),)


def _elements_space(signature: Signature, *, axis: int) -> _Gather:
    x, indices = signature.shapes["x"], signature.shapes["indices"]
    strides = contiguous_strides(x)
    x_strides = tuple(0 if other == axis else step for other, step in enumerate(strides))
    return iteration_space(indices, [x_strides, contiguous_strides(indices)]), ((x[axis], strides[axis]),)


def _nd_space(signature: Signature, *, batch_dims: int) -> _Gather:
    x, indices = signature.shapes["x"], signature.shapes["indices"]
    depth = indices[-1]
    batch, rows = math.prod(x[:batch_dims]), math.prod(indices[batch_dims:-1])
    piece = math.prod(x[batch_dims + depth :])
    space = iteration_space((batch, rows, piece), [(math.prod(x[batch_dims:]), 0, 1), (rows * depth, depth, 0)])
    strides = contiguous_strides(x)[batch_dims : batch_dims + depth]
    return space, tuple(zip(x[batch_dims : batch_dims + depth], strides, strict=True))


def _kernels(gather_of: Callable[[Signature], _Gather], checked: bool) -> tuple[Implementation, ...]:
    return generated_implementations(
        (*_PARAMETERS, STATUS) if checked else _PARAMETERS,
        partial(_write, gather_of=gather_of),
        partial(_launch, gather_of=gather_of, checked=checked),
        revision="2",
        takes_extents=lambda signature: gather_of(signature)[0].shares_code,
    )


def _write(w: KernelWriter, *, gather_of: Callable[[Signature], _Gather]) -> None:
    space, known = gather_of(w.signature)
    axes = [
        (_number(w, space, f"range{number}", extent), space.number(w, f"apart{number}", stride))
        for number, (extent, stride) in enumerate(known)
    ]

    def body(at: str, others: list[str]) -> None:
        terms = [others[0]]
        for number, (extent, stride) in enumerate(axes):
            index, _ = load_index(w, "indices", f"{others[1]} + {number}", extent)
            terms.append(f"{clamped_index(w, index, extent)} * {stride}")
        w.store("y", at, w.load("x", " + ".join(terms)))

    if "status" in w.signature.shapes:
        first = w.first(plane=not space.indexed_by_element)
        rows = w.number("picks", elements(w.signature, "indices") // len(axes))
        write_index_check(w, rows, [extent for extent, _ in axes], first)
    if elements(w.signature):
        write_iteration(w, space, body)


def _number(w: KernelWriter, space: IterationSpace, name: str, extent: int) -> int | str:
    """Return the extent of an indexed axis: a number, or the text of an argument."""
    text = space.number(w, name, extent)
    return extent if text == str(extent) else text


def _launch(
    signature: Signature, limits: DeviceLimits, *, gather_of: Callable[[Signature], _Gather], checked: bool
) -> Launch:
    return iteration_launch(gather_of(signature)[0], limits, always=checked)
