# SPDX-License-Identifier: Apache-2.0
"""Importers of reductions, ArgMax, ArgMin, CumSum and TopK."""

from __future__ import annotations

from typing import Final

from syclsched.frontends.onnx.importing.importer_registry import Inputs, Names, UnsupportedFormError, imports
from syclsched.frontends.onnx.importing.lengths import Length
from syclsched.frontends.onnx.importing.network_builder import NetworkBuilder
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
        if node.integer("noop_with_empty_axes"):
            axes = ()
            if mode in ("sum", "mean", "max", "min", "prod"):
                return [x]
        else:
            axes = tuple(range(rank))
    if b.dtype(x)[0] in "iu" and mode in ("logsum", "logsumexp") and b.opset >= 28:
        raise b.wrong(f"it is given {b.dtype(x)}, and takes floats only from opset 28 on", hint="Cast its input")
    if b.dtype(x)[0] in "iu" and mode in ("l2", "logsum", "logsumexp"):
        raise UnsupportedFormError
    return [b.reduce(mode, x, b.axes(axes, rank), keepdims=bool(node.integer("keepdims", 1)))]


@imports("ArgMax", "ArgMin")
def _arg(b: NetworkBuilder, node: ModelNode, inputs: Inputs) -> Names:
    x, mode = inputs.required(0, "data"), node.operator.removeprefix("Arg").lower()
    axis = b.axis(node.integer("axis"), len(b.shape(x)))
    keepdims, last = bool(node.integer("keepdims", 1)), bool(node.integer("select_last_index"))
    return [b.emit("arg", [x], mode=mode, axis=axis, keepdims=keepdims, last=last)]


@imports("CumSum")
def _cum_sum(b: NetworkBuilder, node: ModelNode, inputs: Inputs) -> Names:
    x = inputs.required(0, "x")
    axis = b.axis(b.integer(inputs.required(1, "axis"), "the axis of CumSum"), len(b.shape(x)))
    exclusive, reverse = bool(node.integer("exclusive")), bool(node.integer("reverse"))
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
    largest, ordered = bool(node.integer("largest", 1)), bool(node.integer("sorted", 1))
    made = b.emit_all("topk", [x], wanted=wanted, k=k, axis=axis, largest=largest, sorted=ordered or is_open)
    if is_open:
        length = Length(axis, b.reshape(count or "", ()))
        b.lengths |= {each: length for each in made if each is not None}
    return made
