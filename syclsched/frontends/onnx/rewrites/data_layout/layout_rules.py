# SPDX-License-Identifier: Apache-2.0
"""Layout rules: the layouts each kind of node supports, and its attributes in them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from syclsched.frontends.onnx.network import CanonicalNode, Value
from syclsched.frontends.onnx.rewrites.data_layout.axis_layouts import (
    Layout,
    before_transpose,
    channels_last,
    identity_layout,
    permuted,
    permuted_pairs,
    reduced,
    same_element_order,
    through_reshape,
    through_transpose,
)
from syclsched.frontends.onnx.rewrites.fusion.expressions import is_input
from syclsched.kernels.tensor.writing.expression import split_expression

#: Kinds that are converted to channels last.
CHANNELS_LAST_KINDS: Final = frozenset({"conv", "conv_transpose", "integer_conv", "conv_weights"})
#: Kinds that support both orders, selected by ``channels_last``.
FLEXIBLE_KINDS: Final = frozenset({"pool", "lrn", "group_norm", "batch_norm", "pool_gradient"})
#: Positions of the inputs in the layout that ``channels_last`` selects, if not the first one only.
_IMAGES: Final = {"conv": (0, 3), "integer_conv": (0, 3), "conv_weights": (0, 1), "pool_gradient": (0, 1)}


@dataclass(frozen=True)
class NodeLayouts:
    """The layouts of a node's values, and its attributes in these layouts."""

    #: Layouts; empty for a scalar and for a missing optional value.
    inputs: tuple[Layout, ...]
    outputs: tuple[Layout, ...]
    attributes: Mapping[str, Any]
    gone: bool = False  # whether the node becomes the identity and is removed


def image_inputs(node: CanonicalNode) -> tuple[int, ...]:
    """Return the positions of the inputs that share the layout of the first one."""
    return tuple(range(len(node.inputs))) if node.kind in ("elementwise", "concat") else _IMAGES.get(node.kind, (0,))


