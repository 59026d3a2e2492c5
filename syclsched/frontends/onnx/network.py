# SPDX-License-Identifier: Apache-2.0
"""Intermediate representation of a model for given input shapes: values, constants, and canonical nodes.

All values have a known shape and dtype. There are few kinds of canonical nodes, fully described by their attributes. An
ONNX node of any opset becomes one or several canonical nodes; constant inputs of ONNX (axes, pads, slices) become
attributes. The kinds:

===================  ==================================================================================================
``conv``             inputs x, w, optional bias, optional residual -> y. ``strides``, ``pads`` (begins then ends),
                     ``dilations``, ``groups``, ``channels_last`` (of x, y and residual; w is always (O, I/g, *kernel)),
                     ``activation``, ``in_place`` (whether y overwrites the residual)
``conv_transpose``   inputs x, w, optional bias -> y. As ``conv``, and ``output_padding``; w is (I, O/g, *kernel)
``conv_weights``     x, dy -> gradient of the weights of a ``conv`` of x, given that of its result, dy. ``kernel``, and
                     ``strides``, ``pads``, ``dilations``, ``groups``, ``channels_last`` (of x and dy) of the ``conv``.
                     The gradient of x is a ``conv_transpose`` of dy with the same attributes
``pool``             x -> y. ``mode`` "max" or "average", ``kernel``, ``strides``, ``pads``, ``dilations``,
                     ``count_include_pad``, ``channels_last``, optional ``activation``
``pool_gradient``    x, dy -> gradient of x, given that of the result of ``pool``, with its attributes except
                     ``activation``; of equal largest elements the first has the gradient
``roi_align``        x, regions, their pictures -> y: cells of regions whose numbers of samples follow from the regions.
                     ``mode`` "avg" or "max", ``cells``, ``scale``, ``half_pixel``
``roi_align_gradient`` x, regions, their pictures, dy -> gradients of x and of the regions, with the same attributes
``lrn``              x -> y. ``alpha``, ``beta``, ``bias``, ``size``, ``channels_last``
``batch_norm``       x, scale, bias, mean, variance -> y. ``epsilon``, ``channels_last``, ``activation``
``layer_norm``       x, scale, optional bias -> y. ``axis``, ``epsilon``, ``centred`` (by default; else by the root mean
                     square)
``layer_norm_gradient`` x, scale, dy -> gradient of x, and those of scale and bias in ``parts`` along a first axis,
                     given that of the result of ``layer_norm``, with its attributes
``group_norm``       x, scale, bias -> y. ``groups`` (of all channels: instance norm), ``epsilon``, ``channels_last``
``matmul``           a, b, optional bias, optional residual -> y. ``transpose_a``, ``transpose_b`` (of the last two
                     axes), ``alpha`` (of a @ b), ``beta`` (of the bias), ``activation``; leading axes broadcast, and so
                     does the bias against y; ``interleaved`` (by default none): those of "a", "b" and "y" (and the
                     residual) whose rows come before the last axis of the batch
``dynamic_quantise`` x -> y (uint8), scale, zero point (uint8), zero point (int32): quantised by its own range, see
                     `syclsched.kernels.nn.quantised.dynamic_quantise`
``integer_matmul``   x, w, optional bias, optional residual, optional zero, optional scale, optional scale of x -> y of
                     ``result``: int32, float32 ("uint8" or "int8" if ``quantise`` has a scale and a zero point):
                     ``activation`` of (x - zero) @ w * scale + bias + residual, where ``scale`` is the product of both;
                     w (K, N) are constants around zero,
                     ``narrow`` if they are from -64 to 64; ``addend`` (`syclsched.kernels.quantisation`) if the
                     residual has 8 bits
``integer_conv``     as ``integer_matmul``, with the attributes of ``conv``; pads are x's zero point
``block_matmul``     x, w, scales, optional zeros, optional bias -> y: product with weights of 4 bits, see
                     `syclsched.kernels.nn.quantised.block_matmul`. ``block``
``moments``          x -> mean, variance along ``axes``; ``keepdims``. For differentiation only: it is replaced by
                     reductions before lowering
``softmax``          x -> y. ``axis``, ``log``
``recurrent``        x, w, r, b, optional h0, c0, lengths, peepholes -> y, h, of an LSTM c, and the sums of the
                     gates: all steps of one direction. ``cell``, ``activations``, ``reverse``, ``coupled``; shapes and
                     order of gates as in `syclsched.kernels.nn.recurrence.recurrent`
``recurrent_gradient`` dy, k0 to the last, r, dh, and what `syclsched.kernels.nn.recurrence.recurrent_gradient` reads in
                     this order -> d, dx of ``gru_linear``, dh0, dc0 of an LSTM. ``cell``, ``reverse``, ``keep``
``linear_recurrence`` a, b, start -> y: the state before each step, see
                     `syclsched.kernels.nn.recurrence.linear_recurrence`. ``reverse``
``attention``        q, key, value, starts -> y: causal attention over a cache; ``scale``, ``softcap``, ``window``; see
                     `syclsched.kernels.nn.attention.attention`
``cache_write``      cache, rows, starts -> the cache with these rows, in its own memory; ``circular``
``rotary``           x, cosines, sines, positions -> y. ``interleaved``
``trees``            x, nodes, thresholds, roots, weights, optional columns -> y. ``rule``, ``combine``, ``missing``,
                     ``count`` (columns of y), as in `syclsched.kernels.trees`
``elementwise``      any number of inputs, broadcast -> y of ``dtype``. ``expression``: see
                     `syclsched.kernels.tensor.writing.expression`; casts, comparisons, where and expand are
                     elementwise, too
``reduce``           x -> y. ``mode`` ("sum", "mean", "max", "min", "prod", "l1", "l2", "sumsquare", "logsum",
                     "logsumexp"), ``axes`` (not negative), ``keepdims``
``column_sums``      any number of inputs, broadcast to rows and columns (the last axis) -> one of ``expressions`` each,
                     added in ``parts`` of the rows and, if one of ``means`` is true, divided by the rows of a part. The
                     first axis of the sums is that of the parts, the last one that of the columns, all others are 1
``column_moments``   x -> mean, variance of each column in ``parts`` of the rows, of the same shape as sums
``arg``              x -> y (int64). ``mode`` "max" or "min", ``axis``, ``keepdims``, ``last`` (of equal elements)
``topk``             x -> values, indices. ``k``, ``axis``, ``largest``, ``sorted``
``scan_sum``         x -> y. ``axis``, ``exclusive``, ``reverse``
``transpose``        x -> y. ``permutation``
``reshape``          x -> y of the same elements in the same order
``gather``           x, indices -> y. ``axis``
``gather_elements``  x, indices -> y. ``axis``
``gather_nd``        x, indices -> y. ``batch_dims``
``scatter_elements`` x, indices, updates -> y. ``axis``, ``reduction`` ("none", "add", "mul", "max", "min")
``scatter_nd``       x, indices, updates -> y. ``reduction``
``concat``           any number -> y. ``axis``
``join``             any number, then scale, shift -> y: ``activation`` of (x * scale + shift), where x is the
                     concatenation along the last axis; scale and shift are vectors along that axis
``slice``            x -> y. ``starts``, ``steps`` of every axis (the extents are y's); steps may be negative
``pad``              x -> y. ``pads`` (begins then ends, of every axis, not negative), ``mode`` ("constant", "reflect",
                     "edge", "wrap"), ``value``
``resize``           x -> y. ``mode`` ("nearest", "linear", "cubic"), ``coordinates`` (ONNX's name), ``nearest`` (ONNX's
                     name), ``scales`` (of every axis), ``channels_last`` and ONNX's other attributes
``counted``          any -> results, length: results of which a run fills the first ``length`` elements along one of
                     ``axes``, see `syclsched.frontends.onnx.counted.counted_operation`. ``cuts``: inputs with lengths
``loop``             trip count and condition if they are known only at run time, carried values, scanned inputs, outer
                     values -> carried values, scan outputs, number of iterations. ``body``: a
                     `syclsched.frontends.onnx.loops.loop_body.LoopBody`
``update``           values, then what is read -> each value anew, in its own memory: one of ``expressions`` each, see
                     `syclsched.kernels.tensor.update`
``operation``        the arrays that an operation reads or updates, in the order of its parameters -> those that it
                     writes or updates. ``operation``, ``scalars`` (pairs of parameter and number), ``results``
                     (shape and dtype of each output)
``reference``        any -> any: run on the host with onnx's own reference implementation. ``node``: the serialised
                     NodeProto, ``opsets``: a tuple of (domain, version)
===================  ==================================================================================================

An ``activation`` is () or a tuple of tuples, applied in order, such as ``(("relu",),)``, ``(("clip", 0.0, 6.0),)``; see
`syclsched.kernels.nn.activation`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from syclsched.errors import ArgumentError

#: Output of a model -> the output of its network, those of a sequence's elements, or None if it has no value.
Composition = Mapping[str, str | tuple[str, ...] | None]
#: All kinds of canonical nodes.
KINDS: Final = frozenset(
    {
        *("conv", "conv_transpose", "pool", "lrn", "batch_norm", "layer_norm", "group_norm", "matmul", "softmax"),
        *("elementwise", "reduce", "arg", "topk", "scan_sum", "transpose", "reshape", "gather", "gather_elements"),
        *("gather_nd", "scatter_elements", "scatter_nd", "concat", "join", "slice", "pad", "resize", "recurrent"),
        *("integer_matmul", "integer_conv", "block_matmul", "attention", "cache_write", "rotary", "trees", "counted"),
        *("loop", "update", "moments", "reference", "conv_weights", "pool_gradient", "recurrent_gradient"),
        *("linear_recurrence", "layer_norm_gradient", "operation", "dynamic_quantise", "column_sums"),
        *("column_moments", "roi_align", "roi_align_gradient"),
    }
)


@dataclass(frozen=True, slots=True)
class Value:
    """A value of a network: the name, shape and dtype of an array."""

    name: str  # unique within the network
    shape: tuple[int, ...]
    dtype: str  # NumPy dtype name


@dataclass(frozen=True, slots=True)
class CanonicalNode:
    """A canonical node."""

    name: str  # unique within the network; the name of the original ONNX node if possible
    kind: str  # one of `KINDS`
    #: Names of values, in the order of the table above; None for a missing optional one.
    inputs: tuple[str | None, ...]
    outputs: tuple[str | None, ...]  # names of the resulting values; None for an unused one
    attributes: Mapping[str, Any] = field(default_factory=dict)  # numbers, strings and tuples of these
    origin: tuple[str, ...] = ()  # the original ONNX nodes, as ``"Conv conv1"``, for reports and traces

    def input(self, position: int) -> str | None:
        """Return the name of an input; None for a missing optional one."""
        return self.inputs[position] if position < len(self.inputs) else None


@dataclass(frozen=True, slots=True)
class Decoding:
    """The meaning of an output of numbers that the host turns into text, or into maps from label to number."""

    labels: tuple[str, ...] | tuple[int, ...]
    as_maps: bool = False  # else the numbers are positions in the labels

    def decode(self, numbers: np.ndarray[Any, Any]) -> Any:
        """Return an array of text, or a list with a map for each row."""
        if self.as_maps:
            return [dict(zip(self.labels, row, strict=True)) for row in numbers.tolist()]
        return np.array(self.labels, object)[numbers]


@dataclass(frozen=True, slots=True)
class ExtentGuard:
    """Limits of a number that a network assumes; after a run beyond them its results are void."""

    key: str  # the node, and the use of the number
    least: int | None  # None: numbers below 0 count as 0
    most: int
    deciding: tuple[str, ...] = ()  # the inputs it follows from, where no number of extents has been observed

    def holds(self, value: int) -> bool:
        """Return whether a number is within the limits."""
        return value <= self.most and (self.least is None or value >= self.least)


@dataclass(frozen=True, slots=True)
class Network:
    """A model for given input shapes."""

    name: str  # of the model
    #: Names of values, in the model's order.
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    values: Mapping[str, Value]  # all values by name: inputs, constants and results of nodes
    constants: Mapping[str, np.ndarray[Any, Any]]  # by name; never written to
    nodes: tuple[CanonicalNode, ...]  # in topological order
    #: Value -> the narrow type of its elements, where that is not the dtype they are held in.
    elements: Mapping[str, str] = field(default_factory=dict)
    decodings: Mapping[str, Decoding] = field(default_factory=dict)  # output -> how it is decoded, if it is
    #: Outputs of which a run fills a part: axes, and for each the output with the number of filled elements.
    lengths: Mapping[str, tuple[tuple[int, str], ...]] = field(default_factory=dict)
    guards: Mapping[str, ExtentGuard] = field(default_factory=dict)  # output, a single integer -> its limits
    #: The model's outputs in order, if some are sequences or have no value: their outputs here.
    composition: Composition = field(default_factory=dict)

    def producer(self) -> dict[str, CanonicalNode]:
        """Return the producing node of each value."""
        return {name: node for node in self.nodes for name in node.outputs if name is not None}


def compose(results: Mapping[str, Any], composition: Composition) -> dict[str, Any]:
    """Return a model's outputs for those of its network: sequences as lists."""
    if not composition:
        return dict(results)
    return {
        name: [results[each] for each in names] if isinstance(names, tuple) else names and results[names]
        for name, names in composition.items()
    }


