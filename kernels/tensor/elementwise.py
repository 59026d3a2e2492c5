# SPDX-License-Identifier: Apache-2.0
"""`elementwise`: an expression over any number of broadcast arrays, fused into one kernel."""

from __future__ import annotations

import hashlib
import math
from functools import partial
from typing import Any

from syclsched.errors import ArgumentError, SyclschedError
from syclsched.kernels.common import ITEM_BYTES, VECTOR_ITEMS, ceil_div, with_recipe
from syclsched.kernels.tensor.operation_factory import (
    array_bytes,
    elements,
    input_parameter,
    make_operation,
    output_parameter,
)
from syclsched.kernels.tensor.writing import expression as language
from syclsched.kernels.tensor.writing import table_lookup
from syclsched.kernels.tensor.writing.expression import Expression, cached_by_text, infer_dtypes
from syclsched.kernels.tensor.writing.expression_codegen import emit_expression
from syclsched.kernels.tensor.writing.implementation_factory import generated_implementations
from syclsched.kernels.tensor.writing.iteration_space import (
    IterationSpace,
    broadcast_strides,
    iteration_launch,
    iteration_space,
    write_iteration,
)
from syclsched.kernels.tensor.writing.kernel_writer import KernelWriter
from syclsched.model.operation import DeviceLimits, Launch, Operation, Signature, Split, Work

#: Longer names are cut and get a digest: names appear in reports and are keys of measured costs.
_LONGEST_NAME = 100


@with_recipe
@cached_by_text
def elementwise(expression: Expression, inputs: int) -> Operation:
    """Return the operation that writes an expression of arrays ``x0``, ``x1``, ... to ``y``."""
    names = tuple(f"x{i}" for i in range(inputs))
    highest = max(language.inputs_of(expression), default=-1)
    if highest >= inputs:
        raise ArgumentError(
            f"there is no input {highest}, only {inputs}", where=f"expression {language.expression_text(expression)}"
        )
    name = f"elementwise {language.expression_text(expression)}"
    if len(name) > _LONGEST_NAME:
        name = f"{name[: _LONGEST_NAME - 12]}... {hashlib.sha256(name.encode()).hexdigest()[:8]}"
    parameters = (output_parameter(), *(input_parameter(each) for each in names))
    axes = tuple(sorted(language.axes_of(expression)))
    return make_operation(
        name,
        parameters,
        partial(_host, expression=expression, names=names),
        partial(_check, expression=expression, names=names, axes=axes),
        work=partial(_work, operators=max(1, language.count_operators(expression)), names=names),
        split=None if axes else Split(("y", *names), grain=_grain, whole=partial(_whole, names=names)),
        kernels=(
            *generated_implementations(
                parameters,
                partial(_write, expression=expression, names=names, axes=axes),
                partial(_launch, names=names, axes=axes),
                revision="5",
                takes_extents=partial(_takes_extents, names=names, axes=axes),
            ),
            *([table_lookup.implementation(expression)] if inputs == 1 else []),
        ),
    )


def _check(
    signature: Signature, *, expression: Expression, names: tuple[str, ...], axes: tuple[int, ...]
) -> str | None:
    shape = signature.shapes["y"]
    for name in names:
        given = signature.shapes[name]
        if len(given) > len(shape) or any(n not in (1, m) for n, m in zip(given[::-1], shape[::-1], strict=False)):
            return f"{name} of shape {given} cannot be broadcast to {shape}"
    if axes and -axes[0] > len(shape):
        return f"there is no axis {axes[0]} in {shape}"
    try:
        infer_dtypes(expression, tuple(signature.dtypes[name] for name in names), signature.dtypes["y"])
    except SyclschedError as error:
        return str(error)
    return None


def _work(signature: Signature, *, operators: int, names: tuple[str, ...]) -> Work:
    count = elements(signature)
    moved = count * ITEM_BYTES[signature.dtypes["y"]] + sum(array_bytes(signature, name) for name in names)
    return Work(float(operators * count), float(moved), signature.dtypes["y"], float(max(count, 1)))


def _host(*, expression: Expression, names: tuple[str, ...], y: Any, **inputs: Any) -> None:
    from syclsched.kernels.tensor.writing.expression_evaluator import evaluate_typed

    given = [inputs[name] for name in names]
    root = infer_dtypes(expression, tuple(each.dtype.name for each in given), y.dtype.name)
    y[...] = evaluate_typed(root, given, y.shape)


def _walk(signature: Signature, names: tuple[str, ...], axes: tuple[int, ...]) -> IterationSpace:
    """Return the iteration space of the result; operands are the inputs, then the index along each axis used."""
    shape = signature.shapes["y"]
    strides = [broadcast_strides(signature.shapes[name], shape) for name in names]
    strides += [tuple(int(at == axis + len(shape)) for at in range(len(shape))) for axis in axes]
    return iteration_space(shape, strides)


def _takes_extents(signature: Signature, *, names: tuple[str, ...], axes: tuple[int, ...]) -> bool:
    return _walk(signature, names, axes).shares_code


def _write(w: KernelWriter, *, expression: Expression, names: tuple[str, ...], axes: tuple[int, ...]) -> None:
    dtypes = w.signature.dtypes
    root = infer_dtypes(expression, tuple(dtypes[name] for name in names), dtypes["y"])

    def body(at: str, others: list[str]) -> None:
        inputs = {i: w.load(name, others[i]) for i, name in enumerate(names)}
        places = dict(zip(axes, others[len(names) :], strict=True))
        w.store("y", at, emit_expression(w, root, inputs, places))

    write_iteration(w, _walk(w.signature, names, axes), body)


def _launch(signature: Signature, limits: DeviceLimits, *, names: tuple[str, ...], axes: tuple[int, ...]) -> Launch:
    return iteration_launch(_walk(signature, names, axes), limits)


def _whole(signature: Signature, *, names: tuple[str, ...]) -> list[str]:
    """Return the inputs that are broadcast along axis 0: a split passes them whole."""
    y = signature.shapes["y"]
    return [name for name in names if len(signature.shapes[name]) < len(y) or signature.shapes[name][:1] != y[:1]]


def _grain(signature: Signature) -> int:
    """Return the number of rows that fill a vector register."""
    return ceil_div(VECTOR_ITEMS, max(1, math.prod(signature.shapes["y"][1:])))
