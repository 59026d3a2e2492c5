# SPDX-License-Identifier: Apache-2.0
"""Channels-last layout assignment, so that convolutions need no transpositions between them.

Each value gets a layout, from the network's inputs on. Convolutions need channels last; most other nodes accept the
layout of their input and pass it on; a transposition, and often a reshape, only relabels axes. Transpositions are
inserted only where a node needs another layout than its input has.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np

from syclsched.frontends.onnx.network import CanonicalNode, Value
from syclsched.frontends.onnx.rewrites.data_layout.axis_layouts import (
    Layout,
    extended_layout,
    identity_layout,
    permutation_between,
    same_element_order,
    significant_axes,
    stored_shape,
    trailing_layout,
)
from syclsched.frontends.onnx.rewrites.data_layout.layout_rules import (
    CHANNELS_LAST_KINDS,
    LayoutRules,
    NodeLayouts,
    image_inputs,
    permute_index_axes,
)
from syclsched.frontends.onnx.rewrites.network_draft import NetworkDraft


def propagate_layouts(draft: NetworkDraft) -> None:
    """Convert convolutions and the nodes between them to channels last.

    Values whose layout changes get the permuted shape, (N, H, W, C). The network's inputs and outputs keep theirs. If
    all convolutions have channels last already, the network changes only if fewer elements are then transposed.
    """
    seeds = list(draft.each(*CHANNELS_LAST_KINDS))
    if not seeds:
        return
    plan = _LayoutPlan(draft)
    new = [node for node in seeds if not node.attributes.get("channels_last")]
    before = sum(math.prod(draft.shape(str(node.outputs[0]))) for node in draft.each("transpose"))
    if not new and plan.moved >= before:
        return
    made, gone = _LayoutApplication(draft, plan).apply()
    for node in new:
        draft.record_change("channels last", node.name)
    for name in made:
        draft.record_change("transpositions made", name)
    for name in gone:
        draft.record_change("transpositions without work left", name)


class _LayoutPlan:
    """A layout for every value, and the layouts and attributes of every node."""

    def __init__(self, draft: NetworkDraft) -> None:
        self._draft = draft
        self._placing = LayoutRules(draft.values)
        self.layouts: dict[str, Layout] = {name: identity_layout(len(draft.shape(name))) for name in draft.inputs}
        self.places: dict[str, NodeLayouts] = {}
        #: Number of transposed elements.
        self.moved = 0
        self._available: set[tuple[str, Layout]] = set()
        self._votes = self._count_votes()
        for node in draft.each():
            place = self._elementwise(node) if node.kind == "elementwise" else self._place(node)
            self.places[node.name] = place
            if node.kind == "transpose" and not place.gone:
                self.moved += math.prod(draft.shape(str(node.outputs[0])))
            for name, layout in zip(node.inputs, place.inputs, strict=True):
                if name is not None and not self._free(name, layout):
                    self.moved += math.prod(draft.shape(name))
                    self._available.add((name, layout))
            for name, layout in zip(node.outputs, place.outputs, strict=True):
                if name is not None:
                    self.layouts[name] = layout
        for name in draft.outputs:
            if not self._free(name, identity_layout(len(draft.shape(name)))):
                self.moved += math.prod(draft.shape(name))

    def _count_votes(self) -> dict[str, Counter[Layout]]:
        """Count, for every value, the layouts that its readers prefer."""
        draft = self._draft
        votes: dict[str, Counter[Layout]] = {
            name: Counter([identity_layout(len(draft.shape(name)))]) for name in draft.outputs
        }
        for node in reversed(tuple(draft.each())):
            made = node.outputs[0]
            if made is None:
                continue
            wanted, rank = self._preferred(votes, made), len(draft.shape(made))
            for index, name in enumerate(node.inputs):
                if name is None or name in draft.constants:
                    continue
                if node.kind in ("elementwise", "concat") and len(draft.shape(name)) != rank:
                    continue
                preferred_input = (
                    self._placing.preferred_input(node, wanted)
                    if index in image_inputs(node)
                    else identity_layout(len(draft.shape(name)))
                )
                if preferred_input is not None:
                    votes.setdefault(name, Counter())[preferred_input] += 1
        return votes

    def _preferred(self, votes: Mapping[str, Counter[Layout]], name: str) -> Layout | None:
        """Return the layout that most readers of a value prefer; None if all take any."""
        cast = votes.get(name)
        if not cast:
            return None
        most = max(cast.values())
        return max(layout for layout, count in cast.items() if count == most)

    def _free(self, name: str, layout: Layout) -> bool:
        """Return whether a value is available in a layout without a transposition."""
        draft = self._draft
        return (
            name in draft.constants
            or same_element_order(draft.shape(name), self.layouts[name], layout)
            or (name, layout) in self._available
        )

    def _cost(self, name: str, layout: Layout) -> int:
        return 0 if self._free(name, layout) else math.prod(self._draft.shape(name))

    def _after(self, node: CanonicalNode, layouts: tuple[Layout, ...]) -> int:
        """Return how many elements the readers would have to transpose for given layouts of a node's results."""
        moved = 0
        for name, layout in zip(node.outputs, layouts, strict=True):
            if name is not None:
                shape = self._draft.shape(name)
                wanted = {significant_axes(shape, each) for each in self._votes.get(name, ())}
                moved += math.prod(shape) * len(wanted - {significant_axes(shape, layout)})
        return moved

    def _place(self, node: CanonicalNode) -> NodeLayouts:
        """Return the cheapest layouts of a node: those of its inputs, those its readers prefer, or unchanged ones."""
        as_it_is = self._placing.plain(node)
        source = node.inputs[0] if node.inputs else None
        if source is None or source in self._draft.constants:
            return as_it_is
        if node.kind in CHANNELS_LAST_KINDS and not node.attributes.get("channels_last"):
            wanted = self._placing.preferred_input(node, identity_layout(0))
            found = None if wanted is None else self._placing.place(node, wanted)
            return as_it_is if found is None else found
        images = [node.input(position) for position in image_inputs(node)]
        gotten = [self.layouts[name] for name in images if name is not None and name in self.layouts]
        made = node.outputs[0]
        wishes = [] if made is None else [self._placing.preferred_input(node, self._preferred(self._votes, made))]
        rank = len(self._draft.shape(source))
        places = [
            self._placing.place(node, layout)
            for layout in dict.fromkeys([*gotten, *wishes])
            if layout is not None and len(layout) == rank
        ]
        # On a tie, keep the input's layout, but do not defer a transposition.
        places.insert(0 if node.kind == "transpose" else len(places), as_it_is)
        return min((place for place in places if place is not None), key=lambda place: self._total(node, place))

    def _total(self, node: CanonicalNode, place: NodeLayouts) -> int:
        pairs = {(name, layout) for name, layout in zip(node.inputs, place.inputs, strict=True) if name is not None}
        work = math.prod(self._draft.shape(str(node.outputs[0]))) if node.kind == "transpose" and not place.gone else 0
        return work + self._after(node, place.outputs) + sum(self._cost(name, layout) for name, layout in pairs)

    def _elementwise(self, node: CanonicalNode) -> NodeLayouts:
        draft = self._draft
        made = node.outputs[0]
        assert made is not None
        rank = len(draft.shape(made))
        given = [name for name in node.inputs if name is not None and name in self.layouts]
        # On a tie, take the first: a later transposition may be merged with another node.
        choices = [
            *(extended_layout(self.layouts[name], rank) for name in given),
            self._preferred(self._votes, made) or identity_layout(rank),
            identity_layout(rank),
        ]
        best: NodeLayouts | None = None
        least = 0
        for layout in dict.fromkeys(choices):
            inputs = tuple(trailing_layout(layout, len(draft.shape(str(name)))) for name in node.inputs)
            attributes = {**node.attributes, "expression": permute_index_axes(node.attributes["expression"], layout)}
            place = NodeLayouts(inputs, (layout,), attributes)
            total = self._total(node, place)
            if best is None or total < least:
                best, least = place, total
        assert best is not None
        return best


