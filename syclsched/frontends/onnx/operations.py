# SPDX-License-Identifier: Apache-2.0
"""Mapping of canonical nodes to operations of `syclsched.kernels` and their arguments."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from syclsched.frontends.onnx.counted.counted_operation import counted_call
from syclsched.frontends.onnx.loops.loop_operation import loop_constants, loop_operation, loop_scratch
from syclsched.frontends.onnx.network import CanonicalNode, Value
from syclsched.frontends.onnx.operation_arguments import OperationCall
from syclsched.frontends.onnx.reference import reference_operation
from syclsched.kernels.nn.activation import checked
from syclsched.kernels.nn.attention.attention import attention
from syclsched.kernels.nn.attention.cache_write import cache_write
from syclsched.kernels.nn.attention.rotary import rotary
from syclsched.kernels.nn.convolution.conv import conv
from syclsched.kernels.nn.convolution.conv_transpose import conv_transpose
from syclsched.kernels.nn.gradients.conv_weights import conv_weights
from syclsched.kernels.nn.gradients.layer_norm_gradient import layer_norm_gradient
from syclsched.kernels.nn.gradients.pool_gradient import pool_gradient
from syclsched.kernels.nn.join import join
from syclsched.kernels.nn.normalisation.batch_norm import batch_norm
from syclsched.kernels.nn.normalisation.group_norm import group_norm
from syclsched.kernels.nn.normalisation.layer_norm import layer_norm
from syclsched.kernels.nn.normalisation.lrn import lrn
from syclsched.kernels.nn.normalisation.softmax_over import softmax_over
from syclsched.kernels.nn.pooling.pool import pool
from syclsched.kernels.nn.pooling.resize import resize
from syclsched.kernels.nn.pooling.roi_align import roi_align, roi_align_gradient
from syclsched.kernels.nn.product.matmul import matmul
from syclsched.kernels.nn.quantised.block_matmul import block_matmul
from syclsched.kernels.nn.quantised.dynamic_quantise import (
    dynamic_quantise,
    dynamic_quantise_in_parts,
    in_parts_is_faster,
)
from syclsched.kernels.nn.quantised.finishing import Finish
from syclsched.kernels.nn.quantised.integer_conv import integer_conv
from syclsched.kernels.nn.quantised.integer_matmul import integer_matmul
from syclsched.kernels.nn.recurrence.linear_recurrence import linear_recurrence
from syclsched.kernels.nn.recurrence.recurrent import recurrent
from syclsched.kernels.nn.recurrence.recurrent_gradient import recurrent_gradient
from syclsched.kernels.tensor.concat import concat
from syclsched.kernels.tensor.elementwise import elementwise
from syclsched.kernels.tensor.gather import gather, gather_elements, gather_nd
from syclsched.kernels.tensor.pad import pad
from syclsched.kernels.tensor.reductions.arg import arg
from syclsched.kernels.tensor.reductions.column_sums import column_moments, column_sums
from syclsched.kernels.tensor.reductions.reduce import reduce
from syclsched.kernels.tensor.reductions.reduce_whole import PARTS, reduce_whole, reduce_whole_is_faster
from syclsched.kernels.tensor.reductions.scan import scan_sum
from syclsched.kernels.tensor.reductions.scan_parts import scan_in_parts, scan_in_parts_is_faster
from syclsched.kernels.tensor.reductions.topk import topk
from syclsched.kernels.tensor.scatter import scatter_elements, scatter_nd
from syclsched.kernels.tensor.strided_slice import slice_of
from syclsched.kernels.tensor.transpose import transpose
from syclsched.kernels.tensor.update import update
from syclsched.kernels.trees import trees
from syclsched.model.access import AccessMode
from syclsched.model.operation import Operation

_Factory = Callable[[CanonicalNode, Mapping[str, Value]], Operation]

#: Attributes of both kinds of convolutions.
_WINDOWS: Final = ("strides", "pads", "dilations", "groups", "channels_last", "activation")
#: Attributes of them with a number for each spatial axis.
_OF_AXES: Final = ("strides", "dilations", "output_padding")
#: Attributes of matrix products.
_PRODUCT: Final = ("transpose_a", "transpose_b", "alpha", "beta", "activation", "interleaved")
#: Attributes of aligned regions and of their gradient.
_REGIONS: Final = ("mode", "cells", "scale", "half_pixel")
#: Attributes of pooling and of its gradient.
_POOLING: Final = ("mode", "kernel", "strides", "pads", "dilations", "count_include_pad", "channels_last")


def operation_call(node: CanonicalNode, values: Mapping[str, Value]) -> OperationCall:
    """Return the operation of a node and its arguments."""
    present = [name for name in node.inputs if name is not None]
    if node.kind == "reference":
        reads = {f"x{i}": name for i, name in enumerate(present)}
        made = [name for name in node.outputs if name is not None]
        return OperationCall(reference_operation(node), reads, {f"y{i}": name for i, name in enumerate(made)})
    if node.kind == "counted":
        return counted_call(node, values)
    if node.kind == "loop":
        body = node.attributes["body"]
        reads = {f"x{i}": name for i, name in enumerate(present)}
        return OperationCall(
            loop_operation(body, node.origin, operation_call),
            reads,
            {f"y{i}": name for i, name in enumerate(node.outputs)},
            constants=loop_constants(body),
            scratch=loop_scratch(body),
        )
    if node.kind == "operation":
        return _own_call(node)
    if node.kind == "recurrent_gradient":
        return _recurrent_gradient_call(node)
    if node.kind in ("elementwise", "concat"):
        factory, what = (elementwise, "expression") if node.kind == "elementwise" else (concat, "axis")
        operation = factory(node.attributes[what], len(present))
        return OperationCall(operation, {f"x{i}": name for i, name in enumerate(present)}, {"y": node.outputs[0]})
    if node.kind == "update":
        return _update_call(node)
    if node.kind == "column_sums":
        operation = column_sums(node.attributes["expressions"], len(present), node.attributes["means"])
        reads = {f"x{i}": name for i, name in enumerate(present)}
        return OperationCall(operation, reads, {f"y{i}": name for i, name in enumerate(node.outputs)})
    if node.kind == "join":
        parts = len(present) - 2
        reads = dict(zip((*(f"x{i}" for i in range(parts)), "scale", "shift"), present, strict=True))
        return OperationCall(join(parts, node.attributes["activation"]), reads, {"y": node.outputs[0]})
    if node.kind == "dynamic_quantise":
        return _dynamic_quantise_call(node, values)
    if node.kind == "reduce" and (full := _full_reduction(node, values)) is not None:
        return full
    node, reshaped = _with_unit_axis_first(node, values)
    operation = _FACTORIES[node.kind](node, values)
    names = PARAMETERS[node.kind]
    reads = {parameter: name for parameter, name in zip(names, node.inputs, strict=False) if name is not None}
    written = [each.name for each in operation.parameters if each.mode is AccessMode.WRITE]
    if len(written) > 1:
        return OperationCall(operation, reads, dict(zip(written, node.outputs, strict=False)))
    updated = {"y": reads.pop("r")} if _in_place(node) else {"y": reads.pop("y")} if "y" in reads else {}
    return OperationCall(operation, reads, {"y": node.outputs[0]}, reshaped=reshaped, updated=updated)


def _with_unit_axis_first(
    node: CanonicalNode, values: Mapping[str, Value]
) -> tuple[CanonicalNode, Mapping[str, tuple[int, ...]]]:
    """Return a convolution along (N, C, L, 1) as one along (N, C, 1, L), and the shapes of its parameters.

    Memory is the same, and kernels compute neighbouring elements of the last axis together. Other nodes are unchanged.
    """
    if node.kind not in ("conv", "conv_transpose", "integer_conv") or len(node.attributes["strides"]) < 2:
        return node, {}
    at, ndim = node.attributes, len(node.attributes["strides"])
    shapes = {
        parameter: values[name].shape
        for parameter, name in (*zip(PARAMETERS[node.kind], node.inputs, strict=False), ("y", node.outputs[0]))
        if name is not None and len(values[name].shape) == ndim + 2
    }
    # The weights have their axes behind the first two in both layouts.
    ends = {parameter: ndim + 1 if at["channels_last"] and parameter != "w" else ndim + 2 for parameter in shapes}
    if any(shape[ends[parameter] - 1] != 1 for parameter, shape in shapes.items()) or any(at["pads"][ndim - 1 :: ndim]):
        return node, {}

    def turned(numbers: tuple[int, ...], end: int) -> tuple[int, ...]:
        """Move the number of the last spatial axis before those of the others."""
        return (*numbers[: end - ndim], numbers[end - 1], *numbers[end - ndim : end - 1], *numbers[end:])

    changed = {name: turned(at[name], ndim) for name in _OF_AXES if name in at}
    changed["pads"] = turned(turned(at["pads"], ndim), 2 * ndim)
    reshaped = {parameter: turned(shape, ends[parameter]) for parameter, shape in shapes.items()}
    return replace(node, attributes={**at, **changed}), reshaped


def _own_call(node: CanonicalNode) -> OperationCall:
    operation: Operation = node.attributes["operation"]
    given = [each for each in operation.parameters if each.mode is not None and each.mode.reads]
    made = [each for each in operation.parameters if each.mode is not None and each.mode.writes]
    taken = {each.name: name for each, name in zip(given, node.inputs, strict=True) if name is not None}
    return OperationCall(
        operation,
        {each.name: taken[each.name] for each in given if each not in made},
        {each.name: name for each, name in zip(made, node.outputs, strict=True)},
        updated={each.name: taken[each.name] for each in given if each in made},
        scalars=dict(node.attributes["scalars"]),
    )


def _recurrent_gradient_call(node: CanonicalNode) -> OperationCall:
    """Return the call whose parameters are in the order of the node's inputs and outputs."""
    operation = recurrent_gradient(**node.attributes)
    written = [each.name for each in operation.parameters if each.mode is AccessMode.WRITE]
    read = [each.name for each in operation.parameters if each.mode is AccessMode.READ]
    return OperationCall(
        operation,
        {parameter: name for parameter, name in zip(read, node.inputs, strict=True) if name is not None},
        dict(zip(written, node.outputs, strict=True)),
    )


