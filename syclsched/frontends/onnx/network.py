# SPDX-License-Identifier: Apache-2.0
"""A model for given input shapes: values of known shape and dtype, constants, and canonical nodes in order.

Canonical nodes are few and say everything in their attributes. An ONNX node of whatever opset becomes one or several of
them; what ONNX passes as a constant input (axes, pads, slices) is an attribute here. The kinds:

===================  ==================================================================================================
``conv``             inputs x, w, optional bias, optional residual -> y. ``strides``, ``pads`` (begins then ends),
                     ``dilations``, ``groups``, ``channels_last`` (of x, y and residual; w is always (O, I/g, *kernel)),
                     ``activation``, ``in_place`` (whether y takes the residual's memory)
``conv_transpose``   inputs x, w, optional bias -> y. As ``conv``, and ``output_padding``; w is (I, O/g, *kernel)
``pool``             x -> y. ``mode`` "max" or "average", ``kernel``, ``strides``, ``pads``, ``dilations``,
                     ``count_include_pad``, ``channels_last``; if there is one, ``activation``
``lrn``              x -> y. ``alpha``, ``beta``, ``bias``, ``size``, ``channels_last``
``batch_norm``       x, scale, bias, mean, variance -> y. ``epsilon``, ``channels_last``, ``activation``
``layer_norm``       x, scale, optional bias -> y. ``axis``, ``epsilon``
``group_norm``       x, scale, bias -> y. ``groups`` (of all channels: instance norm), ``epsilon``, ``channels_last``
``matmul``           a, b, optional bias, optional residual -> y. ``transpose_a``, ``transpose_b`` (of the last two
                     axes), ``alpha`` (of a @ b), ``beta`` (of the bias), ``activation``; leading axes broadcast, and so
                     does the bias against y
``softmax``          x -> y. ``axis``, ``log``
``elementwise``      any number of inputs, broadcast -> y of ``dtype``. ``expression``: see
                     `syclsched.kernels.tensor.expression`; casts, comparisons, where and expand are such, too
``reduce``           x -> y. ``mode`` ("sum", "mean", "max", "min", "prod", "l1", "l2", "sumsquare", "logsum",
                     "logsumexp"), ``axes`` (not negative), ``keepdims``
``arg``              x -> y (int64). ``mode`` "max" or "min", ``axis``, ``keepdims``, ``last`` (of equals)
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
``join``             any number, then scale, shift -> y: ``activation`` of the values one after another along the last
                     axis, times scale, plus shift (vectors along that axis)
``slice``            x -> y. ``starts``, ``steps`` of every axis (the extents are y's); steps may be negative
``pad``              x -> y. ``pads`` (begins then ends, of every axis, not negative), ``mode`` ("constant", "reflect",
                     "edge", "wrap"), ``value``
``resize``           x -> y. ``mode`` ("nearest", "linear", "cubic"), ``coordinates`` (ONNX's name), ``nearest`` (ONNX's
                     name), ``scales`` (of every axis), ``channels_last`` and whatever else ONNX says
``reference``        any -> any: done by the host with onnx's own reference implementation. ``node``: the serialised
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

#: All kinds of canonical nodes.
KINDS: Final = frozenset(
    {
        "conv",
        "conv_transpose",
        "pool",
        "lrn",
        "batch_norm",
        "layer_norm",
        "group_norm",
        "matmul",
        "softmax",
        "elementwise",
        "reduce",
        "arg",
        "topk",
        "scan_sum",
        "transpose",
        "reshape",
        "gather",
        "gather_elements",
        "gather_nd",
        "scatter_elements",
        "scatter_nd",
        "concat",
        "join",
        "slice",
        "pad",
        "resize",
        "reference",
    }
)


@dataclass(frozen=True, slots=True)
class Value:
    """What stands for an array in a network."""

    name: str  # unique within the network
    shape: tuple[int, ...]  # its extents
    dtype: str  # NumPy dtype name


@dataclass(frozen=True, slots=True)
class Node:
    """One canonical node."""

    name: str  # unique within the network; that of the ONNX node it comes from, as far as possible
    kind: str  # one of `KINDS`
    #: Names of values, in the order of the table above; None for an optional one that is not there.
    inputs: tuple[str | None, ...]
    outputs: tuple[str | None, ...]  # names of the values it makes; None for one that nobody asks for
    attributes: Mapping[str, Any] = field(default_factory=dict)  # numbers, strings and tuples of such
    origin: tuple[str, ...] = ()  # the ONNX nodes it comes from, as ``"Conv conv1"``: what reports and traces name


@dataclass(frozen=True, slots=True)
class Network:
    """A model for given input shapes."""

    name: str  # the model's
    #: Values that are given and asked for, in the model's order.
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    values: Mapping[str, Value]  # all values by name: inputs, constants and what nodes make
    constants: Mapping[str, np.ndarray[Any, Any]]  # those that are known: never written to
    nodes: tuple[Node, ...]  # each after those whose values it needs

    def producer(self) -> dict[str, Node]:
        """Return the node that makes each value, by the value's name."""
        return {name: node for node in self.nodes for name in node.outputs if name is not None}

    def consumers(self) -> dict[str, list[Node]]:
        """Return the nodes that need each value, by the value's name; a node that needs it twice stands twice."""
        found: dict[str, list[Node]] = {}
        for node in self.nodes:
            for name in node.inputs:
                if name is not None:
                    found.setdefault(name, []).append(node)
        return found
