# SPDX-License-Identifier: Apache-2.0
"""Matrix products in OpenCL C: register blocks of rows of a by columns of b, with either operand transposed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from syclsched.kernels.common import Ints
from syclsched.kernels.nn import activation as act
from syclsched.kernels.nn import panels
from syclsched.kernels.nn.activation import Activation
from syclsched.kernels.nn.geometry import size
from syclsched.kernels.nn.opencl_types import empty_kernel, header, literal, sum_dtype
from syclsched.kernels.nn.panels import RegisterBlock
from syclsched.model.operation import DeviceLimits, Launch, OpenCLSource, Signature


def strides(shape: Ints, like: Ints) -> Ints:
    """Return the strides, in elements, of an array broadcast to shape ``like``: 0 for repeated axes."""
    shape = (1,) * (len(like) - len(shape)) + shape
    found, step = [], 1
    for extent in reversed(shape):
        found.append(0 if extent == 1 else step)
        step *= extent
    return tuple(reversed(found))


@dataclass(frozen=True, slots=True)
class ProductShape:
    """A batch of matrix products, with as few matrices as possible."""

    batch: Ints  # extents of the batch
    #: Extents of each product.
    m: int
    n: int
    k: int
    #: Strides of a and b along each batch axis, in elements.
    a: Ints
    b: Ints

    @classmethod
    def of(cls, signature: Signature, transpose_a: bool, transpose_b: bool) -> ProductShape:
        """Return the products of a signature; a batch with a common b becomes one product with more rows."""
        y, a, b = (signature.shapes[name] for name in ("y", "a", "b"))
        k = a[-2] if transpose_a else a[-1]
        before = y[:-2]
        c = signature.shapes.get("c", ())
        plain = c == y or size(c[:-1]) == 1
        if not transpose_a and size(b[:-2]) == 1 and a[:-2] == before and plain:
            return cls((), size(before) * y[-2], y[-1], k, (), ())
        apart_a = tuple(step * y[-2] * k for step in strides(a[:-2], before))
        apart_b = tuple(step * y[-1] * k for step in strides(b[:-2], before))
        return cls(before, y[-2], y[-1], k, apart_a, apart_b)

    def block(self, dtype: str) -> RegisterBlock:
        """Return the block of results that a work-item computes."""
        return RegisterBlock.of(self.m, self.n, dtype)

    def items(self, dtype: str) -> int:
        """Return the number of blocks."""
        block = self.block(dtype)
        return size(self.batch) * panels.block_count(self.m, block.rows) * panels.block_count(self.n, block.columns)


def launch(signature: Signature, limits: DeviceLimits, *, transpose_a: bool, transpose_b: bool) -> Launch:
    """Return the index space."""
    if not size(signature.shapes["y"]):
        return Launch((1,), (1,))
    return panels.launch(limits, ProductShape.of(signature, transpose_a, transpose_b).items(signature.dtypes["y"]))


def prepare(
    signature: Signature, queue: Any, constants: Mapping[str, Any], *, transpose_a: bool, transpose_b: bool
) -> Mapping[str, Any]:
    """Return the constants with b packed into panels."""
    if "b" not in constants or not size(signature.shapes["y"]) or not size(signature.shapes["b"]):
        return constants
    b = constants["b"]
    shape = ProductShape.of(signature, transpose_a, transpose_b)
    columns = b.reshape(size(b.shape[:-2]), *b.shape[-2:])
    columns = columns if transpose_b else columns.swapaxes(1, 2)
    return {**constants, "b": panels.packed(columns, shape.n, shape.block(signature.dtypes["y"]))}


def load(
    signature: Signature,
    *,
    transpose_a: bool,
    transpose_b: bool,
    alpha: float,
    beta: float,
    bias: bool,
    residual: bool,
    activation: Activation,
) -> OpenCLSource:
    """Return the kernel of a signature."""
    parameters = "__global T* restrict y, __global const T* restrict a, __global const T* restrict b"
    parameters += ", __global const T* restrict c" if bias else ""
    parameters += ", __global const T* restrict r" if residual else ""
    dtype = signature.dtypes["y"]
    if not size(signature.shapes["y"]):
        return empty_kernel("matmul", parameters.replace("T*", "uchar*"))
    shape = ProductShape.of(signature, transpose_a, transpose_b)
    block = shape.block(dtype)
    is_packed = "b" in signature.constants and size(signature.shapes["b"]) > 0
    tall, count = panels.block_count(shape.m, block.rows), panels.block_count(shape.n, block.columns)

    out = [f"  size_t id = get_global_id(0);\n  if (id >= {shape.items(dtype)}) return;"]
    out.append(f"  const int m = min((int)(id % {tall}) * {block.rows}, {shape.m - block.rows});")
    out.append(f"  const int panel = id / {tall} % {count};")
    out.append(f"  const int n = min(panel * {block.columns}, {shape.n - block.columns});")
    out.append(f"  size_t rest = id / {tall * count}; const size_t to = (rest * {shape.m} + m) * {shape.n} + n;")
    out.extend(
        f"  const size_t i{axis} = rest % {shape.batch[axis]}; rest /= {shape.batch[axis]};"
        for axis in reversed(range(len(shape.batch)))
    )

    def offset(steps: Ints) -> str:
        return " + ".join([f"i{axis} * {step}" for axis, step in enumerate(steps) if step] or ["0"])

    down, along = (1, shape.m) if transpose_a else (shape.k, 1)
    out.append(f"  a += {offset(shape.a)} + (size_t)m * {down};")
    if is_packed:
        matrix = max(1, shape.n * shape.k)
        number_of = offset(tuple(step // matrix for step in shape.b))
        out.append(f"  b += (({number_of}) * {count} + panel) * {shape.k * block.columns};")
        weights, lanes = f"b + (size_t)k * {block.columns}", 1
    elif transpose_b:
        out.append(f"  b += {offset(shape.b)} + (size_t)n * {shape.k};")
        weights, lanes = "b + k", shape.k
    else:
        out.append(f"  b += {offset(shape.b)} + n;")
        weights, lanes = f"b + (size_t)k * {shape.n}", 1
    out.append(f"  {panels.declare(block)}")
    values = [f"a[(size_t)k * {along} + {row * down}]" for row in range(block.rows)]
    term = panels.step(block, values, weights, lanes=lanes)
    out.append(f"  for (int k = 0; k < {shape.k}; ++k) {{\n      {term}\n  }}")

    added = ""
    if bias:
        steps = bias_strides(signature, shape)
        out.append(f"  c += {offset(steps[:-2])} + (size_t)m * {steps[-2]} + n * {steps[-1]};")
        added = f"c + {{row}} * {steps[-2]}" + (" + {column}" if steps[-1] else "")
        added = f"LOADV({added})" if steps[-1] else f"(AV)(A)*({added})"
        added = added if beta == 1 else f"{literal(beta, sum_dtype(dtype))} * {added}"
    for row in range(block.rows):
        for j in range(block.vectors):
            name, column = f"s{row}_{j}", j * block.width
            here = f"to + {row * shape.n + column}"
            out.append(f"  {name} *= {literal(alpha, sum_dtype(dtype))};" if alpha != 1 else "")
            out.append(f"  {name} += {added.format(row=row, column=column)};" if bias else "")
            out.append(f"  {name} += LOADV(r + {here});" if residual else "")
            out.append(f"  {act.opencl(activation, name, sum_dtype(dtype), 'AV')} STOREV(y + {here}, {name});")
    body = "\n".join(filter(str.strip, out))
    head = header(dtype) + panels.preamble(block, dtype)
    return OpenCLSource(f"{head}WHOLE_VECTORS __kernel void matmul({parameters}) {{\n{body}\n}}\n", "matmul")


def bias_strides(signature: Signature, shape: ProductShape) -> Ints:
    """Return c's strides along the batch, rows and columns, in elements: 0 where repeated."""
    c = signature.shapes["c"]
    if c == signature.shapes["y"] and not shape.batch:
        return (shape.n, 1)
    if size(c[:-1]) == 1:
        return (0,) * (len(shape.batch) + 1) + (int(size(c) > 1),)
    return strides(c, (*shape.batch, shape.m, shape.n))