def numbered_name(base: str, taken: set[str]) -> str:
    """Return a name that is not taken, numbered if necessary, and add it to those taken."""
    name, number = base, 1
    while name in taken:
        number += 1
        name = f"{base}#{number}"
    taken.add(name)
    return name


def cut_to_lengths(
    made: Mapping[str, np.ndarray[Any, Any]], lengths: Mapping[str, tuple[tuple[int, str], ...]]
) -> dict[str, np.ndarray[Any, Any]]:
    """Return a network's outputs, given `Network.lengths`: those with a length are cut to it, the lengths left out."""
    counts = {count: int(made[count].reshape(-1)[0]) for counted in lengths.values() for _, count in counted}
    found = {name: value for name, value in made.items() if name not in counts}
    for name, counted in lengths.items():
        part = [slice(None)] * found[name].ndim
        for axis, count in counted:
            extent = found[name].shape[axis]
            if not 0 <= counts[count] <= extent:
                raise ArgumentError(
                    f"{counts[count]:,} elements of {extent:,} are asked for",
                    where=f"output {name!r}",
                    hint="The model's inputs determine how many",
                )
            part[axis] = slice(counts[count])
        cut = found[name][tuple(part)]
        # A copy would be of no use where little memory is left unused; the next call may be given the whole array.
        found[name] = cut if 2 * cut.size >= found[name].size else cut.copy()
    return found