def _update_call(node: CanonicalNode) -> OperationCall:
    """Return the call that updates values in place."""
    present = [name for name in node.inputs if name is not None]
    count = len(node.attributes["expressions"])
    operation = update(node.attributes["expressions"], len(present) - count)
    return OperationCall(
        operation,
        {f"x{i}": name for i, name in enumerate(present[count:])},
        {f"y{i}": name for i, name in enumerate(node.outputs)},
        updated={f"y{i}": name for i, name in enumerate(present[:count])},
    )


def _full_reduction(node: CanonicalNode, values: Mapping[str, Value]) -> OperationCall | None:
    """Return the call for reducing a large array to one number on all compute units; None for other reductions."""
    x, mode = values[node.inputs[0] or ""], node.attributes["mode"]
    if not reduce_whole_is_faster(mode, x.shape, node.attributes["axes"], x.dtype):
        return None
    scratch = {"parts": Value(f"{node.name} parts", (PARTS,), x.dtype)}
    return OperationCall(reduce_whole(mode), {"x": x.name}, {"y": node.outputs[0]}, scratch, {"y": ()})


def _dynamic_quantise_call(node: CanonicalNode, values: Mapping[str, Value]) -> OperationCall:
    """Return the call that quantises an array by its range, of a large array by those of its parts."""
    x = values[node.inputs[0] or ""]
    made = dict(zip("yszi", node.outputs, strict=True))
    if not in_parts_is_faster(x.shape):
        return OperationCall(dynamic_quantise(), {"x": x.name}, made)
    scratch = {"parts": Value(f"{node.name} parts", (2, PARTS), x.dtype)}
    return OperationCall(dynamic_quantise_in_parts(), {"x": x.name}, made, scratch)


