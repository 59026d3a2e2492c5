# SPDX-License-Identifier: Apache-2.0
"""Importers of reductions, ArgMax, ArgMin, CumSum and TopK."""

from __future__ import annotations

from typing import Final

import numpy as np

from syclsched.frontends.onnx.importing.extents import mean
from syclsched.frontends.onnx.importing.importer_registry import Inputs, Names, imports
from syclsched.frontends.onnx.importing.lengths import Length
from syclsched.frontends.onnx.importing.network_builder import NetworkBuilder
from syclsched.frontends.onnx.model_file.dtypes import FLOATS
from syclsched.frontends.onnx.model_file.onnx_model import ModelNode

_MODES: Final = {
    "ReduceSum": "sum",
    "ReduceMean": "mean",
    "ReduceMax": "max",
    "ReduceMin": "min",
    "ReduceProd": "prod",
    "ReduceL1": "l1",
    "ReduceL2": "l2",
    "ReduceSumSquare": "sumsquare",
    "ReduceLogSum": "logsum",
    "ReduceLogSumExp": "logsumexp",
}


@imports(*_MODES)
def _reduce(b: NetworkBuilder, node: ModelNode, inputs: Inputs) -> Names:
    """Import reductions; the axes are an attribute or, in later opsets, an input."""
    x, axes_name = inputs.required(0, "data"), inputs.optional(1)
    mode = _MODES[node.operator]
    rank = len(b.shape(x))
    axes = node.integers("axes")
    if axes_name is not None:
        axes = b.integers(axes_name, "the axes")
    if not axes:
        if node.flag("noop_with_empty_axes"):
            axes = ()
            if mode in ("sum", "mean", "max", "min", "prod"):
                return [x]
        else:
            axes = tuple(range(rank))
    dtype, computed = b.dtype(x), x
    if dtype[0] in "iu" and mode in ("l2", "logsum", "logsumexp"):
        computed = b.cast(x, "float64")  # and the result truncated, or the largest number, as ONNX Runtime does
    elif mode == "mean" and dtype in ("int32", "uint32"):
        computed = b.cast(x, "int64")  # the sum may be beyond the type, and the mean within
    places, keepdims = b.axes(axes, rank), node.flag("keepdims", 1)
    if mode == "mean" and dtype in FLOATS:
        made = mean(b, computed, places, keepdims=keepdims)
    else:
        made = b.reduce(mode, computed, places, keepdims=keepdims)
    if dtype[0] in "iu" and mode == "l2":
        most = int(np.iinfo(dtype).max)
        beyond = ("greater_equal", 0, ("const", float(most)))
        return [b.elementwise(("where", beyond, ("const", most, dtype), ("cast", dtype, 0)), made)]
    return [b.cast(made, dtype)]


@imports("ArgMax", "ArgMin")
def _arg(b: NetworkBuilder, node: ModelNode, inputs: Inputs) -> Names:
    x, mode = inputs.required(0, "data"), node.operator.removeprefix("Arg").lower()
    if not b.shape(x):
        return [b.filled((), "int64")]
    axis = b.axis(node.integer("axis"), len(b.shape(x)))
    keepdims, last = node.flag("keepdims", 1), node.flag("select_last_index")
    return [b.emit("arg", [x], mode=mode, axis=axis, keepdims=keepdims, last=last)]


@imports("CumSum")
def _cum_sum(b: NetworkBuilder, node: ModelNode, inputs: Inputs) -> Names:
    x = inputs.required(0, "x")
    if not b.shape(x):
        raise b.wrong("its input is a scalar, which has no axis")
    axis = b.axis(b.integer(inputs.required(1, "axis"), "the axis of CumSum"), len(b.shape(x)))
    exclusive, reverse = node.flag("exclusive"), node.flag("reverse")
    return [b.emit("scan_sum", [x], axis=axis, exclusive=exclusive, reverse=reverse)]


@imports("TopK")
def _topk(b: NetworkBuilder, node: ModelNode, inputs: Inputs) -> Names:
    """Import TopK; k is an attribute before opset 10, then an input."""
    x, count = inputs.required(0, "X"), inputs.optional(1)
    axis = b.axis(node.integer("axis", -1), len(b.shape(x)))
    is_open = count is not None and b.known(count) is None
    if is_open:  # all are ordered, and the first of them count
        k = b.shape(x)[axis]
    else:
        k = node.integer("k", -1) if count is None else b.integer(count, "the k of TopK")
    wanted = [bool(name) for name in (*node.outputs, "")[:2]]
    largest, ordered = node.flag("largest", 1), node.flag("sorted", 1)
    made = b.emit_all("topk", [x], wanted=wanted, k=k, axis=axis, largest=largest, sorted=ordered or is_open)
    if is_open:
        length = Length(axis, b.reshape(count or "", ()))
        for each in made:
            if each is not None:
                b.give_lengths(each, [*b.lengths.get(each, ()), length])
    return made
