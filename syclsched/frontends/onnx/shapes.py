# SPDX-License-Identifier: Apache-2.0
"""Shape and dtype inference for canonical nodes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, Final

from syclsched.errors import ModelError
from syclsched.frontends.onnx.network import CanonicalNode, Value
from syclsched.kernels.nn.product.matmul_blocks import by_matrices
from syclsched.kernels.nn.recurrence.recurrent import CELLS
from syclsched.kernels.tensor.reductions.reduce import reduced_shape
from syclsched.kernels.tensor.writing.expression import result_dtype

Shape = tuple[int, ...]
#: Shape and dtype.
ShapeDtype = tuple[Shape, str]


def infer(kind: str, inputs: Sequence[Value | None], attributes: Mapping[str, Any]) -> tuple[ShapeDtype, ...]:
    """Return the shape and dtype of each output of a canonical node."""
    return _RULES[kind]([each for each in inputs if each is not None], attributes)


def unused_output(node: CanonicalNode, values: Mapping[str, Value], position: int) -> ShapeDtype:
    """Return the shape and dtype of an output that has no name."""
    given = [None if name is None else values[name] for name in node.inputs]
    return infer(node.kind, given, node.attributes)[position]


def broadcast(shapes: Sequence[Shape]) -> Shape:
    """Return the common shape that shapes are broadcast to."""
    rank = max(map(len, shapes), default=0)
    extents: list[int] = []
    for axis in range(-rank, 0):
        found = {shape[axis] for shape in shapes if len(shape) >= -axis} - {1}
        if len(found) > 1:
            raise ModelError(f"shapes {', '.join(map(str, shapes))} cannot be broadcast against each other")
        extents.append(found.pop() if found else 1)
    return tuple(extents)


def _same(inputs: Sequence[Value], _: Mapping[str, Any]) -> tuple[ShapeDtype, ...]:
    return ((inputs[0].shape, inputs[0].dtype),)


def _spatial(x: Shape, channels_last: bool) -> tuple[int, int, Shape]:
    if len(x) < 3:
        raise ModelError(f"an array of shape {x} has no spatial axes, expected (batch, channels, ...)")
    return (x[0], x[-1], x[1:-1]) if channels_last else (x[0], x[1], x[2:])


def _arranged(batch: int, channels: int, extents: Sequence[int], channels_last: bool) -> Shape:
    return (batch, *extents, channels) if channels_last else (batch, channels, *extents)


def _windows(extents: Shape, kernel: Shape, attributes: Mapping[str, Any]) -> Shape:
    strides, pads, dilations = (attributes[name] for name in ("strides", "pads", "dilations"))
    rank = len(extents)
    if not len(kernel) == len(strides) == len(dilations) == rank or len(pads) != 2 * rank:
        raise ModelError(
            f"kernel {kernel}, strides {strides}, dilations {dilations} and pads {pads} do not fit {rank} spatial axes"
        )
    if min(*kernel, *strides, *dilations) < 1:
        raise ModelError(f"kernel {kernel}, strides {strides} and dilations {dilations} must be positive")
    made: list[int] = []
    for axis, extent in enumerate(extents):
        span = extent + pads[axis] + pads[axis + rank] - dilations[axis] * (kernel[axis] - 1) - 1
        made.append(max(span // strides[axis] + 1, 0))
    return tuple(made)


def _conv(inputs: Sequence[Value], attributes: Mapping[str, Any]) -> tuple[ShapeDtype, ...]:
    x, w = inputs[0], inputs[1]
    last, groups = attributes["channels_last"], attributes["groups"]
    batch, channels, extents = _spatial(x.shape, last)
    if len(w.shape) != len(x.shape) or groups < 1 or w.shape[1] * groups != channels or w.shape[0] % groups:
        raise ModelError(f"weights {w.shape} in {groups} groups do not fit {channels} channels of {x.shape}")
    if len(inputs) > 2 and inputs[2].shape != (w.shape[0],) and inputs[2].shape != x.shape:
        raise ModelError(f"bias {inputs[2].shape} does not fit {w.shape[0]} output channels")
    return ((_arranged(batch, w.shape[0], _windows(extents, w.shape[2:], attributes), last), x.dtype),)


def _conv_transpose(inputs: Sequence[Value], attributes: Mapping[str, Any]) -> tuple[ShapeDtype, ...]:
    x, w = inputs[0], inputs[1]
    last, groups = attributes["channels_last"], attributes["groups"]
    strides, pads, dilations = (attributes[name] for name in ("strides", "pads", "dilations"))
    extra = attributes["output_padding"]
    batch, channels, extents = _spatial(x.shape, last)
    rank = len(extents)
    if len(w.shape) != len(x.shape) or w.shape[0] != channels or groups < 1 or channels % groups:
        raise ModelError(f"weights {w.shape} in {groups} groups do not fit {channels} channels of {x.shape}")
    if not len(strides) == len(dilations) == len(extra) == rank or len(pads) != 2 * rank:
        raise ModelError(f"strides {strides}, dilations {dilations} and pads {pads} do not fit {rank} spatial axes")
    if min(*w.shape[2:], *strides, *dilations) < 1 or min(extra) < 0:
        raise ModelError(
            f"kernel {w.shape[2:]}, strides {strides} and dilations {dilations} must be positive, and output_padding "
            f"{extra} not negative"
        )
    made = tuple(
        strides[i] * (extents[i] - 1) + extra[i] + dilations[i] * (w.shape[2 + i] - 1) + 1 - pads[i] - pads[i + rank]
        for i in range(rank)
    )
    return ((_arranged(batch, w.shape[1] * groups, [max(n, 0) for n in made], last), x.dtype),)


def _pool(inputs: Sequence[Value], attributes: Mapping[str, Any]) -> tuple[ShapeDtype, ...]:
    (x,) = inputs
    batch, channels, extents = _spatial(x.shape, attributes["channels_last"])
    made = _windows(extents, attributes["kernel"], attributes)
    return ((_arranged(batch, channels, made, attributes["channels_last"]), x.dtype),)


def _conv_weights(inputs: Sequence[Value], attributes: Mapping[str, Any]) -> tuple[ShapeDtype, ...]:
    x, dy = inputs
    last, groups, kernel = attributes["channels_last"], attributes["groups"], tuple(attributes["kernel"])
    batch, channels, extents = _spatial(x.shape, last)
    outside = dy.shape[-1 if last else 1] if len(dy.shape) > 1 else 0
    if groups < 1 or channels % groups or outside % groups:
        raise ModelError(f"{groups} groups do not fit {channels} channels of {x.shape} and the gradient {dy.shape}")
    made = _arranged(batch, outside, _windows(extents, kernel, attributes), last)
    if dy.shape != made:
        raise ModelError(f"the gradient {dy.shape} does not fit the result {made} of the convolution of {x.shape}")
    return (((outside, channels // groups, *kernel), x.dtype),)


def _pool_gradient(inputs: Sequence[Value], attributes: Mapping[str, Any]) -> tuple[ShapeDtype, ...]:
    x, dy = inputs
    ((made, _),) = _pool([x], attributes)
    if dy.shape != made:
        raise ModelError(f"the gradient {dy.shape} does not fit the result {made} of the pooling of {x.shape}")
    return ((x.shape, x.dtype),)


def _roi_align(inputs: Sequence[Value], attributes: Mapping[str, Any]) -> tuple[ShapeDtype, ...]:
    x, regions, of = inputs
    if len(x.shape) != 4 or len(of.shape) != 1 or regions.shape != (*of.shape, 4):
        raise ModelError(f"regions of shape {regions.shape} of pictures {of.shape} for an input of shape {x.shape}")
    return (((*of.shape, x.shape[1], *attributes["cells"]), x.dtype),)


def _roi_align_gradient(inputs: Sequence[Value], attributes: Mapping[str, Any]) -> tuple[ShapeDtype, ...]:
    x, regions, of, dy = inputs
    ((made, _),) = _roi_align([x, regions, of], attributes)
    if dy.shape != made:
        raise ModelError(f"the gradient {dy.shape} does not fit the aligned regions {made} of {x.shape}")
    return ((x.shape, x.dtype), (regions.shape, regions.dtype))


def _per_channel(inputs: Sequence[Value], attributes: Mapping[str, Any]) -> tuple[ShapeDtype, ...]:
    x = inputs[0]
    if len(x.shape) < 2:
        raise ModelError(f"an array of shape {x.shape} has no channels")
    channels = x.shape[-1] if attributes["channels_last"] else x.shape[1]
    for given in inputs[1:]:
        if given.shape != (channels,):
            raise ModelError(f"{given.shape} numbers for {channels} channels of {x.shape}")
    return ((x.shape, x.dtype),)


def _layer_norm(inputs: Sequence[Value], attributes: Mapping[str, Any]) -> tuple[ShapeDtype, ...]:
    x = inputs[0]
    for given in inputs[1:]:
        if given.shape != x.shape[attributes["axis"] :]:
            raise ModelError(f"{given.shape} numbers to normalise {x.shape[attributes['axis'] :]}")
    return ((x.shape, x.dtype),)


def _layer_norm_gradient(inputs: Sequence[Value], attributes: Mapping[str, Any]) -> tuple[ShapeDtype, ...]:
    x, scale, dy = inputs
    if dy.shape != x.shape:
        raise ModelError(f"the gradient {dy.shape} does not fit the normalised {x.shape}")
    sums = (attributes["parts"], *scale.shape), x.dtype
    return (*_layer_norm([x, scale], attributes), sums, sums)


def _column_sums(inputs: Sequence[Value], attributes: Mapping[str, Any]) -> tuple[ShapeDtype, ...]:
    shape = broadcast([each.shape for each in inputs])
    sums = (attributes["parts"], *(1,) * (len(shape) - 2), shape[-1])
    dtypes = tuple(each.dtype for each in inputs)
    return tuple((sums, result_dtype(each, dtypes)) for each in attributes["expressions"])


def _column_moments(inputs: Sequence[Value], attributes: Mapping[str, Any]) -> tuple[ShapeDtype, ...]:
    (x,) = inputs
    return (((attributes["parts"], *(1,) * (len(x.shape) - 2), x.shape[-1]), x.dtype),) * 2


def _matmul(inputs: Sequence[Value], attributes: Mapping[str, Any]) -> tuple[ShapeDtype, ...]:
    if len(inputs[0].shape) < 2 or len(inputs[1].shape) < 2:
        raise ModelError(f"{inputs[0].shape} and {inputs[1].shape} are no matrices")
    interleaved = attributes.get("interleaved", ())
    shapes = by_matrices({"a": inputs[0].shape, "b": inputs[1].shape}, interleaved)
    a, b = shapes["a"], shapes["b"]
    m, k = a[-2:][:: -1 if attributes["transpose_a"] else 1]
    l, n = b[-2:][:: -1 if attributes["transpose_b"] else 1]  # noqa: E741
    if k != l:
        raise ModelError(f"{a} and {b} cannot be multiplied: {k} columns and {l} rows")
    shape = by_matrices({"y": (*broadcast([a[:-2], b[:-2]]), m, n)}, interleaved)["y"]
    for given in inputs[2:]:
        if broadcast([shape, given.shape]) != shape:
            raise ModelError(f"{given.shape} cannot be added to a product of shape {shape}")
    return ((shape, inputs[0].dtype),)


def _integer_matmul(inputs: Sequence[Value], attributes: Mapping[str, Any]) -> tuple[ShapeDtype, ...]:
    x, w = inputs[:2]
    if not x.shape or len(w.shape) != 2 or x.shape[-1] != w.shape[0]:
        raise ModelError(f"{x.shape} and {w.shape} cannot be multiplied")
    return (((*x.shape[:-1], w.shape[1]), attributes["result"]),)


def _dynamic_quantise(inputs: Sequence[Value], attributes: Mapping[str, Any]) -> tuple[ShapeDtype, ...]:
    return ((inputs[0].shape, "uint8"), ((), "float32"), ((), "uint8"), ((), "int32"))


def _integer_conv(inputs: Sequence[Value], attributes: Mapping[str, Any]) -> tuple[ShapeDtype, ...]:
    ((shape, _),) = _conv(inputs[:2], attributes)
    return ((shape, attributes["result"]),)


def _block_matmul(inputs: Sequence[Value], attributes: Mapping[str, Any]) -> tuple[ShapeDtype, ...]:
    x, w = inputs[:2]
    return (((*x.shape[:-1], w.shape[0]), x.dtype),)


def _reduce(inputs: Sequence[Value], attributes: Mapping[str, Any]) -> tuple[ShapeDtype, ...]:
    (x,) = inputs
    return ((reduced_shape(x.shape, attributes["axes"], attributes["keepdims"]), x.dtype),)


def _moments(inputs: Sequence[Value], attributes: Mapping[str, Any]) -> tuple[ShapeDtype, ...]:
    return _reduce(inputs, attributes) * 2


def _arg(inputs: Sequence[Value], attributes: Mapping[str, Any]) -> tuple[ShapeDtype, ...]:
    (x,) = inputs
    if x.shape[attributes["axis"]] == 0:
        raise ModelError(f"axis {attributes['axis']} of {x.shape} has no elements")
    return ((reduced_shape(x.shape, (attributes["axis"],), attributes["keepdims"]), "int64"),)


def _topk(inputs: Sequence[Value], attributes: Mapping[str, Any]) -> tuple[ShapeDtype, ...]:
    (x,) = inputs
    axis, k = attributes["axis"], attributes["k"]
    if not 0 <= k <= x.shape[axis]:
        raise ModelError(f"the {k} largest of {x.shape[axis]} elements are asked for")
    shape = (*x.shape[:axis], k, *x.shape[axis + 1 :])
    return ((shape, x.dtype), (shape, "int64"))


def _transpose(inputs: Sequence[Value], attributes: Mapping[str, Any]) -> tuple[ShapeDtype, ...]:
    (x,) = inputs
    if sorted(attributes["permutation"]) != list(range(len(x.shape))):
        raise ModelError(f"{attributes['permutation']} is no order of the axes of {x.shape}")
    return ((tuple(x.shape[axis] for axis in attributes["permutation"]), x.dtype),)


def _gather(inputs: Sequence[Value], attributes: Mapping[str, Any]) -> tuple[ShapeDtype, ...]:
    x, indices = inputs
    axis = attributes["axis"]
    return (((*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :]), x.dtype),)


def _gather_elements(inputs: Sequence[Value], attributes: Mapping[str, Any]) -> tuple[ShapeDtype, ...]:
    x, indices = inputs
    if len(x.shape) != len(indices.shape):
        raise ModelError(f"indices {indices.shape} have not as many axes as {x.shape}")
    return ((indices.shape, x.dtype),)


def _gather_nd(inputs: Sequence[Value], attributes: Mapping[str, Any]) -> tuple[ShapeDtype, ...]:
    x, indices = inputs
    batch = attributes["batch_dims"]
    if not 0 <= batch < len(indices.shape):
        raise ModelError(f"indices {indices.shape} are no indices into {x.shape} with {batch} batch axes")
    depth = indices.shape[-1]
    if not 1 <= depth <= len(x.shape) - batch or x.shape[:batch] != indices.shape[:batch]:
        raise ModelError(f"indices {indices.shape} are no indices into {x.shape} with {batch} batch axes")
    return (((*indices.shape[:-1], *x.shape[batch + depth :]), x.dtype),)


def _scatter_elements(inputs: Sequence[Value], attributes: Mapping[str, Any]) -> tuple[ShapeDtype, ...]:
    x, indices, updates = inputs
    if len(x.shape) != len(indices.shape) or indices.shape != updates.shape:
        raise ModelError(f"indices {indices.shape} and updates {updates.shape} do not fit {x.shape}")
    return ((x.shape, x.dtype),)


def _scatter_nd(inputs: Sequence[Value], attributes: Mapping[str, Any]) -> tuple[ShapeDtype, ...]:
    x, indices, updates = inputs
    depth = indices.shape[-1] if indices.shape else 0
    if not 1 <= depth <= len(x.shape) or updates.shape != (*indices.shape[:-1], *x.shape[depth:]):
        raise ModelError(f"indices {indices.shape} and updates {updates.shape} do not fit {x.shape}")
    return ((x.shape, x.dtype),)


def _recurrent(inputs: Sequence[Value], attributes: Mapping[str, Any]) -> tuple[ShapeDtype, ...]:
    x, _, r = inputs[:3]
    steps, batch, _ = x.shape
    hidden = r.shape[0]
    cell, result = attributes["cell"], ((steps, batch, hidden), x.dtype)
    states = 2 if cell == "lstm" else 1
    return (result, *[((batch, hidden), x.dtype)] * states, *[result] * CELLS[cell][1])


def _recurrent_gradient(inputs: Sequence[Value], attributes: Mapping[str, Any]) -> tuple[ShapeDtype, ...]:
    dy, cell = inputs[0], attributes["cell"]
    steps, batch, hidden = dy.shape
    wide, state = (steps, batch, CELLS[cell][0] * hidden), (batch, hidden)
    written = {"lstm": (wide, state, state), "gru_linear": (wide, wide, state)}.get(cell, (wide, state))
    return tuple((shape, dy.dtype) for shape in written)


def _attention(inputs: Sequence[Value], _: Mapping[str, Any]) -> tuple[ShapeDtype, ...]:
    q, value = inputs[0], inputs[2]
    return (((*q.shape[:3], value.shape[3]), q.dtype),)


def _rotary(inputs: Sequence[Value], attributes: Mapping[str, Any]) -> tuple[ShapeDtype, ...]:
    shape, part = inputs[0].shape, attributes.get("part")
    return ((shape if part is None else (shape[0], part[1], shape[1], part[2]), inputs[0].dtype),)


def _trees(inputs: Sequence[Value], attributes: Mapping[str, Any]) -> tuple[ShapeDtype, ...]:
    return (((inputs[0].shape[0], attributes["count"]), inputs[4].dtype),)


def _update(inputs: Sequence[Value], attributes: Mapping[str, Any]) -> tuple[ShapeDtype, ...]:
    return tuple((each.shape, each.dtype) for each in inputs[: len(attributes["expressions"])])


def _concat(inputs: Sequence[Value], attributes: Mapping[str, Any]) -> tuple[ShapeDtype, ...]:
    axis = attributes["axis"]
    first = inputs[0].shape
    for given in inputs:
        if (*given.shape[:axis], *given.shape[axis + 1 :]) != (*first[:axis], *first[axis + 1 :]):
            raise ModelError(f"shapes {', '.join(str(v.shape) for v in inputs)} cannot be joined along axis {axis}")
    total = sum(given.shape[axis] for given in inputs)
    return (((*first[:axis], total, *first[axis + 1 :]), inputs[0].dtype),)


def _pad(inputs: Sequence[Value], attributes: Mapping[str, Any]) -> tuple[ShapeDtype, ...]:
    (x,) = inputs
    pads, rank = attributes["pads"], len(x.shape)
    return ((tuple(pads[i] + n + pads[i + rank] for i, n in enumerate(x.shape)), x.dtype),)


_RULES: Final[dict[str, Callable[[Sequence[Value], Mapping[str, Any]], tuple[ShapeDtype, ...]]]] = {
    "conv": _conv,
    "conv_transpose": _conv_transpose,
    "conv_weights": _conv_weights,
    "pool": _pool,
    "pool_gradient": _pool_gradient,
    "roi_align": _roi_align,
    "roi_align_gradient": _roi_align_gradient,
    "lrn": _same,
    "batch_norm": _per_channel,
    "layer_norm": _layer_norm,
    "layer_norm_gradient": _layer_norm_gradient,
    "group_norm": _per_channel,
    "matmul": _matmul,
    "dynamic_quantise": _dynamic_quantise,
    "integer_matmul": _integer_matmul,
    "integer_conv": _integer_conv,
    "block_matmul": _block_matmul,
    "softmax": _same,
    "reduce": _reduce,
    "moments": _moments,
    "column_sums": _column_sums,
    "column_moments": _column_moments,
    "arg": _arg,
    "topk": _topk,
    "scan_sum": _same,
    "transpose": _transpose,
    "gather": _gather,
    "gather_elements": _gather_elements,
    "gather_nd": _gather_nd,
    "scatter_elements": _scatter_elements,
    "scatter_nd": _scatter_nd,
    "concat": _concat,
    "pad": _pad,
    "recurrent": _recurrent,
    "recurrent_gradient": _recurrent_gradient,
    "linear_recurrence": _same,
    "attention": _attention,
    "cache_write": _same,
    "rotary": _rotary,
    "trees": _trees,
    "update": _update,
    "counted": lambda _, attributes: attributes["shapes"],
    "loop": lambda _, attributes: attributes["body"].outputs,
    "operation": lambda _, attributes: attributes["results"],
}


def nbytes(shape: Shape, dtype: str) -> int:
    """Return the size in bytes of an array."""
    return math.prod(shape) * _item_bytes(dtype)


@cache
def _item_bytes(dtype: str) -> int:
    sizes = {"bool": 1, "8": 1, "16": 2, "32": 4, "64": 8}
    return next(size for name, size in sizes.items() if dtype.endswith(name))