def _in_place(node: CanonicalNode) -> bool:
    """Return whether the node's result overwrites its residual."""
    return bool(node.attributes.get("in_place")) and node.input(3) is not None


def _conv(node: CanonicalNode, values: Mapping[str, Value]) -> Operation:
    at = {name: node.attributes[name] for name in _WINDOWS}
    has_bias, has_residual = node.input(2) is not None, node.input(3) is not None
    made: Operation = conv(len(at["strides"]), **at, bias=has_bias, residual=has_residual, in_place=_in_place(node))
    return made


def _conv_transpose(node: CanonicalNode, values: Mapping[str, Value]) -> Operation:
    at = {name: node.attributes[name] for name in (*_WINDOWS, "output_padding")}
    made: Operation = conv_transpose(len(at["strides"]), **at, bias=node.input(2) is not None)
    return made


def _conv_weights(node: CanonicalNode, values: Mapping[str, Value]) -> Operation:
    at = {name: node.attributes[name] for name in _WINDOWS if name != "activation"}
    made: Operation = conv_weights(len(at["strides"]), **at)
    return made


def _from_attributes(factory: Callable[..., Operation], *names: str, **operands: int) -> _Factory:
    """Return a function that passes a node's attributes, and whether it has the optional inputs at some positions."""

    def make(node: CanonicalNode, values: Mapping[str, Value]) -> Operation:
        given = {name: node.attributes[name] for name in names if name in node.attributes}
        return factory(**given, **{name: node.input(position) is not None for name, position in operands.items()})

    return make


