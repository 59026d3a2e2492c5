# SPDX-License-Identifier: Apache-2.0
"""Gradients of operations that move elements: reshaping, transposition, slices, pads, concatenation, resizing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from syclsched.frontends.onnx.host_evaluation import evaluate_node
from syclsched.frontends.onnx.importing.gradients.rules import Names, gradient_of, no_gradient
from syclsched.frontends.onnx.importing.network_builder import NetworkBuilder
from syclsched.frontends.onnx.network import CanonicalNode, Value

Array = np.ndarray[Any, Any]


@gradient_of("reshape")
def _reshape(b: NetworkBuilder, node: CanonicalNode, gradients: Names, wanted: Sequence[bool]) -> Names:
    return [b.reshape(gradients[0] or "", b.shape(node.inputs[0] or ""))]


@gradient_of("transpose")
def _transpose(b: NetworkBuilder, node: CanonicalNode, gradients: Names, wanted: Sequence[bool]) -> Names:
    permutation = node.attributes["permutation"]
    return [b.transpose(gradients[0] or "", sorted(range(len(permutation)), key=lambda axis: permutation[axis]))]


@gradient_of("concat")
def _concat(b: NetworkBuilder, node: CanonicalNode, gradients: Names, wanted: Sequence[bool]) -> Names:
    axis, start = node.attributes["axis"], 0
    found: list[str | None] = []
    for name, asked in zip(node.inputs, wanted, strict=True):
        count = b.shape(name or "")[axis]
        found.append(b.part(gradients[0] or "", axis, start, count) if asked else None)
        start += count
    return found


@gradient_of("slice")
def _slice(b: NetworkBuilder, node: CanonicalNode, gradients: Names, wanted: Sequence[bool]) -> Names:
    gradient, shape = gradients[0] or "", b.shape(node.inputs[0] or "")
    starts, steps, extents = node.attributes["starts"], node.attributes["steps"], b.shape(gradient)
    for axis, (start, step, count, whole) in enumerate(zip(starts, steps, extents, shape, strict=True)):
        if step != 1 and count > 1:
            # Each element is picked from its place, or from one more than the last, which is zero.
            places = np.full(whole, count, np.int64)
            places[start + step * np.arange(count)] = np.arange(count)
            zero = [0] * len(shape) + [int(at == axis) for at in range(len(shape))]
            gradient = b.gather(b.pad(gradient, zero), b.constant(places), axis)
    begins = [start if step == 1 or n == 1 else 0 for start, step, n in zip(starts, steps, extents, strict=True)]
    ends = [whole - begin - n for whole, begin, n in zip(shape, begins, b.shape(gradient), strict=True)]
    return [b.pad(gradient, (*begins, *ends))]


@gradient_of("pad")
def _pad(b: NetworkBuilder, node: CanonicalNode, gradients: Names, wanted: Sequence[bool]) -> Names:
    gradient, shape = gradients[0] or "", b.shape(node.inputs[0] or "")
    pads, mode = node.attributes["pads"], node.attributes["mode"]
    if mode == "constant":
        return [b.slice(gradient, pads[: len(shape)], shape)]
    for axis, count in enumerate(shape):
        before, after = pads[axis], pads[axis + len(shape)]
        if before or after:
            line = {"pads": (before, after), "mode": mode, "value": 0}
            copies = _applied("pad", np.arange(count), (before + count + after,), line)
            gradient = contracted(b, gradient, axis, np.eye(count)[copies])
    return [gradient]


@gradient_of("resize")
def _resize(b: NetworkBuilder, node: CanonicalNode, gradients: Names, wanted: Sequence[bool]) -> Names:
    gradient, x = gradients[0] or "", b.values[node.inputs[0] or ""]
    at = dict(node.attributes)
    rank = len(x.shape)
    if at.get("channels_last") or (len(at.get("roi") or ()) not in (0, 2 * rank)):
        raise no_gradient(node, "this form of resize has no gradient")
    for axis, (count, made) in enumerate(zip(x.shape, b.shape(gradient), strict=True)):
        if count == made and at["scales"][axis] == 1:
            continue
        # Resizing is linear, and separate for each axis: the rows of its matrix are the resized unit vectors.
        roi = at.get("roi") or ()
        own = {
            **at,
            "scales": (1.0, at["scales"][axis]),
            **({"roi": (0.0, roi[axis], 1.0, roi[axis + rank])} if roi else {}),
        }
        matrix = _applied("resize", np.eye(count), (count, made), own)
        zero = _applied("resize", np.zeros((1, count)), (1, made), own)
        gradient = contracted(b, gradient, axis, (matrix - zero).T)
    return [gradient]


def _applied(kind: str, x: Array, shape: tuple[int, ...], attributes: dict[str, Any]) -> Array:
    values = {"x": Value("x", x.shape, x.dtype.name), "y": Value("y", shape, x.dtype.name)}
    return evaluate_node(CanonicalNode("", kind, ("x",), ("y",), attributes), values, {"x": x})["y"]


def contracted(b: NetworkBuilder, x: str, axis: int, matrix: Array) -> str:
    """Return the product of a value with a constant matrix (extent, new extent) along an axis."""
    rank = len(b.shape(x))
    last = b.transpose(x, [*(at for at in range(rank) if at != axis), axis])
    made = b.matmul(last, b.constant(matrix.astype(b.dtype(x))))
    return b.transpose(made, [*range(axis), rank - 1, *range(axis, rank - 1)])
