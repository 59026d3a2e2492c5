# SPDX-License-Identifier: Apache-2.0
"""Importers of reductions, ArgMax, ArgMin and CumSum."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from syclsched.frontends.onnx.importing.importer_registry import UnsupportedFormError, given, imports, optional
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
def reduce(b: NetworkBuilder, node: ModelNode, inputs: Sequence[str | None]) -> Sequence[str | None]:
    """Import reductions; the axes are an attribute or, in later opsets, an input."""
    x, axes_name = given(b, inputs, 0, "data"), optional(inputs, 1)
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
    if b.dtype(x)[0] in "iu" and mode in ("l2", "logsum", "logsumexp"):
        raise UnsupportedFormError
    return [b.emit("reduce", [x], mode=mode, axes=b.axes(axes, rank), keepdims=bool(node.integer("keepdims", 1)))]


@imports("ArgMax", "ArgMin")
def arg(b: NetworkBuilder, node: ModelNode, inputs: Sequence[str | None]) -> Sequence[str | None]:
    """Import ArgMax and ArgMin."""
    x = given(b, inputs, 0, "data")
    return [
        b.emit(
            "arg",
            [x],
            mode="max" if node.operator == "ArgMax" else "min",
            axis=b.axis(node.integer("axis"), len(b.shape(x))),
            keepdims=bool(node.integer("keepdims", 1)),
            last=bool(node.integer("select_last_index")),
        )
    ]


@imports("CumSum")
def cum_sum(b: NetworkBuilder, node: ModelNode, inputs: Sequence[str | None]) -> Sequence[str | None]:
    """Import CumSum."""
    x = given(b, inputs, 0, "x")
    axis = int(b.require(given(b, inputs, 1, "axis"), "the axis of CumSum").reshape(-1)[0])
    return [
        b.emit(
            "scan_sum",
            [x],
            axis=b.axis(axis, len(b.shape(x))),
            exclusive=bool(node.integer("exclusive")),
            reverse=bool(node.integer("reverse")),
        )
    ]
