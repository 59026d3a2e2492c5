# SPDX-License-Identifier: Apache-2.0
"""Importers of operators with constants of 2, 4 or 8 bits, which have a scale for each block of a row."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from syclsched.frontends.onnx.importing.importer_registry import Inputs, Names, imports
from syclsched.frontends.onnx.importing.microsoft.standard_operators import refuse
from syclsched.frontends.onnx.importing.network_builder import NetworkBuilder
from syclsched.frontends.onnx.model_file.onnx_model import MICROSOFT, ModelNode
from syclsched.kernels.nn.quantised.block_matmul import unpacked

_BITS: Final = (2, 4, 8)


@imports("MatMulNBits", domain=MICROSOFT)
def _matmul_n_bits(b: NetworkBuilder, node: ModelNode, inputs: Inputs) -> Names:
    """Import a product with constant weights of few bits; those of 4 bits are unpacked in the kernel, others now."""
    x, packed, scales = inputs.first("A", "B", "scales")
    refuse(b, node, inputs=[(4, "g_idx")], attributes=("weight_prepacked",))
    bits, block = node.integer("bits", 4), node.integer("block_size")
    rows, columns = node.integer("N"), node.integer("K")
    if bits not in _BITS or block < 8 // bits:
        raise b.wrong(f"{bits} bits in blocks of {block}", hint=f"Supported: {', '.join(map(str, _BITS))} bits")
    blocks = -(-columns // block)
    expected = (rows, blocks, block * bits // 8)
    if b.shape(packed) != expected:
        raise b.wrong(f"weights of shape {b.shape(packed)}, expected {expected}")
    zeros, bias = inputs.optional(3), inputs.optional(5)
    in_kernel = _block_matmul(b, x, packed, scales, zeros, bias, block) if bits == 4 else None
    if in_kernel is not None:
        return [in_kernel]
    full = unpacked(b.require(packed, "its weights"), bits).astype(np.float32)
    factors = np.asarray(b.require(scales, "its scales"), np.float32).reshape(rows, blocks, 1)
    full -= _zeros(b, zeros, bits, rows, blocks)
    full *= factors
    dense = b.constant(full.reshape(rows, blocks * block)[:, :columns].astype(b.dtype(x), order="C", copy=False))
    return [b.matmul(x, dense, bias, transpose_b=True)]


def _block_matmul(
    b: NetworkBuilder, x: str, packed: str, scales: str, zeros: str | None, bias: str | None, block: int
) -> str | None:
    """Return the product that unpacks weights where they are multiplied; None if they are unpacked beforehand."""
    rows, blocks, _ = b.shape(packed)
    columns = b.shape(x)[-1] if b.shape(x) else 0
    if b.dtype(x) != "float32" or b.dtype(scales) != "float32" or block % 8 or columns % 8 or not columns:
        return None
    if bias is not None and (b.shape(bias) != (rows,) or b.dtype(bias) != "float32"):
        return None
    for name, what in ((packed, "its weights"), (scales, "its scales")):
        b.require(name, what)
    if zeros is not None:
        given = b.require(zeros, "its zero points")
        if given.dtype != np.uint8:
            return None
        zeros = b.constant(unpacked(given.reshape(rows, -1), 4)[:, :blocks])
    return b.emit("block_matmul", [x, packed, b.reshape(scales, (rows, blocks)), zeros, bias], block=block)


def _zeros(b: NetworkBuilder, name: str | None, bits: int, rows: int, blocks: int) -> Any:
    """Return the zero points of all blocks, which may be packed as the weights are."""
    if name is None:
        return np.float32(1 << (bits - 1))
    given = b.require(name, "its zero points")
    if given.dtype == np.uint8:
        given = unpacked(given.reshape(rows, -1), bits)[:, :blocks]
    return np.asarray(given, np.float32).reshape(rows, blocks, 1)


@imports("GatherBlockQuantized", domain=MICROSOFT)
def _gather_block_quantized(b: NetworkBuilder, node: ModelNode, inputs: Inputs) -> Names:
    """Import a selection of rows of a packed table; only the rows selected are unpacked."""
    table, indices, scales = inputs.first("data", "indices", "scales")
    bits, block, rank = node.integer("bits", 4), node.integer("block_size", 128), len(b.shape(table))
    axes = b.axis(node.integer("gather_axis"), rank), b.axis(node.integer("quantize_axis", 1), rank)
    if b.dtype(table) != "uint8" or bits not in _BITS or axes != (0, rank - 1) or block < 1:
        raise b.wrong(
            f"{b.dtype(table)} data, {bits} bits, blocks of {block}, gather_axis {axes[0]} and quantize_axis {axes[1]}",
            hint="Supported: uint8 data of 2, 4 or 8 bits, rows of the first axis, blocks along the last one",
        )
    numbers = _unpacked_rows(b, b.gather(table, indices), bits)
    columns = b.shape(numbers)[-1]
    places = b.constant(np.minimum(np.arange(columns) // block, b.shape(scales)[-1] - 1))
    spread = [numbers, b.gather(b.gather(scales, indices), places, len(b.shape(numbers)) - 1)]
    zeros = inputs.optional(3)
    zero: Any = ("const", float(1 << (bits - 1)), b.dtype(scales))
    if zeros is not None:
        rows = _unpacked_rows(b, b.gather(zeros, indices), bits)
        spread.append(b.gather(rows, places, len(b.shape(rows)) - 1))
        zero = ("cast", b.dtype(scales), 2)
    return [b.elementwise(("mul", ("sub", ("cast", b.dtype(scales), 0), zero), 1), *spread)]


def _unpacked_rows(b: NetworkBuilder, packed: str, bits: int) -> str:
    """Return the numbers in bytes, along the last axis, as `unpacked`."""
    mask = ("const", (1 << bits) - 1, "uint8")
    parts = [
        b.elementwise(("bit_and", ("shift_right", 0, ("const", shift, "uint8")), mask), packed)
        for shift in range(0, 8, bits)
    ]
    *outer, count = b.shape(packed)
    return b.reshape(b.stack(parts, len(outer) + 1), (*outer, count * len(parts)))