def _integer_matmul(node: CanonicalNode, values: Mapping[str, Value]) -> Operation:
    made: Operation = integer_matmul(_finish(node), narrow=node.attributes["narrow"])
    return made


def _integer_conv(node: CanonicalNode, values: Mapping[str, Value]) -> Operation:
    at = {name: node.attributes[name] for name in _WINDOWS if name != "activation"}
    made: Operation = integer_conv(len(at["strides"]), **at, finish=_finish(node), narrow=node.attributes["narrow"])
    return made


def _finish(node: CanonicalNode) -> Finish:
    """Return the finish of integer sums."""
    at = node.attributes
    return Finish(
        scaled=node.input(5) is not None,
        scaled_twice=node.input(6) is not None,
        bias=node.input(2) is not None,
        residual=node.input(3) is not None,
        activation=checked(at["activation"]),
        quantise=at["quantise"],
        symmetric=node.input(4) is None,
        addend=at.get("addend"),
    )


def _scan(node: CanonicalNode, values: Mapping[str, Value]) -> Operation:
    x, at = values[node.inputs[0] or ""], node.attributes
    factory = scan_in_parts if scan_in_parts_is_faster(x.shape, at["axis"], x.dtype) else scan_sum
    made: Operation = factory(at["axis"], at["exclusive"], at["reverse"])
    return made


def _recurrent(node: CanonicalNode, values: Mapping[str, Value]) -> Operation:
    present = {name: node.input(position) is not None for position, name in enumerate(PARAMETERS["recurrent"])}
    states = 3 if node.attributes["cell"] == "lstm" else 2
    made: Operation = recurrent(
        **node.attributes,
        last=any(node.outputs[1:]),
        state=present["h0"],
        lengths=present["lengths"],
        peepholes=present["p"],
        sums=any(node.outputs[states:]),
    )
    return made


