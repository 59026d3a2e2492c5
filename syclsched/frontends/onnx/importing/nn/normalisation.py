# SPDX-License-Identifier: Apache-2.0
"""Importers of normalisation operators and softmax."""

from __future__ import annotations

import math

from syclsched.frontends.onnx.importing.equal_extents import with_extent, with_extents_of
from syclsched.frontends.onnx.importing.extents import mean
from syclsched.frontends.onnx.importing.gradients.normalisation import emit_moments
from syclsched.frontends.onnx.importing.importer_registry import Inputs, Names, UnsupportedFormError, imports
from syclsched.frontends.onnx.importing.network_builder import NetworkBuilder
from syclsched.frontends.onnx.model_file.dtypes import FLOATS
from syclsched.frontends.onnx.model_file.onnx_model import ModelNode


@imports("BatchNormalization")
def _batch_norm(b: NetworkBuilder, node: ModelNode, inputs: Inputs) -> Names:
    """Import BatchNormalization, by running moments; in training by those of its batch."""
    x, *rest = inputs.first("X", "scale", "B", "input_mean", "input_var")
    if node.flag("training_mode") or (b.training is not None and node.flag("spatial", 1)):
        return _batch_norm_of_batch(b, node, x, rest)
    if any(node.outputs[1:]):
        raise UnsupportedFormError
    if b.dtype(x) not in FLOATS or len(b.shape(x)) < 2:
        raise UnsupportedFormError
    parameters = [b.cast(each, b.dtype(x)) for each in rest]
    epsilon = node.number("epsilon", 1e-5)
    if not node.flag("spatial", 1):
        # Before opset 9, parameters may be per element of a sample instead of per channel.
        deviation = ("sqrt", ("add", 4, ("const", epsilon)))
        normalised = ("add", ("mul", ("div", ("sub", 0, 3), deviation), 1), 2)
        return [b.elementwise(normalised, x, *parameters, shape=b.shape(x))]
    return [b.emit("batch_norm", [x, *parameters], epsilon=epsilon, channels_last=False, activation=())]


def _batch_norm_of_batch(b: NetworkBuilder, node: ModelNode, x: str, parameters: list[str]) -> list[str]:
    """Add normalisation by the moments of the batch, and the next values of the running ones."""
    shape, momentum, next_values = b.shape(x), node.number("momentum", 0.9), {}
    if b.dtype(x) not in FLOATS or len(shape) < 2:
        raise b.wrong(f"it normalises {b.dtype(x)} of shape {shape}")
    axes = tuple(axis for axis in range(len(shape)) if axis != 1)
    if b.training is not None:
        next_values = b.training.next_values
        moments = [name or "" for name in b.emit_all("moments", [x], axes=axes, keepdims=False)]
    else:
        moments = [*emit_moments(b, x, axes, keepdims=False)]
    scale, bias, *running = parameters
    averages = []
    for name, moment in zip(running, moments, strict=True):
        average = ("add", ("mul", 0, ("const", momentum)), ("mul", 1, ("const", 1 - momentum)))
        averages.append(b.elementwise(average, next_values.get(name, name), b.cast(moment, b.dtype(name))))
        next_values[name] = averages[-1]
    if b.training is not None:  # results get the names of the node's outputs, and the next values keep theirs
        averages = [b.emit("elementwise", [each], shape=b.shape(each), expression=0) for each in averages]
    given = [x, *(b.cast(each, b.dtype(x)) for each in (scale, bias)), *moments]
    epsilon = node.number("epsilon", 1e-5)
    return [b.emit("batch_norm", given, epsilon=epsilon, channels_last=False, activation=()), *averages]


@imports("InstanceNormalization")
def _instance_norm(b: NetworkBuilder, node: ModelNode, inputs: Inputs) -> Names:
    """Import InstanceNormalization: group normalisation with one group per channel."""
    x, scale, bias = inputs.first("input", "scale", "B")
    if len(b.shape(x)) > 1 and b.length_along(x, 1) is not None and b.observed is not None:
        x = with_extent(b, x, 1, b.shape(scale)[0])
    if len(b.shape(x)) < 3 or b.shape(x)[1] == 0:
        raise UnsupportedFormError
    return [emit_group_norm(b, node, [x, scale, bias], b.shape(x)[1])]


