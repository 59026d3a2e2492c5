# SPDX-License-Identifier: Apache-2.0
"""Importer of MaxUnpool."""

from __future__ import annotations

import math

from syclsched.frontends.onnx.importing.importer_registry import Inputs, Names, UnsupportedFormError, imports
from syclsched.frontends.onnx.importing.network_builder import NetworkBuilder
from syclsched.frontends.onnx.model_file.dtypes import FLOATS
from syclsched.frontends.onnx.model_file.onnx_model import ModelNode


@imports("MaxUnpool")
def _max_unpool(b: NetworkBuilder, node: ModelNode, inputs: Inputs) -> Names:
    """Import MaxUnpool: elements are put to their places among zeros."""
    (x, indices), wanted = inputs.first("X", "I"), inputs.optional(2)
    shape, rank = b.shape(x), len(b.shape(x)) - 2
    if b.dtype(x) not in FLOATS or any(each in b.lengths for each in inputs.given()):
        raise UnsupportedFormError
    if b.shape(indices) != shape:
        raise b.wrong(f"indices of shape {b.shape(indices)} for an input of shape {shape}")
    kernel = node.integers_or("kernel_shape")
    strides, pads = node.integers("strides") or (1,) * rank, node.integers("pads") or (0,) * (2 * rank)
    if rank < 1 or len(kernel) != rank or len(strides) != rank or len(pads) != 2 * rank:
        raise b.wrong(f"kernel {kernel}, strides {strides} and pads {pads} for an input of shape {shape}")
    extents = [(shape[i + 2] - 1) * strides[i] - pads[i] - pads[i + rank] + kernel[i] for i in range(rank)]
    made, total = (*shape[:2], *extents), math.prod((*shape[:2], *extents))
    whole = made if wanted is None else b.integers(wanted, "the shape of the output")
    if len(whole) != len(made) or any(n < own for n, own in zip(whole, made, strict=False)):
        raise b.wrong(f"an output of shape {whole} for elements of {made}")
    given = [b.filled((total,), b.dtype(x)), *(b.reshape(each, (math.prod(shape),)) for each in (indices, x))]
    placed = b.reshape(b.emit("scatter_elements", given, axis=0, reduction="none"), made)
    ends = [n - own for n, own in zip(whole, made, strict=True)]
    return [b.pad(placed, (*(0 for _ in made), *ends))]