_FACTORIES: Final[dict[str, _Factory]] = {
    "conv": _conv,
    "conv_transpose": _conv_transpose,
    "conv_weights": _conv_weights,
    "pool": _from_attributes(pool, *_POOLING, "activation"),
    "pool_gradient": _from_attributes(pool_gradient, *_POOLING),
    "matmul": _from_attributes(matmul, *_PRODUCT, bias=2, residual=3),
    "integer_matmul": _integer_matmul,
    "integer_conv": _integer_conv,
    "block_matmul": _from_attributes(block_matmul, "block", zeros=3, bias=4),
    "layer_norm": _from_attributes(layer_norm, "axis", "epsilon", "centred", bias=2),
    "layer_norm_gradient": _from_attributes(layer_norm_gradient, "axis", "epsilon", "centred"),
    "lrn": _from_attributes(lrn, "alpha", "beta", "bias", "size", "channels_last"),
    "batch_norm": _from_attributes(batch_norm, "epsilon", "channels_last", "activation"),
    "group_norm": _from_attributes(group_norm, "groups", "epsilon", "channels_last", "activation"),
    "softmax": _from_attributes(softmax_over, "axis", "log"),
    "resize": _from_attributes(
        resize, "mode", "coordinates", "nearest", "scales", "roi", "cubic", "exclude_outside", "extrapolation"
    ),
    "roi_align": _from_attributes(roi_align, *_REGIONS),
    "roi_align_gradient": _from_attributes(roi_align_gradient, *_REGIONS),
    "reduce": _from_attributes(reduce, "mode", "axes", "keepdims"),
    "column_moments": lambda _, __: column_moments(),
    "arg": _from_attributes(arg, "mode", "axis", "keepdims", "last"),
    "topk": _from_attributes(topk, "k", "axis", "largest", "sorted"),
    "scan_sum": _scan,
    "transpose": _from_attributes(transpose, "permutation"),
    "gather": _from_attributes(gather, "axis"),
    "gather_elements": _from_attributes(gather_elements, "axis"),
    "gather_nd": _from_attributes(gather_nd, "batch_dims"),
    "scatter_elements": _from_attributes(scatter_elements, "axis", "reduction"),
    "scatter_nd": _from_attributes(scatter_nd, "reduction"),
    "slice": _from_attributes(slice_of, "starts", "steps"),
    "pad": _from_attributes(pad, "pads", "mode", "value"),
    "recurrent": _recurrent,
    "linear_recurrence": _from_attributes(linear_recurrence, "reverse"),
    "attention": _from_attributes(attention, "scale", "softcap", "window"),
    "cache_write": _from_attributes(cache_write, "circular", "first"),
    "rotary": _from_attributes(rotary, "interleaved", "part"),
    "trees": _from_attributes(trees, "rule", "combine", "missing", sparse=5),
}

#: Names of the read parameters of an operation by kind of node, in the order of the inputs.
PARAMETERS: Final[dict[str, tuple[str, ...]]] = {
    **dict.fromkeys(_FACTORIES, ("x",)),
    "conv": ("x", "w", "b", "r"),
    "conv_transpose": ("x", "w", "b"),
    **dict.fromkeys(("conv_weights", "pool_gradient"), ("x", "dy")),
    "roi_align": ("x", "regions", "of"),
    "roi_align_gradient": ("x", "regions", "of", "dy"),
    "batch_norm": ("x", "scale", "bias", "mean", "variance"),
    "layer_norm": ("x", "scale", "b"),
    "layer_norm_gradient": ("x", "scale", "dy"),
    "group_norm": ("x", "scale", "bias"),
    "matmul": ("a", "b", "c", "r"),
    **dict.fromkeys(("integer_matmul", "integer_conv"), ("x", "w", "b", "r", "z", "s", "sx")),
    "block_matmul": ("x", "w", "s", "z", "b"),
    "attention": ("q", "key", "value", "starts"),
    "cache_write": ("y", "rows", "starts"),
    "rotary": ("x", "cosines", "sines", "positions"),
    "trees": ("x", "nodes", "thresholds", "roots", "weights", "columns"),
    "recurrent": ("x", "w", "r", "b", "h0", "c0", "lengths", "p"),
    "linear_recurrence": ("a", "b", "start"),
    **dict.fromkeys(("gather", "gather_elements", "gather_nd"), ("x", "indices")),
    **dict.fromkeys(("scatter_elements", "scatter_nd"), ("x", "indices", "updates")),
}
