# SPDX-License-Identifier: Apache-2.0
"""`scan_sum`: prefix sums along an axis."""

from __future__ import annotations

from functools import cache, partial
from typing import Any

from syclsched.kernels.common import with_recipe
from syclsched.kernels.tensor.operation_factory import (
    array_bytes,
    axis_error,
    elements,
    input_parameter,
    make_operation,
    output_parameter,
    shape_error,
)
from syclsched.kernels.tensor.reductions.reduction_kernels import split_axes
from syclsched.kernels.tensor.writing.implementation_factory import generated_implementations
from syclsched.kernels.tensor.writing.iteration_space import iteration_launch, write_iteration
from syclsched.kernels.tensor.writing.kernel_writer import KernelWriter, compute_dtype
from syclsched.kernels.tensor.writing.row_column_blocks import block_launch, block_vectors, write_blocks
from syclsched.model.operation import DeviceLimits, Launch, Operation, Signature, Split, Work


@with_recipe
@cache
def scan_sum(axis: int, exclusive: bool = False, reverse: bool = False) -> Operation:
    """Return the operation that writes the prefix sums of ``x`` along an axis to ``y``."""
    parameters = (output_parameter(), input_parameter(like="y"))
    return make_operation(
        f"scan_sum axis {axis}{' exclusive' if exclusive else ''}{' reverse' if reverse else ''}",
        parameters,
        partial(_host, axis=axis, exclusive=exclusive, reverse=reverse),
        partial(_check, axis=axis),
        work=_work,
        split=Split(("y", "x")) if axis else None,
        kernels=generated_implementations(
            parameters,
            partial(_write, axis=axis, exclusive=exclusive, reverse=reverse),
            partial(_launch, axis=axis),
            revision="3",
            takes_extents=lambda signature: split_axes(signature.shapes["x"], (axis,)).kept.shares_code,
        ),
    )


def _check(signature: Signature, *, axis: int) -> str | None:
    x = signature.shapes["x"]
    if signature.dtypes["x"] == "bool":
        return "there is no sum of bool"
    return axis_error(axis, len(x)) or shape_error(signature, x, "a scan")


def _work(signature: Signature) -> Work:
    count = elements(signature)
    return Work(float(count), 2.0 * array_bytes(signature, "x"), signature.dtypes["x"], float(count))


def _host(*, axis: int, exclusive: bool, reverse: bool, y: Any, x: Any) -> None:
    import numpy as np

    if not y.size:
        return
    given = np.flip(x, axis) if reverse else x
    dtype = np.float32 if x.dtype == np.float16 else x.dtype
    sums = np.cumsum(given, axis=axis, dtype=dtype)
    if exclusive:
        sums = np.roll(sums, 1, axis=axis)
        sums[(slice(None),) * axis + (0,)] = 0
    y[...] = (np.flip(sums, axis) if reverse else sums).astype(y.dtype, copy=False)


def _write(w: KernelWriter, *, axis: int, exclusive: bool, reverse: bool) -> None:
    plan = split_axes(w.signature.shapes["x"], (axis,))
    extent, stride = plan.reduced[0]
    t = compute_dtype(w.signature.dtypes["x"])
    vectors, count = block_vectors(plan.kept, t), plan.kept.number(w, "count", extent)
    apart = plan.kept.number(w, "apart", stride)
    if vectors:
        write_blocks(w, plan.kept, vectors, partial(_write_block, w, t, (count, apart), vectors, exclusive, reverse))
        return

    def body(_: str, others: list[str]) -> None:
        total = w.variable(t, w.constant(0, t))
        with w.loop("0", count) as k:
            step = f"({count} - 1 - {k})" if reverse else k
            place = w.index(f"{others[0]} + {step} * {apart}")
            x = w.value(t, w.load("x", place))
            if exclusive:
                w.store("y", place, total)
            w.assign(total, t, f"{total} + {x}")
            if not exclusive:
                w.store("y", place, total)

    write_iteration(w, plan.kept, body)


def _write_block(
    w: KernelWriter, t: str, along: tuple[str, str], vectors: int, exclusive: bool, reverse: bool, _: str, first: str
) -> None:
    extent, stride = along
    totals = w.vector_group(t, w.constant(0, t), vectors)
    with w.loop("0", extent) as k:
        row = w.index(f"{first} + {f'({extent} - 1 - {k})' if reverse else k} * {stride}")

        def add(pick: Any, lane: str) -> None:
            total, place = pick(totals), f"{row} + {lane}"
            x = w.value(t, w.load_vector("x", place))
            if exclusive:
                w.store_vector("y", place, total, t)
            w.assign(total, t, f"{total} + {x}")
            if not exclusive:
                w.store_vector("y", place, total, t)

        w.each_vector(vectors, add)


def _launch(signature: Signature, limits: DeviceLimits, *, axis: int) -> Launch:
    kept = split_axes(signature.shapes["x"], (axis,)).kept
    vectors = block_vectors(kept, compute_dtype(signature.dtypes["x"]))
    return block_launch(kept, vectors, limits) if vectors else iteration_launch(kept, limits)
