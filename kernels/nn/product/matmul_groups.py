# SPDX-License-Identifier: Apache-2.0
"""Matrix products by work-groups, with either operand transposed; see `syclsched.kernels.nn.product.tiled_products`."""

from __future__ import annotations

from functools import partial

from syclsched.kernels.common import Ints
from syclsched.kernels.groups import implementation
from syclsched.kernels.nn import activation as act
from syclsched.kernels.nn.activation import Activation
from syclsched.kernels.nn.geometry import size
from syclsched.kernels.nn.opencl_types import literal, sum_dtype
from syclsched.kernels.nn.product.matmul_blocks import ProductShape, bias_strides
from syclsched.kernels.nn.product.tiled_products import GroupTiling, Operand, ProductExtents, source
from syclsched.model.operation import DeviceLimits, Implementation, Launch, OpenCLSource, Signature


def matmul(
    *,
    transpose_a: bool,
    transpose_b: bool,
    alpha: float,
    beta: float,
    bias: bool,
    residual: bool,
    activation: Activation,
) -> Implementation:
    """Return the implementation of `syclsched.kernels.nn.product.matmul`."""
    lying = {"transpose_a": transpose_a, "transpose_b": transpose_b}
    more = {"alpha": alpha, "beta": beta, "activation": activation}
    return implementation(
        partial(_source, bias=bias, residual=residual, **lying, **more), partial(_launch, **lying), refuses=_refuses
    )


def _refuses(signature: Signature) -> str | None:
    return None if size(signature.shapes["y"]) else "the result must not be empty"


def _extents(shape: ProductShape) -> ProductExtents:
    return ProductExtents(shape.m, shape.n, shape.k, size(shape.batch))


def _launch(signature: Signature, limits: DeviceLimits, *, transpose_a: bool, transpose_b: bool) -> Launch:
    extents = _extents(ProductShape.of(signature, transpose_a, transpose_b))
    return GroupTiling.of(extents, sum_dtype(signature.dtypes["y"]), limits).launch(extents)


def _source(
    signature: Signature,
    limits: DeviceLimits,
    *,
    transpose_a: bool,
    transpose_b: bool,
    alpha: float,
    beta: float,
    bias: bool,
    residual: bool,
    activation: Activation,
) -> OpenCLSource:
    shape, dtype = ProductShape.of(signature, transpose_a, transpose_b), signature.dtypes["y"]
    kind, extents = sum_dtype(dtype), _extents(shape)
    names = ["__global T* restrict y", "__global const T* restrict a", "__global const T* restrict b"]
    names += ["__global const T* restrict c"] * bias + ["__global const T* restrict r"] * residual
    begin = ["I rest = product;"] if shape.batch else []
    begin += [
        f"const I n{axis} = rest % {shape.batch[axis]}; rest /= {shape.batch[axis]};"
        for axis in reversed(range(len(shape.batch)))
    ]

    def offset(steps: Ints) -> str:
        return " + ".join([f"n{axis} * {step}" for axis, step in enumerate(steps) if step] or ["0"])

    begin += [f"a += ({offset(shape.a)}) * {shape.m * shape.k}; b += ({offset(shape.b)}) * {shape.n * shape.k};"]
    begin += [f"y += product * {shape.m * shape.n};"]
    finish = [f"v *= {literal(alpha, kind)};"] if alpha != 1 else []
    if bias:
        *steps, down, along = bias_strides(signature, shape)
        begin += [f"c += {offset(tuple(steps))};"]
        factor = "" if beta == 1 else f"{literal(beta, kind)} * "
        finish += [f"v += {factor}READ(c, row * {down} + column * {along});"]
    if residual:
        begin += [f"r += product * {shape.m * shape.n};"]
        finish += [f"v += READ(r, row * {shape.n} + column);"]
    finish += [act.opencl(activation, "v", kind), f"WRITE(y, row * {shape.n} + column, v);"]
    a = f"term * {shape.m} + row" if transpose_a else f"row * {shape.k} + term"
    b = f"column * {shape.k} + term" if transpose_b else f"term * {shape.n} + column"
    return source(
        "matmul",
        ", ".join(names),
        dtype,
        max(map(size, signature.shapes.values())),
        extents,
        GroupTiling.of(extents, kind, limits),
        begin=" ".join(begin),
        left=Operand(f"v = READ(a, {a});", by_term=not transpose_a),
        right=Operand(f"v = READ(b, {b});", by_term=transpose_b),
        finish=" ".join(finish),
    )