class _LayoutApplication:
    """Application of a plan to the network."""

    def __init__(self, draft: NetworkDraft, plan: _LayoutPlan) -> None:
        self._draft = draft
        self._plan = plan
        self._stored: dict[str, str] = {name: name for name in draft.inputs}
        self._converted: dict[tuple[str, Layout, tuple[int, ...]], str] = {}
        self._made: list[str] = []
        self._removed: list[str] = []

    def apply(self) -> tuple[list[str], list[str]]:
        """Change the network; return the names of added and of removed transpositions."""
        draft = self._draft
        for node in tuple(draft.each()):
            place = self._plan.places[node.name]
            if place.gone:
                self._stored[str(node.outputs[0])] = self._in_layout(str(node.inputs[0]), place.inputs[0])
                self._removed.append(node.name)
                draft.remove(node)
                continue
            inputs = tuple(
                None if name is None else self._input(node, name, layout, place)
                for name, layout in zip(node.inputs, place.inputs, strict=True)
            )
            outputs = tuple(
                None if name is None else self._output(name, layout)
                for name, layout in zip(node.outputs, place.outputs, strict=True)
            )
            draft.change(node, inputs=inputs, outputs=outputs, attributes=dict(place.attributes))
        for name in draft.outputs:
            self._finish(name)
        return self._made, self._removed

    def _output(self, name: str, layout: Layout) -> str:
        draft = self._draft
        if layout == identity_layout(len(layout)):
            self._stored[name] = name
        else:
            stored = self._stored[name] = draft.fresh(name)
            draft.values[stored] = Value(stored, stored_shape(draft.shape(name), layout), draft.dtype(name))
        return self._stored[name]

    def _input(self, node: CanonicalNode, name: str, layout: Layout, place: NodeLayouts) -> str:
        stored = self._in_layout(name, layout)
        if node.kind != "elementwise":
            return stored
        whole = place.outputs[0]
        rank = len(layout)
        missing = len(whole) - rank
        if not missing or all(axis < missing for axis in whole[:missing]):
            return stored
        # The axes that broadcasting adds in front are at other positions in this layout.
        shape = self._draft.shape(name)
        wide = tuple(1 if axis < missing else shape[axis - missing] for axis in whole)
        while wide[0] == 1 and len(wide) > 1:
            wide = wide[1:]
        return self._reshaped(stored, name, layout, wide)

    def _in_layout(self, name: str, layout: Layout) -> str:
        """Return the name of a value in a layout, and transpose it if necessary."""
        draft = self._draft
        if name in draft.constants:
            if layout == identity_layout(len(layout)):
                return name
            return self._constant(name, np.transpose(draft.constants[name], layout), layout)
        have = self._plan.layouts[name]
        shape = draft.shape(name)
        if have == layout:
            return self._stored[name]
        if same_element_order(shape, have, layout):
            return self._reshaped(self._stored[name], name, layout, stored_shape(shape, layout))
        key = (name, layout, ())
        if key not in self._converted:
            self._converted[key] = draft.add(
                "transpose",
                (self._stored[name],),
                stored_shape(shape, layout),
                draft.dtype(name),
                {"permutation": permutation_between(have, layout)},
                like=f"{name}~transposed",
                output=name if draft.is_output(name) and layout == identity_layout(len(layout)) else None,
            )
            self._made.append(name)
        return self._converted[key]

    def _reshaped(self, stored: str, name: str, layout: Layout, shape: tuple[int, ...]) -> str:
        draft = self._draft
        if draft.shape(stored) == shape:
            return stored
        if stored in draft.constants:
            return self._constant(stored, draft.constants[stored].reshape(shape), layout)
        key = (stored, layout, shape)
        if key not in self._converted:
            self._converted[key] = draft.add("reshape", (stored,), shape, draft.dtype(name), {}, like=f"{stored}~shape")
        return self._converted[key]

    def _constant(self, name: str, array: Any, layout: Layout) -> str:
        key = (name, layout, tuple(array.shape))
        if key not in self._converted:
            self._converted[key] = self._draft.add_constant(array, name)
        return self._converted[key]

    def _finish(self, name: str) -> None:
        """Restore the name and axis order of a network output."""
        draft = self._draft
        if name in draft.constants or draft.producer(name) is not None or name in draft.inputs:
            return
        stored = self._in_layout(name, identity_layout(len(draft.shape(name))))
        if stored != name:
            draft.add("elementwise", (stored,), (), "", {"expression": 0}, like=f"{name}~copy", output=name)
