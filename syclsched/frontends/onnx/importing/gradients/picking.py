# SPDX-License-Identifier: Apache-2.0
"""Gradients of gathers, scatters, the largest elements, pooling, and regions."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from syclsched.frontends.onnx.importing.gradients.rules import Names, gradient_of, no_gradient
from syclsched.frontends.onnx.importing.network_builder import NetworkBuilder
from syclsched.frontends.onnx.network import CanonicalNode

Array = np.ndarray[Any, Any]


def _zeros(b: NetworkBuilder, like: str) -> str:
    return b.filled(b.shape(like), b.dtype(like))


@gradient_of("gather")
def _gather(b: NetworkBuilder, node: CanonicalNode, gradients: Names, wanted: Sequence[bool]) -> Names:
    gradient, x, indices = gradients[0] or "", node.inputs[0] or "", node.inputs[1] or ""
    axis, rank, count = node.attributes["axis"], len(b.shape(x)), len(b.shape(indices))
    known = b.known(indices)
    if known is not None and known.ndim == 1 and np.array_equal(np.sort(known), np.arange(b.shape(x)[axis])):
        return [b.gather(gradient, b.constant(np.argsort(known)), axis), None]
    # With the indexed axis first, the gradients of whole slices are added to their places.
    first = [*range(axis, axis + count), *range(axis), *range(axis + count, rank - 1 + count)]
    updates = b.transpose(gradient, first)
    shape = (b.shape(x)[axis], *b.shape(x)[:axis], *b.shape(x)[axis + 1 :])
    zeros = b.filled(shape, b.dtype(x))
    made = b.emit("scatter_nd", [zeros, b.with_axis(indices, count), updates], reduction="add")
    return [b.transpose(made, [*range(1, axis + 1), 0, *range(axis + 1, rank)]), None]


@gradient_of("gather_elements")
def _gather_elements(b: NetworkBuilder, node: CanonicalNode, gradients: Names, wanted: Sequence[bool]) -> Names:
    given = [_zeros(b, node.inputs[0] or ""), node.inputs[1], gradients[0]]
    return [b.emit("scatter_elements", given, axis=node.attributes["axis"], reduction="add"), None]


@gradient_of("gather_nd")
def _gather_nd(b: NetworkBuilder, node: CanonicalNode, gradients: Names, wanted: Sequence[bool]) -> Names:
    x, indices, batch = node.inputs[0] or "", node.inputs[1] or "", node.attributes["batch_dims"]
    if batch:
        shape = b.shape(indices)
        grid = np.indices(shape[:batch]).reshape(batch, -1).T.reshape(*shape[:batch], batch)
        whole = (*shape[:-1], batch)
        places = np.broadcast_to(grid.reshape(*shape[:batch], *(1,) * (len(shape) - batch - 1), batch), whole)
        indices = b.concat([b.constant(np.ascontiguousarray(places, b.dtype(indices))), indices], len(shape) - 1)
    return [b.emit("scatter_nd", [_zeros(b, x), indices, gradients[0]], reduction="add"), None]


@gradient_of("scatter_elements", "scatter_nd")
def _scatter(b: NetworkBuilder, node: CanonicalNode, gradients: Names, wanted: Sequence[bool]) -> Names:
    gradient, indices, reduction = gradients[0] or "", node.inputs[1] or "", node.attributes["reduction"]
    if reduction not in ("none", "add"):
        raise no_gradient(node, f"a scatter that combines by {reduction!r} has no gradient")
    by_x, by_updates = gradient, None
    if reduction == "none" and wanted[0]:
        given = [gradient, indices, _zeros(b, node.inputs[2] or "")]
        by_x = b.emit(node.kind, given, **node.attributes)
    if wanted[2] and node.kind == "scatter_nd":
        by_updates = b.emit("gather_nd", [gradient, indices], batch_dims=0)
    elif wanted[2]:
        by_updates = b.emit("gather_elements", [gradient, indices], axis=node.attributes["axis"])
    return [by_x, None, by_updates]


@gradient_of("topk")
def _topk(b: NetworkBuilder, node: CanonicalNode, gradients: Names, wanted: Sequence[bool]) -> Names:
    indices = node.outputs[1]
    if gradients[0] is None:
        return [None]
    if indices is None:
        raise no_gradient(node, "its indices are needed for a gradient")
    given = [_zeros(b, node.inputs[0] or ""), indices, gradients[0]]
    return [b.emit("scatter_elements", given, axis=node.attributes["axis"], reduction="add")]


@gradient_of("pool")
def _pool(b: NetworkBuilder, node: CanonicalNode, gradients: Names, wanted: Sequence[bool]) -> Names:
    gradient, x, at = gradients[0] or "", node.inputs[0] or "", node.attributes
    if at["channels_last"]:
        raise no_gradient(node, "pooling is differentiated before it is optimised")
    if at["mode"] == "average" and at["kernel"] == b.shape(x)[2:] and not any(at["pads"]):
        share = ("const", 1 / max(1, math.prod(at["kernel"])))
        return [b.elementwise(("mul", 0, share), gradient, shape=b.shape(x))]
    names = ("mode", "kernel", "strides", "dilations", "count_include_pad", "channels_last")
    pads = _reached_pads(b.shape(x)[2:], b.shape(gradient)[2:], at)
    if pads != tuple(at["pads"]) and at["mode"] == "average" and at["count_include_pad"]:
        # The mean of a window that reaches beyond the pads is of fewer elements than those of the others.
        shares = b.constant(_larger_shares(b.shape(x)[2:], b.shape(gradient)[2:], at).astype(b.dtype(x)))
        gradient = b.elementwise(("mul", 0, 1), gradient, shares)
    return [b.emit("pool_gradient", [x, gradient], **{name: at[name] for name in names}, pads=pads)]


@gradient_of("roi_align")
def _roi_align(b: NetworkBuilder, node: CanonicalNode, gradients: Names, wanted: Sequence[bool]) -> Names:
    dx, dregions = b.emit_all("roi_align_gradient", [*node.inputs, gradients[0]], **node.attributes)
    return [dx, dregions, None]


def _reached_pads(extents: Sequence[int], counts: Sequence[int], at: Mapping[str, Any]) -> tuple[int, ...]:
    """Return the pads of a pooling, with those at the end as far as its last windows reach."""
    rank, pads = len(extents), tuple(at["pads"])
    reach = [
        (count - 1) * at["strides"][i] + (at["kernel"][i] - 1) * at["dilations"][i] + 1 - pads[i] - extents[i]
        for i, count in enumerate(counts)
    ]
    return (*pads[:rank], *map(max, pads[rank:], reach))


def _larger_shares(extents: Sequence[int], counts: Sequence[int], at: Mapping[str, Any]) -> Array:
    """Return for each window the elements of a whole one by those that are within the pads."""
    rank, found = len(extents), np.ones(tuple(counts))
    for axis, (extent, count) in enumerate(zip(extents, counts, strict=True)):
        starts = np.arange(count)[:, None] * at["strides"][axis] - at["pads"][axis]
        places = starts + np.arange(at["kernel"][axis]) * at["dilations"][axis]
        within = (places < extent + at["pads"][axis + rank]).sum(1)
        found *= (at["kernel"][axis] / within).reshape(-1, *(1,) * (rank - axis - 1))
    return found


@gradient_of("rotary")
def _rotary(b: NetworkBuilder, node: CanonicalNode, gradients: Names, wanted: Sequence[bool]) -> Names:
    _, cosines, sines, positions = node.inputs
    back = b.elementwise(("neg", 0), sines or "")
    made = b.emit("rotary", [gradients[0], cosines, back, positions], interleaved=node.attributes["interleaved"])
    part = node.attributes.get("part")
    if part is not None:
        (batch, count, columns), (first, heads, size) = b.shape(node.inputs[0] or ""), part
        joined = b.reshape(b.transpose(made, (0, 2, 1, 3)), (batch, count, heads * size))
        made = b.pad(joined, (0, 0, first, 0, 0, columns - first - heads * size))
    return [made, None, None, None]
