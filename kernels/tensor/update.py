# SPDX-License-Identifier: Apache-2.0
"""`update`: new values of arrays in their own memory, by one expression for each, in one pass over all of them."""

from __future__ import annotations

import hashlib
from functools import partial
from typing import Any

from syclsched.errors import SyclschedError
from syclsched.kernels.common import ITEM_BYTES, VECTOR_ITEMS, with_recipe
from syclsched.kernels.tensor.operation_factory import array_bytes, elements, input_parameter, make_operation
from syclsched.kernels.tensor.writing import expression as language
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
from syclsched.model.access import AccessMode
from syclsched.model.operation import DeviceLimits, Launch, Operation, Parameter, Signature, Split, Work

_FLOATS = ("float32", "float64", "float16")


@with_recipe
@cached_by_text
def update(expressions: tuple[Expression, ...], inputs: int) -> Operation:
    """Return the operation that gives arrays ``y0``, ``y1``, ... of one shape and dtype the values of expressions.

    Inputs of the expressions are these arrays, by their old values, and then ``x0``, ``x1``, ..., which are broadcast.
    """
    updated = tuple(f"y{i}" for i in range(len(expressions)))
    read = tuple(f"x{i}" for i in range(inputs))
    text = "; ".join(map(language.expression_text, expressions))
    parameters = (
        Parameter("y0", AccessMode.UPDATE, dtypes=_FLOATS),
        *(Parameter(name, AccessMode.UPDATE, like="y0") for name in updated[1:]),
        *(input_parameter(name) for name in read),
    )
    operators = sum(map(language.count_operators, expressions))
    return make_operation(
        f"update of {len(expressions)} by {hashlib.sha256(text.encode()).hexdigest()[:8]}",
        parameters,
        partial(_host, expressions=expressions, updated=updated, read=read),
        partial(_check, expressions=expressions, updated=updated, read=read),
        work=partial(_work, operators=max(1, operators), updated=updated, read=read),
        split=Split((*updated, *read), grain=_grain, whole=partial(_whole, read=read)),
        kernels=generated_implementations(
            parameters,
            partial(_write, expressions=expressions, updated=updated, read=read),
            partial(_launch, updated=updated, read=read),
            revision="3",
            takes_extents=partial(_takes_extents, updated=updated, read=read),
        ),
    )


def _check(
    signature: Signature, *, expressions: tuple[Expression, ...], updated: tuple[str, ...], read: tuple[str, ...]
) -> str | None:
    shape, dtype = signature.shapes["y0"], signature.dtypes["y0"]
    for name in updated[1:]:
        if signature.shapes[name] != shape:
            return f"{name} has shape {signature.shapes[name]}, and y0 {shape}"
    for name in read:
        given = signature.shapes[name]
        if len(given) > len(shape) or any(n not in (1, m) for n, m in zip(given[::-1], shape[::-1], strict=False)):
            return f"{name} of shape {given} cannot be broadcast to {shape}"
    try:
        for expression in expressions:
            infer_dtypes(expression, tuple(signature.dtypes[name] for name in (*updated, *read)), dtype)
    except SyclschedError as error:
        return str(error)
    return None


def _work(signature: Signature, *, operators: int, updated: tuple[str, ...], read: tuple[str, ...]) -> Work:
    count = elements(signature, "y0")
    moved = 2 * len(updated) * count * ITEM_BYTES[signature.dtypes["y0"]]
    moved += sum(array_bytes(signature, name) for name in read)
    return Work(float(operators * count), float(moved), signature.dtypes["y0"], float(max(count, 1)))


def _host(
    *, expressions: tuple[Expression, ...], updated: tuple[str, ...], read: tuple[str, ...], **arrays: Any
) -> None:
    from syclsched.kernels.tensor.writing.expression_evaluator import evaluate_typed

    given = [arrays[name] for name in (*updated, *read)]
    dtypes = tuple(each.dtype.name for each in given)
    shape = arrays["y0"].shape
    made = [evaluate_typed(infer_dtypes(each, dtypes, dtypes[0]), given, shape) for each in expressions]
    for name, values in zip(updated, made, strict=True):
        arrays[name][...] = values


def _space(signature: Signature, updated: tuple[str, ...], read: tuple[str, ...]) -> IterationSpace:
    shape = signature.shapes["y0"]
    return iteration_space(shape, [broadcast_strides(signature.shapes[name], shape) for name in read])


def _takes_extents(signature: Signature, *, updated: tuple[str, ...], read: tuple[str, ...]) -> bool:
    return _space(signature, updated, read).shares_code


def _write(
    w: KernelWriter, *, expressions: tuple[Expression, ...], updated: tuple[str, ...], read: tuple[str, ...]
) -> None:
    dtypes = tuple(w.signature.dtypes[name] for name in (*updated, *read))

    def body(at: str, others: list[str]) -> None:
        places = {**dict.fromkeys(updated, at), **dict(zip(read, others, strict=True))}
        # All are read before the first is written.
        given = {i: w.read(name, places[name]) for i, name in enumerate((*updated, *read))}
        made = [emit_expression(w, infer_dtypes(each, dtypes, dtypes[0]), given, {}) for each in expressions]
        for name, value in zip(updated, made, strict=True):
            w.store(name, at, value)

    write_iteration(w, _space(w.signature, updated, read), body)


def _launch(signature: Signature, limits: DeviceLimits, *, updated: tuple[str, ...], read: tuple[str, ...]) -> Launch:
    return iteration_launch(_space(signature, updated, read), limits)


def _whole(signature: Signature, *, read: tuple[str, ...]) -> list[str]:
    y = signature.shapes["y0"]
    return [name for name in read if len(signature.shapes[name]) < len(y) or signature.shapes[name][:1] != y[:1]]


def _grain(signature: Signature) -> int:
    return -(-VECTOR_ITEMS // max(1, elements(signature, "y0") // max(1, signature.shapes["y0"][0])))
