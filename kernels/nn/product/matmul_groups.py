# SPDX-License-Identifier: Apache-2.0
"""Matrix products by work-groups, of transposed or interleaved arrays; see `kernels.nn.product.tiled_products`."""

from __future__ import annotations

from collections.abc import Collection
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
    interleaved: Collection[str],
    alpha: float,
    beta: float,
    bias: bool,
    residual: bool,
    activation: Activation,
) -> Implementation:
    """Return the implementation of `syclsched.kernels.nn.product.matmul`."""
    lying = {"transpose_a": transpose_a, "transpose_b": transpose_b, "interleaved": interleaved}
    more = {"alpha": alpha, "beta": beta, "activation": activation}
    return implementation(
        partial(_source, bias=bias, residual=residual, **lying, **more), partial(_launch, **lying), refuses=_refuses
    )


def _refuses(signature: Signature) -> str | None:
    return None if size(signature.shapes["y"]) else "the result must not be empty"


def _extents(shape: ProductShape) -> ProductExtents:
    return ProductExtents(shape.m, shape.n, shape.k, size(shape.batch))


def _launch(
    signature: Signature, limits: DeviceLimits, *, transpose_a: bool, transpose_b: bool, interleaved: Collection[str]
) -> Launch:
    extents = _extents(ProductShape.of(signature, transpose_a, transpose_b, interleaved))
    return GroupTiling.of(extents, sum_dtype(signature.dtypes["y"]), limits).launch(extents)


def _source(
    signature: Signature,
    limits: DeviceLimits,
    *,
    transpose_a: bool,
    transpose_b: bool,
    interleaved: Collection[str],
    alpha: float,
    beta: float,
    bias: bool,
    residual: bool,
    activation: Activation,
) -> OpenCLSource:
    shape, dtype = ProductShape.of(signature, transpose_a, transpose_b, interleaved), signature.dtypes["y"]
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

    apart = {"a": shape.m if transpose_a else shape.k, "b": shape.k if transpose_b else shape.n, "y": shape.n}
    sizes = {"a": shape.m * shape.k, "b": shape.n * shape.k, "y": shape.m * shape.n}
    begins = {name: f"({offset(shape.steps(name))}) * {sizes[name]}" for name in sizes}
    for name in interleaved:
        steps, apart[name] = shape.interleaved_steps(name)
        begins[name] = offset(steps)
    begin += [f"{name} += {first};" for name, first in begins.items()]
    finish = [f"v *= {literal(alpha, kind)};"] if alpha != 1 else []
    if bias:
        *steps, down, along = bias_strides(signature, shape)
        begin += [f"c += {offset(tuple(steps))};"]
        factor = "" if beta == 1 else f"{literal(beta, kind)} * "
        finish += [f"v += {factor}READ(c, row * {down} + column * {along});"]
    if residual:
        begin += [f"r += {begins['y']};"]
        finish += [f"v += READ(r, row * {apart['y']} + column);"]
    finish += [act.opencl(activation, "v", kind), f"WRITE(y, row * {apart['y']} + column, v);"]
    a = f"term * {apart['a']} + row" if transpose_a else f"row * {apart['a']} + term"
    b = f"column * {apart['b']} + term" if transpose_b else f"term * {apart['b']} + column"
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