class LayoutRules:
    """Layout rules for the nodes of a network."""

    def __init__(self, values: Mapping[str, Value]) -> None:
        self._values = values

    def shape(self, name: str | None) -> tuple[int, ...]:
        """Return a value's shape; () for a missing optional one."""
        return () if name is None else self._values[name].shape

    def plain(self, node: CanonicalNode) -> NodeLayouts:
        """Return the identity layouts of a node."""
        return NodeLayouts(
            tuple(identity_layout(len(self.shape(name))) for name in node.inputs),
            tuple(identity_layout(len(self.shape(name))) for name in node.outputs),
            node.attributes,
        )

    def place(self, node: CanonicalNode, layout: Layout) -> NodeLayouts | None:
        """Return a node's layouts for its first input (for concat, all inputs) in a layout; None if unsupported."""
        as_it_is = self.plain(node)
        if not node.inputs or node.inputs[0] is None:
            return as_it_is
        shape = self.shape(node.inputs[0])
        a = node.attributes
        if node.kind in CHANNELS_LAST_KINDS or node.kind in FLEXIBLE_KINDS:
            return self._channels(node, layout, as_it_is)
        if node.kind == "transpose":
            made = through_transpose(layout, a["permutation"])
            return NodeLayouts((layout,), (made,), a, gone=True)
        if node.kind == "reshape":
            target = through_reshape(shape, self.shape(node.outputs[0]), layout)
            return None if target is None else NodeLayouts((layout,), (target,), a)
        if node.kind in ("reduce", "arg"):
            axes = tuple(a["axes"]) if node.kind == "reduce" else (a["axis"],)
            made = layout if a["keepdims"] else reduced(layout, axes)
            stored_axes = tuple(sorted(layout.index(axis) for axis in axes))
            return NodeLayouts(
                (layout,),
                (made,),
                {**a, "axes": stored_axes} if node.kind == "reduce" else {**a, "axis": stored_axes[0]},
            )
        if node.kind == "layer_norm":
            # The normalised axes must stay last and in order.
            last = tuple(range(a["axis"], len(shape)))
            stays_last = layout[len(shape) - len(last) :] == last
            return NodeLayouts((layout, *as_it_is.inputs[1:]), (layout,), a) if stays_last else None
        moved = _MOVED.get(node.kind)
        if moved is None:
            return as_it_is if layout == as_it_is.inputs[0] else None
        count = len(node.inputs) if node.kind == "concat" else 1
        return NodeLayouts((layout,) * count, tuple(layout for _ in node.outputs), moved(dict(a), layout))

    def _channels(self, node: CanonicalNode, layout: Layout, as_it_is: NodeLayouts) -> NodeLayouts | None:
        rank = len(layout)
        if node.attributes.get("channels_last") or layout == identity_layout(rank):
            return as_it_is if layout == identity_layout(rank) else None
        if layout != channels_last(rank):
            return None
        images = image_inputs(node)
        inputs = tuple(layout if index in images else each for index, each in enumerate(as_it_is.inputs))
        outputs = as_it_is.outputs if node.kind == "conv_weights" else (layout,)
        return NodeLayouts(inputs, outputs, {**node.attributes, "channels_last": True})

    def preferred_input(self, node: CanonicalNode, wanted: Layout | None) -> Layout | None:
        """Return the preferred layout of the first input for a wanted layout of the result; None for no preference."""
        if not node.inputs or node.inputs[0] is None:
            return None
        shape = self.shape(node.inputs[0])
        rank = len(shape)
        if node.kind in CHANNELS_LAST_KINDS and not node.attributes.get("channels_last"):
            return channels_last(rank)
        made = self.shape(node.outputs[0])
        if node.kind in ("reduce", "arg") and len(made) != rank and sum(extent != 1 for extent in made) <= 1:
            return None  # one axis is left: the result is the same for every layout
        if wanted is None:
            passes_on = node.kind in ("elementwise", "transpose", "reshape", *_MOVED, *FLEXIBLE_KINDS)
            return None if passes_on else identity_layout(rank)
        if node.kind in FLEXIBLE_KINDS and not node.attributes.get("channels_last"):
            return (
                channels_last(rank) if same_element_order(made, wanted, channels_last(rank)) else identity_layout(rank)
            )
        if node.kind == "transpose":
            return before_transpose(wanted, node.attributes["permutation"])
        if node.kind == "reshape":
            return through_reshape(made, shape, wanted) or identity_layout(rank)
        if node.kind in ("elementwise", *_MOVED) or (
            node.kind in ("reduce", "arg", "layer_norm") and len(made) == rank
        ):
            return (
                wanted if self.place(node, wanted) is not None or node.kind == "elementwise" else identity_layout(rank)
            )
        return identity_layout(rank)


def permute_index_axes(expression: Any, layout: Layout) -> Any:
    """Return an expression for stored values, with axis numbers mapped to the layout."""
    if is_input(expression):
        return expression
    parameters, operands = split_expression(expression)
    if expression[0] == "index":
        rank = len(layout)
        axis = parameters[0] + rank
        return ("index", layout.index(axis) - rank) if axis >= 0 else expression
    return (expression[0], *parameters, *(permute_index_axes(each, layout) for each in operands))


def _axis(a: dict[str, Any], layout: Layout) -> dict[str, Any]:
    return {**a, "axis": layout.index(a["axis"])}


def _slice(a: dict[str, Any], layout: Layout) -> dict[str, Any]:
    return {**a, "starts": permuted(a["starts"], layout), "steps": permuted(a["steps"], layout)}


def _pad(a: dict[str, Any], layout: Layout) -> dict[str, Any]:
    return {**a, "pads": permuted_pairs(a["pads"], layout)}


def _resize(a: dict[str, Any], layout: Layout) -> dict[str, Any]:
    changed = {**a, "scales": permuted(a["scales"], layout)}
    if a.get("roi"):
        changed["roi"] = permuted_pairs(a["roi"], layout)
    return changed


_MOVED: Final[dict[str, Callable[[dict[str, Any], Layout], dict[str, Any]]]] = {
    "concat": _axis,
    "softmax": _axis,
    "scan_sum": _axis,
    "topk": _axis,
    "slice": _slice,
    "pad": _pad,
    "resize": _resize,
}
