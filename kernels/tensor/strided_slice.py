# SPDX-License-Identifier: Apache-2.0
"""`slice_of`: strided slices, with positive or negative steps."""

from __future__ import annotations

from functools import cache, partial
from typing import Any

from syclsched.errors import ArgumentError
from syclsched.kernels.common import with_recipe
from syclsched.kernels.tensor.operation_factory import copy_work, input_parameter, make_operation, output_parameter
from syclsched.kernels.tensor.writing.implementation_factory import generated_implementations
from syclsched.kernels.tensor.writing.iteration_space import (
    IterationSpace,
    contiguous_strides,
    iteration_launch,
    iteration_space,
    write_iteration,
)
from syclsched.kernels.tensor.writing.kernel_writer import KernelWriter
from syclsched.model.operation import DeviceLimits, Launch, Operation, Signature, Split


@with_recipe
@cache
def slice_of(starts: tuple[int, ...], steps: tuple[int, ...]) -> Operation:
    """Return the operation that writes a strided slice of ``x`` to ``y``; the shape of ``y`` sets its extents."""
    if len(starts) != len(steps) or 0 in steps:
        raise ArgumentError(f"starts {starts} and steps {steps} differ in number, or a step is 0", where="slice_of")
    parameters = (output_parameter(), input_parameter(like="y"))
    return make_operation(
        f"slice {','.join(map(str, starts))} by {','.join(map(str, steps))}",
        parameters,
        partial(_host, starts=starts, steps=steps),
        partial(_check, starts=starts, steps=steps),
        work=copy_work,
        split=Split(("y", "x")) if starts[:1] == (0,) and steps[0] == 1 else None,
        kernels=generated_implementations(
            parameters,
            partial(_write, starts=starts, steps=steps),
            partial(_launch, steps=steps),
            revision="2",
            takes_extents=lambda signature: _walk(signature, steps).shares_code,
        ),
    )


def _check(signature: Signature, *, starts: tuple[int, ...], steps: tuple[int, ...]) -> str | None:
    x, y = signature.shapes["x"], signature.shapes["y"]
    if not len(x) == len(y) == len(starts):
        return f"{len(starts)} starts for {len(x)} axes of x and {len(y)} of y"
    if 0 in y:
        return None
    for axis, (start, step, n) in enumerate(zip(starts, steps, y, strict=True)):
        last = start + step * (n - 1)
        if not (0 <= start < x[axis] and 0 <= last < x[axis]):
            return f"axis {axis} of {x} has no {n} elements from {start} by {step}"
    return None


def _host(*, starts: tuple[int, ...], steps: tuple[int, ...], y: Any, x: Any) -> None:
    if y.size:
        picked = []
        for start, step, n in zip(starts, steps, y.shape, strict=True):
            stop = start + step * n
            picked.append(slice(start, None if stop < 0 else stop, step))
        y[...] = x[tuple(picked)]


def _walk(signature: Signature, steps: tuple[int, ...]) -> IterationSpace:
    strides = contiguous_strides(signature.shapes["x"])
    return iteration_space(signature.shapes["y"], [tuple(a * b for a, b in zip(strides, steps, strict=True))])


def _write(w: KernelWriter, *, starts: tuple[int, ...], steps: tuple[int, ...]) -> None:
    strides = contiguous_strides(w.signature.shapes["x"])
    start = sum(a * b for a, b in zip(strides, starts, strict=True))

    def body(at: str, others: list[str]) -> None:
        w.store("y", at, w.load("x", others[0]))

    write_iteration(w, _walk(w.signature, steps), body, [start])


def _launch(signature: Signature, limits: DeviceLimits, *, steps: tuple[int, ...]) -> Launch:
    return iteration_launch(_walk(signature, steps), limits)
