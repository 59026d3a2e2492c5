# SPDX-License-Identifier: Apache-2.0
"""`matmul`: matrix products, single or batched, with bias, residual and activation.

Arrays may be *interleaved*: the rows of their matrices come before the last axis of the batch. Attention's heads lie so
before and after products with weights.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache, partial
from typing import Any

from syclsched.kernels.common import ITEM_BYTES, REAL_DTYPES, Ints, numpy_implementation, with_recipe
from syclsched.kernels.nn import activation as act
from syclsched.kernels.nn.activation import Activation
from syclsched.kernels.nn.geometry import size
from syclsched.kernels.nn.line_operations import number
from syclsched.kernels.nn.opencl_types import FLOATS, sum_dtype
from syclsched.kernels.nn.panels import ROWS, has_small_registers
from syclsched.kernels.nn.product import matmul_blocks, matmul_groups
from syclsched.kernels.onednn.operations import matmul as onednn
from syclsched.kernels.tensor.writing.implementation_factory import generated_implementations
from syclsched.model.access import AccessMode
from syclsched.model.operation import Operation, Parameter, Signature, Split, Work

#: Names of arrays.
Names = tuple[str, ...]


def broadcast(*shapes: Ints) -> Ints | None:
    """Return the shape that shapes broadcast to, as in NumPy; None if they do not."""
    length = max(map(len, shapes), default=0)
    found = []
    for sizes in zip(*((1,) * (length - len(shape)) + shape for shape in shapes), strict=True):
        kinds = {each for each in sizes if each != 1}
        if len(kinds) > 1:
            return None
        found.append(kinds.pop() if kinds else 1)
    return tuple(found)


def extents(a: Ints, b: Ints, transpose_a: bool, transpose_b: bool) -> tuple[int, int, int]:
    """Return m, n and k of a product of (m, k) and (k, n) matrices."""
    m, k = a[-2:] if not transpose_a else a[:-3:-1]
    n = b[-2] if transpose_b else b[-1]
    return m, n, k


def _check(
    signature: Signature, *, transpose_a: bool, transpose_b: bool, interleaved: Names, bias: bool, residual: bool
) -> str | None:
    rank = len(signature.shapes["y"])
    few = next((name for name in interleaved if not 4 <= len(signature.shapes[name]) == rank), None)
    if few is not None:
        return f"{few} {signature.shapes[few]} is interleaved, and has four axes at least, as many as y"
    shapes = matmul_blocks.by_matrices(signature.shapes, interleaved)
    y, a, b = (shapes[name] for name in ("y", "a", "b"))
    if len(a) < 2 or len(b) < 2:
        return f"a {a} and b {b} have two axes at least"
    m, n, k = extents(a, b, transpose_a, transpose_b)
    batch = broadcast(a[:-2], b[:-2])
    if k != (b[-1] if transpose_b else b[-2]) or batch is None:
        how = " and ".join(f"{name} transposed" for name, is_so in (("a", transpose_a), ("b", transpose_b)) if is_so)
        return f"a {a} and b {b} cannot be multiplied" + (f", {how}" if how else "")
    if y != (*batch, m, n):
        return f"y of a {a} and b {b} is {(*batch, m, n)}, not {y}"
    if bias and (broadcast(shapes["c"], y) != y or ("y" in interleaved and size(shapes["c"][:-1]) != 1)):
        return f"c {shapes['c']} does not broadcast to y {y}"
    if residual and signature.shapes["r"] != signature.shapes["y"]:
        return f"r is as y {signature.shapes['y']}, not {signature.shapes['r']}"
    return None


def _work(signature: Signature, *, transpose_a: bool, interleaved: Names, extra: int) -> Work:
    y, dtype = signature.shapes["y"], signature.dtypes["y"]
    a = matmul_blocks.by_matrices(signature.shapes, interleaved)["a"]
    k = a[-2] if transpose_a else a[-1]
    moved = sum(map(size, signature.shapes.values())) * ITEM_BYTES[dtype]
    return Work(size(y) * (2.0 * k + extra), float(moved), dtype, float(max(1, size(y))))


def _grain(signature: Signature) -> int:
    return ROWS if len(signature.shapes["y"]) == 2 else 1


def _whole(signature: Signature) -> list[str]:
    """Return the inputs that every chunk of y's rows needs whole: broadcast ones, and b of a 2-D product."""
    y = signature.shapes["y"]
    repeated = [name for name in signature.shapes if name != "y" and _repeats(signature.shapes[name], y)]
    return [*repeated, "b"] if len(y) == 2 else repeated


def _repeats(shape: Ints, y: Ints) -> bool:
    return len(shape) < len(y) or shape[0] != y[0]


def _refuses(signature: Signature) -> str | None:
    """Return why the Python kernel does not support a product, or None."""
    if any(len(signature.shapes[name]) != 2 for name in "ab"):
        return "it multiplies two matrices, not many"
    if 0 in signature.shapes["y"]:
        return "the result must not be empty"
    if "c" in signature.shapes and signature.shapes["c"] != signature.shapes["y"][-1:]:
        return "it adds a bias of one number for each column"
    return None