def emit_group_norm(b: NetworkBuilder, node: ModelNode, inputs: Names, groups: int) -> str:
    """Add group normalisation with the epsilon of a node; scale and bias are per channel."""
    epsilon = node.number("epsilon", 1e-5)
    if any(each.axis > 1 for each in b.lengths.get(inputs[0] or "", ())):
        x, scale, bias = (each or "" for each in inputs)
        return _group_norm_of_lengths(b, x, scale, bias, groups, epsilon)
    return b.emit("group_norm", inputs, groups=groups, epsilon=epsilon, channels_last=False, activation=())


def _group_norm_of_lengths(b: NetworkBuilder, x: str, scale: str, bias: str, groups: int, epsilon: float) -> str:
    """Return a value normalised in groups of channels, over axes whose lengths are known only at run time."""
    shape, kind = b.shape(x), b.dtype(x)
    wide = "float32" if kind == "float16" else kind  # squares may be beyond half precision
    parts = b.reshape(b.cast(x, wide), (shape[0], groups, shape[1] // groups, *shape[2:]))
    axes = tuple(range(2, len(shape) + 1))
    centred = b.elementwise(("sub", 0, 1), parts, mean(b, parts, axes, keepdims=True))
    variance = mean(b, b.elementwise(("square", 0), centred), axes, keepdims=True)
    normalised = b.elementwise(("div", 0, ("sqrt", ("add", 1, ("const", epsilon, wide)))), centred, variance)
    per_channel = (b.cast(b.reshape(each, (shape[1], *(1,) * (len(shape) - 2))), wide) for each in (scale, bias))
    return b.cast(b.elementwise(("add", ("mul", 0, 1), 2), b.reshape(normalised, shape), *per_channel), kind)


@imports("GroupNormalization")
def _group_norm(b: NetworkBuilder, node: ModelNode, inputs: Inputs) -> Names:
    """Import GroupNormalization; scale and bias are per group before opset 21, then per channel."""
    x, scale, bias = inputs.first("X", "scale", "bias")
    shape, groups = b.shape(x), node.integer("num_groups", 1)
    if len(shape) < 2 or groups < 1 or shape[1] % groups:
        raise b.wrong(f"{groups} groups of the channels of {shape}")
    if b.opset < 21:
        scale, bias = (_repeated(b, each, shape[1]) for each in (scale, bias))
    scale, bias = (b.cast(each, b.dtype(x)) for each in (scale, bias))
    return [emit_group_norm(b, node, [x, scale, bias], groups)]


def _repeated(b: NetworkBuilder, x: str, channels: int) -> str:
    (groups,) = b.shape(x)
    if groups in (0, channels) or channels % groups:
        return x
    return b.reshape(b.expand(b.reshape(x, (groups, 1)), (groups, channels // groups)), (channels,))


@imports("LayerNormalization")
def _layer_norm(b: NetworkBuilder, node: ModelNode, inputs: Inputs) -> Names:
    """Import LayerNormalization; with the optional outputs it is built from reductions."""
    (x, scale), bias = inputs.first("X", "Scale"), inputs.optional(2)
    for each in (scale, bias):
        x = with_extents_of(b, x, each)
    shape = b.shape(x)
    axis = b.axis(node.integer("axis", -1), len(shape))
    is_open = any(each.axis >= axis for each in b.lengths.get(x, ()))
    per_row = any(math.prod(b.shape(each)[: axis - len(shape)]) > 1 for each in (scale, bias) if each is not None)
    if any(node.outputs[1:]) or is_open or per_row:
        return _layer_norm_in_pieces(b, node, x, scale, bias, axis)
    lines = [b.reshape(each, b.shape(each)[axis - len(shape) :]) for each in (scale, bias) if each is not None]
    return [
        b.emit(
            "layer_norm",
            [x, *(b.expand(each, shape[axis:]) for each in lines)],
            axis=axis,
            epsilon=node.number("epsilon", 1e-5),
        )
    ]


def _layer_norm_in_pieces(b: NetworkBuilder, node: ModelNode, x: str, scale: str, bias: str | None, axis: int) -> Names:
    axes = tuple(range(axis, len(b.shape(x))))
    dtype = b.dtype(x)
    wide = b.cast(x, "float32") if dtype == "float16" else x
    kind = b.dtype(wide)
    centre = mean(b, wide, axes, keepdims=True)
    variance = mean(b, b.elementwise(("square", ("sub", 0, 1)), wide, centre), axes, keepdims=True)
    inverse = b.elementwise(("rsqrt", ("add", 0, ("const", node.number("epsilon", 1e-5), kind))), variance)
    scaled = b.elementwise(("cast", dtype, ("mul", ("sub", 0, 1), 2)), wide, centre, inverse)
    y = b.elementwise(("mul", 0, 1), scaled, scale)
    return [y if bias is None else b.elementwise(("add", 0, 1), y, bias), centre, inverse]


@imports("LRN")
def _lrn(b: NetworkBuilder, node: ModelNode, inputs: Inputs) -> Names:
    x = inputs.required(0, "X")
    if len(b.shape(x)) < 3:
        raise UnsupportedFormError
    alpha, beta, bias = node.number("alpha", 1e-4), node.number("beta", 0.75), node.number("bias", 1.0)
    size = node.integer("size", 1)
    return [b.emit("lrn", [x], alpha=alpha, beta=beta, bias=bias, size=size, channels_last=False)]


@imports("LpNormalization")
def _lp_norm(b: NetworkBuilder, node: ModelNode, inputs: Inputs) -> Names:
    """Import LpNormalization: division by a norm; the result is 0 where the norm is 0."""
    x = inputs.required(0, "input")
    axis, p = b.axis(node.integer("axis", -1), len(b.shape(x))), node.integer("p", 2)
    if p not in (1, 2):
        raise b.wrong(f"p is {p}, expected 1 or 2")
    norm = b.reduce(f"l{p}", x, (axis,))
    zero = ("const", 0.0, b.dtype(x))
    return [b.elementwise(("where", ("equal", 1, zero), zero, ("div", 0, 1)), x, norm)]


@imports("MeanVarianceNormalization")
def _mean_variance_norm(b: NetworkBuilder, node: ModelNode, inputs: Inputs) -> Names:
    x = inputs.required(0, "X")
    axes = b.axes(node.integers("axes", (0, 2, 3)) or (), len(b.shape(x)))
    centred = b.elementwise(("sub", 0, 1), x, mean(b, x, axes, keepdims=True))
    variance = mean(b, b.elementwise(("square", 0), centred), axes, keepdims=True)
    deviation = ("add", ("sqrt", 1), ("const", 1e-9, b.dtype(x)))
    return [b.elementwise(("div", 0, deviation), centred, variance)]


@imports("Softmax", "LogSoftmax")
def _softmax(b: NetworkBuilder, node: ModelNode, inputs: Inputs) -> Names:
    """Import Softmax and LogSoftmax; before opset 13 they span all axes from ``axis`` on."""
    x, log = inputs.required(0, "input"), node.operator == "LogSoftmax"
    shape = b.shape(x)
    if not shape:
        return [b.elementwise(("mul", ("const", 0.0, b.dtype(x)), 0) if log else ("const", 1.0, b.dtype(x)), x)]
    if b.opset >= 13:
        return [b.emit("softmax", [x], axis=b.axis(node.integer("axis", -1), len(shape)), log=log)]
    y, back = _flatten_to_matrix(b, node, x)
    return [b.reshape(b.emit("softmax", [y], axis=back, log=log), shape)]


def _flatten_to_matrix(b: NetworkBuilder, node: ModelNode, x: str) -> tuple[str, int]:
    """Flatten a value at ``axis`` to a matrix, as before opset 13; return it and the axis to reduce over."""
    shape = b.shape(x)
    axis = node.integer("axis", 1)
    axis = len(shape) if axis == len(shape) else b.axis(axis, len(shape))
    if axis == len(shape) - 1:
        return x, axis
    return b.reshape(x, (math.prod(shape[:axis]), math.prod(shape[axis:]))), 1


@imports("Hardmax")
def _hardmax(b: NetworkBuilder, node: ModelNode, inputs: Inputs) -> Names:
    """Import Hardmax: 1 at the first largest element and 0 elsewhere."""
    x = inputs.required(0, "input")
    shape = b.shape(x)
    if b.opset >= 13:
        y, axis = x, b.axis(node.integer("axis", -1), len(shape))
    else:
        y, axis = _flatten_to_matrix(b, node, x)
    at = b.emit("arg", [y], mode="max", axis=axis, keepdims=True, last=False)
    extents = b.shape(y)
    hit = ("cast", b.dtype(x), ("equal", 0, ("index", axis - len(extents))))
    made = b.elementwise(hit, at, shape=extents)
    b.give_lengths(made, b.lengths.get(y, ()))
    return [b.reshape(made, shape)]
