# SPDX-License-Identifier: Apache-2.0
"""Importers of layer and group normalisation with residuals, embeddings and activations."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from syclsched.frontends.onnx.importing.importer_registry import Inputs, Names, imports
from syclsched.frontends.onnx.importing.microsoft.standard_operators import channels_first, channels_last, standard
from syclsched.frontends.onnx.importing.network_builder import NetworkBuilder
from syclsched.frontends.onnx.importing.nn.normalisation import emit_group_norm
from syclsched.frontends.onnx.model_file.onnx_model import MICROSOFT, ModelNode

#: The default of the com.microsoft layer normalisations.
_EPSILON: Final = 1e-12


def rms_norm(b: NetworkBuilder, x: str, scale: str, axis: int, epsilon: float, *, with_factor: bool = False) -> Names:
    """Return a value divided by its root mean square over the axes from one on, and the factor if it is wanted."""
    if not with_factor and b.dtype(x) == b.dtype(scale) != "float16" and b.shape(scale) == b.shape(x)[axis:]:
        return [b.emit("layer_norm", [x, scale], axis=axis, epsilon=epsilon, centred=False), None]
    wide = b.cast(x, "float32") if b.dtype(x) == "float16" else x
    squares = b.reduce("mean", b.elementwise(("square", 0), wide), range(axis, len(b.shape(x))))
    inverse = b.elementwise(("rsqrt", ("add", 0, ("const", epsilon, b.dtype(wide)))), squares)
    scaled = b.elementwise(("cast", b.dtype(scale), ("mul", 0, 1)), wide, inverse)
    return [b.elementwise(("mul", 0, 1), scaled, scale), inverse]


@imports("SimplifiedLayerNormalization")
def _simplified_layer_norm(b: NetworkBuilder, node: ModelNode, inputs: Inputs) -> Names:
    x, scale = inputs.first("X", "scale")
    axis = b.axis(node.integer("axis", -1), len(b.shape(x)))
    return rms_norm(b, x, scale, axis, node.number("epsilon", 1e-5), with_factor=_has_output(node, 1))


@imports("SkipLayerNormalization", domain=MICROSOFT)
def _skip_layer_norm(b: NetworkBuilder, node: ModelNode, inputs: Inputs) -> Names:
    x, skip, gamma = inputs.first("input", "skip", "gamma")
    total = _sum(b, x, skip, inputs.optional(4))
    y, mean, inverse = (*_layer_norm(b, node, total, gamma, inputs.optional(3), outputs=3), None, None)[:3]
    return [y, mean, inverse, total]


@imports("SkipSimplifiedLayerNormalization", domain=MICROSOFT)
def _skip_simplified_layer_norm(b: NetworkBuilder, node: ModelNode, inputs: Inputs) -> Names:
    x, skip, gamma = inputs.first("input", "skip", "gamma")
    if _has_output(node, 1):
        raise b.wrong("its output mean is not supported", hint="Export the model for inference, without it")
    total = _sum(b, x, skip, inputs.optional(3))
    axis, epsilon = len(b.shape(total)) - 1, node.number("epsilon", _EPSILON)
    y, inverse = rms_norm(b, total, gamma, axis, epsilon, with_factor=_has_output(node, 2))
    return [y, None, inverse, total]


def _layer_norm(b: NetworkBuilder, node: ModelNode, x: str, scale: str, bias: str | None, *, outputs: int) -> Names:
    """Normalise the last axis; of the node's outputs, the first ones are those of LayerNormalization."""
    plain = replace(node, outputs=node.outputs[:outputs])
    epsilon = node.number("epsilon", _EPSILON)
    return standard(b, plain, "LayerNormalization", [x, scale, bias], epsilon=epsilon)


def _has_output(node: ModelNode, position: int) -> bool:
    return len(node.outputs) > position and bool(node.outputs[position])


def _sum(b: NetworkBuilder, x: str, skip: str, bias: str | None) -> str:
    """Return the sum of an input, a residual, and a bias if there is one."""
    values = [each for each in (x, skip, bias) if each is not None]
    return b.elementwise(("add", *range(len(values))), *values, shape=b.shape(x))


@imports("EmbedLayerNormalization", domain=MICROSOFT)
def _embed_layer_norm(b: NetworkBuilder, node: ModelNode, inputs: Inputs) -> Names:
    """Import the normalised sum of the embeddings of words, positions and segments."""
    ids, words, positions = (inputs.required(at, what) for at, what in ((0, "ids"), (2, "words"), (3, "positions")))
    gamma, beta = inputs.required(5, "gamma"), inputs.required(6, "beta")
    segments, segment_ids, mask, position_ids = (inputs.optional(position) for position in (4, 1, 7, 8))
    if len(b.shape(ids)) != 2:
        raise b.wrong(f"input_ids have shape {b.shape(ids)}, expected (batch, positions)")
    count = b.shape(ids)[1]
    if position_ids is None:
        if count > b.shape(positions)[0]:
            raise b.wrong(f"{count} positions, and there are embeddings of {b.shape(positions)[0]}")
        placed = b.part(positions, 0, 0, count)
    else:
        placed = b.gather(positions, position_ids)
    parts = [b.gather(words, ids), placed]
    if segments is not None:
        if segment_ids is None:
            raise b.wrong("segment_embedding is given and segment_ids are not")
        parts.append(b.gather(segments, segment_ids))
    total = b.elementwise(("add", *range(len(parts))), *parts)
    if mask is None:
        lengths = b.filled(b.shape(ids)[:1], b.dtype(ids))
    else:
        used = b.elementwise(("cast", "int32", ("equal", 0, ("const", 1, b.dtype(mask)))), mask)
        lengths = b.reduce("sum", used, (1,), keepdims=False)
    return [*_layer_norm(b, node, total, gamma, beta, outputs=1), lengths, total]


@imports("GroupNorm", domain=MICROSOFT)
def _group_norm(b: NetworkBuilder, node: ModelNode, inputs: Inputs) -> Names:
    """Import group normalisation, usually of channels in the last place, with SiLU if that is fused."""
    x, gamma, beta = inputs.first("X", "gamma", "beta")
    last, groups, activation = node.integer("channels_last", 1), node.integer("groups"), node.integer("activation")
    if activation not in (0, 1):
        raise b.wrong(f"activation is {activation}, expected 0 (none) or 1 (SiLU)")
    turned = channels_first(b, x) if last else x
    if groups < 1 or b.shape(turned)[1] % groups:
        raise b.wrong(f"{groups} groups of the channels of {b.shape(x)}")
    y = emit_group_norm(b, node, [turned, *(b.cast(each, b.dtype(x)) for each in (gamma, beta))], groups)
    if activation:
        y = b.elementwise(("silu", 0), y)
    return [channels_last(b, y) if last else y]