def _host(
    *,
    y: Any,
    a: Any,
    b: Any,
    c: Any = None,
    r: Any = None,
    transpose_a: bool,
    transpose_b: bool,
    interleaved: Names,
    alpha: float,
    beta: float,
    activation: Activation,
) -> None:
    import numpy as np

    dtype = np.dtype(sum_dtype(str(y.dtype)))
    a, b = (each.astype(dtype, copy=False) for each in (a, b))
    a, b = (np.swapaxes(each, -2, -3) if name in interleaved else each for name, each in (("a", a), ("b", b)))
    if "y" in interleaved:
        y, r = np.swapaxes(y, -2, -3), None if r is None else np.swapaxes(r, -2, -3)
    total = np.matmul(np.swapaxes(a, -1, -2) if transpose_a else a, np.swapaxes(b, -1, -2) if transpose_b else b)
    if alpha != 1:
        total *= dtype.type(alpha)
    if c is not None:
        total += c if beta == 1 else dtype.type(beta) * c
    if r is not None:
        total += r
    y[...] = act.numpy(activation, total)


@cache
def _matmul(
    transpose_a: bool,
    transpose_b: bool,
    interleaved: Names,
    alpha: float,
    beta: float,
    bias: bool,
    residual: bool,
    activation: Activation,
) -> Operation:
    names = [
        f"matmul{'_t' if transpose_a else '_n'}{'t' if transpose_b else 'n'}",
        f"interleaved {''.join(interleaved)}" if interleaved else "",
        f"alpha={number(alpha)}" if alpha != 1 else "",
        ("bias" if beta == 1 else f"bias*{number(beta)}") if bias else "",
        "residual" if residual else "",
        act.label(activation),
    ]
    parameters = (
        Parameter("y", AccessMode.WRITE, dtypes=FLOATS),
        Parameter("a", AccessMode.READ, like="y"),
        Parameter("b", AccessMode.READ, like="y"),
        *([Parameter("c", AccessMode.READ, like="y")] if bias else []),
        *([Parameter("r", AccessMode.READ, like="y")] if residual else []),
    )
    attributes: Any = {"transpose_a": transpose_a, "transpose_b": transpose_b, "interleaved": interleaved}
    scaled = {"alpha": alpha, "beta": beta, "activation": activation}
    known: Any = {"bias": bias, "residual": residual, **scaled, **attributes}
    opencl, numba = (
        replace(
            each, prepare=partial(matmul_blocks.prepare, **attributes), form=partial(matmul_blocks.form, **attributes)
        )
        for each in generated_implementations(
            parameters,
            partial(matmul_blocks.write, **known),
            partial(matmul_blocks.launch, **attributes),
            # As oneDNN's, which packs the weights in every call where it has no AVX-512.
            efficiency=0.7 if has_small_registers() else 0.5,
            revision="7",
            numba_dtypes=REAL_DTYPES,
            takes_extents=partial(matmul_blocks.takes_extents, **attributes),
        )
    )
    numba = replace(numba, requires=replace(numba.requires, refuses=_refuses), efficiency=0.35)
    # Transposed operands and activations are left to the OpenCL C kernel, which compiles faster.
    is_plain = not transpose_a and not transpose_b and not interleaved and not activation
    host = partial(_host, **scaled, **attributes)
    return Operation(
        name=" ".join(filter(None, names)),
        parameters=parameters,
        implementations=(
            onednn.matmul(residual=residual, **scaled, **attributes),
            matmul_groups.matmul(**known),
            opencl,
            *[numba] * is_plain,
            numpy_implementation(host, efficiency=0.4),
        ),
        work=partial(
            _work,
            transpose_a=transpose_a,
            interleaved=interleaved,
            extra=(alpha != 1) + bias + residual + act.cost(activation),
        ),
        check=partial(_check, bias=bias, residual=residual, **attributes),
        split=None
        if transpose_a
        else Split(
            rows=("y", "a", "b", *(["c"] if bias else []), *(["r"] if residual else [])),
            grain=_grain,
            inexact=("onednn", "numpy"),
            whole=_whole,
        ),
    )


@with_recipe
def matmul(
    transpose_a: bool = False,
    transpose_b: bool = False,
    alpha: float = 1.0,
    beta: float = 1.0,
    bias: bool = False,
    residual: bool = False,
    activation: Activation = (),
    interleaved: Names = (),
) -> Operation:
    """Return the product y = activation(alpha a b + beta c + r); ``interleaved`` names those of a, b and y that are."""
    return _matmul(
        bool(transpose_a),
        bool(transpose_b),
        tuple(name for name in ("a", "b", "y") if name in interleaved),
        float(alpha),
        float(beta) if bias else 1.0,
        bool(bias),
        bool(residual),
        act.checked(activation),
    )
