# SPDX-License-Identifier: Apache-2.0
"""Channels last: which value is stored in which order of axes, so that convolutions need no transposition between them.

Every value is given a layout, from the network's inputs on: convolutions want channels last, most other nodes take what
they get and say what becomes of it, a transposition only gives axes other names, and a reshape often too. What is left
are the places where a node needs another layout than its input has: there, and only there, a transposition is made.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np

from syclsched.frontends.onnx.network import Node, Value
from syclsched.frontends.onnx.rewrites.editing import Draft
from syclsched.frontends.onnx.rewrites.layouts import (
    Layout,
    between,
    elements,
    moving,
    narrowed,
    plain,
    same,
    stored_shape,
    widened,
)
from syclsched.frontends.onnx.rewrites.placing import SEEDS, Placed, Placing, at_stored


def propagate(draft: Draft) -> None:
    """Let convolutions and what stands between them work with channels last.

    Notes
    -----
    Values whose layout changes really have another shape afterwards: (N, H, W, C). The network's inputs and outputs
    keep theirs. If all convolutions have channels last already, the network changes only if fewer elements are
    transposed afterwards.
    """
    seeds = list(draft.each(*SEEDS))
    if not seeds:
        return
    plan = _Plan(draft)
    new = [node for node in seeds if not node.attributes.get("channels_last")]
    before = sum(elements(draft.shape(str(node.outputs[0]))) for node in draft.each("transpose"))
    if not new and plan.moved >= before:
        return
    made, gone = _Change(draft, plan).apply()
    for node in new:
        draft.did("channels last", node.name)
    for name in made:
        draft.did("transpositions made", name)
    for name in gone:
        draft.did("transpositions without work left", name)


class _Plan:
    """A layout for every value, and every node's place among them."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._placing = Placing(draft.values)
        self.layouts: dict[str, Layout] = {name: plain(len(draft.shape(name))) for name in draft.inputs}
        self.places: dict[str, Placed] = {}
        #: Elements that are transposed.
        self.moved = 0
        self._there: set[tuple[str, Layout]] = set()
        self._votes = self._cast()
        for node in draft.each():
            place = self._elementwise(node) if node.kind == "elementwise" else self._place(node)
            self.places[node.name] = place
            if node.kind == "transpose" and not place.gone:
                self.moved += elements(draft.shape(str(node.outputs[0])))
            for name, layout in zip(node.inputs, place.inputs, strict=True):
                if name is not None and not self._free(name, layout):
                    self.moved += elements(draft.shape(name))
                    self._there.add((name, layout))
            for name, layout in zip(node.outputs, place.outputs, strict=True):
                if name is not None:
                    self.layouts[name] = layout
        for name in draft.outputs:
            if not self._free(name, plain(len(draft.shape(name)))):
                self.moved += elements(draft.shape(name))

    def _cast(self) -> dict[str, Counter[Layout]]:
        """Return for every value in which layouts its readers would like it, and how many each."""
        draft = self._draft
        votes: dict[str, Counter[Layout]] = {name: Counter([plain(len(draft.shape(name)))]) for name in draft.outputs}
        for node in reversed(tuple(draft.each())):
            made = node.outputs[0]
            if made is None:
                continue
            wanted = self._most(votes, made)
            rank = len(wanted)
            for index, name in enumerate(node.inputs):
                if name is None or name in draft.constants:
                    continue
                if node.kind in ("elementwise", "concat") and len(draft.shape(name)) != rank:
                    continue
                first = index == 0 or node.kind in ("elementwise", "concat") or (index == 3 and node.kind in SEEDS)
                wish = self._placing.wish(node, wanted) if first else plain(len(draft.shape(name)))
                if wish is not None:
                    votes.setdefault(name, Counter())[wish] += 1
        return votes

    def _most(self, votes: Mapping[str, Counter[Layout]], name: str) -> Layout:
        rank = len(self._draft.shape(name))
        cast = votes.get(name)
        if not cast:
            return plain(rank)
        most = max(cast.values())
        return max(layout for layout, count in cast.items() if count == most)

    def _free(self, name: str, layout: Layout) -> bool:
        """Return whether a value can be had in a layout for nothing."""
        draft = self._draft
        return (
            name in draft.constants
            or same(draft.shape(name), self.layouts[name], layout)
            or (name, layout) in self._there
        )

    def _cost(self, name: str, layout: Layout) -> int:
        return 0 if self._free(name, layout) else elements(self._draft.shape(name))

    def _after(self, node: Node, layouts: tuple[Layout, ...]) -> int:
        """Return how many elements have to be transposed if what a node makes has certain layouts."""
        moved = 0
        for name, layout in zip(node.outputs, layouts, strict=True):
            if name is not None:
                shape = self._draft.shape(name)
                wanted = {moving(shape, each) for each in self._votes.get(name, ())}
                moved += elements(shape) * len(wanted - {moving(shape, layout)})
        return moved

    def _place(self, node: Node) -> Placed:
        """Return the cheapest place of a node: at what it gets, at what is wanted of it, or as it is."""
        as_it_is = self._placing.plain(node)
        source = node.inputs[0] if node.inputs else None
        if source is None or source in self._draft.constants:
            return as_it_is
        if node.kind in SEEDS and not node.attributes.get("channels_last"):
            wanted = self._placing.wish(node, plain(0))
            found = None if wanted is None else self._placing.place(node, wanted)
            return as_it_is if found is None else found
        gotten = [self.layouts[name] for name in node.inputs if name is not None and name in self.layouts]
        made = node.outputs[0]
        wishes = [] if made is None else [self._placing.wish(node, self._most(self._votes, made))]
        rank = len(self._draft.shape(source))
        if node.kind != "concat":
            gotten = gotten[:1]
        places = [
            self._placing.place(node, layout)
            for layout in dict.fromkeys([*gotten, *wishes])
            if layout is not None and len(layout) == rank
        ]
        # Of equals, what keeps the layout it gets; but a transposition is not put off without need.
        places.insert(0 if node.kind == "transpose" else len(places), as_it_is)
        return min((place for place in places if place is not None), key=lambda place: self._total(node, place))

    def _total(self, node: Node, place: Placed) -> int:
        pairs = {(name, layout) for name, layout in zip(node.inputs, place.inputs, strict=True) if name is not None}
        work = elements(self._draft.shape(str(node.outputs[0]))) if node.kind == "transpose" and not place.gone else 0
        return work + self._after(node, place.outputs) + sum(self._cost(name, layout) for name, layout in pairs)

    def _elementwise(self, node: Node) -> Placed:
        draft = self._draft
        made = node.outputs[0]
        assert made is not None
        rank = len(draft.shape(made))
        given = [name for name in node.inputs if name is not None and name in self.layouts]
        # The first of equals is taken: a transposition that comes later may find something to become part of.
        choices = [*(widened(self.layouts[name], rank) for name in given), self._most(self._votes, made), plain(rank)]
        best: Placed | None = None
        least = 0
        for layout in dict.fromkeys(choices):
            inputs = tuple(narrowed(layout, len(draft.shape(str(name)))) for name in node.inputs)
            attributes = {**node.attributes, "expression": at_stored(node.attributes["expression"], layout)}
            place = Placed(inputs, (layout,), attributes)
            total = self._total(node, place)
            if best is None or total < least:
                best, least = place, total
        assert best is not None
        return best


class _Change:
    """A plan carried out."""

    def __init__(self, draft: Draft, plan: _Plan) -> None:
        self._draft = draft
        self._plan = plan
        self._stored: dict[str, str] = {name: name for name in draft.inputs}
        self._had: dict[tuple[str, Layout, tuple[int, ...]], str] = {}
        self._made: list[str] = []
        self._gone: list[str] = []

    def apply(self) -> tuple[list[str], list[str]]:
        """Change the network; return the names of transpositions that were made and of those that are gone."""
        draft = self._draft
        for node in tuple(draft.each()):
            place = self._plan.places[node.name]
            if place.gone:
                self._stored[str(node.outputs[0])] = self._have(str(node.inputs[0]), place.inputs[0])
                self._gone.append(node.name)
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
        return self._made, self._gone

    def _output(self, name: str, layout: Layout) -> str:
        draft = self._draft
        if layout == plain(len(layout)):
            self._stored[name] = name
        else:
            stored = self._stored[name] = draft.fresh(name)
            draft.values[stored] = Value(stored, stored_shape(draft.shape(name), layout), draft.dtype(name))
        return self._stored[name]

    def _input(self, node: Node, name: str, layout: Layout, place: Placed) -> str:
        stored = self._have(name, layout)
        if node.kind != "elementwise":
            return stored
        whole = place.outputs[0]
        rank = len(layout)
        missing = len(whole) - rank
        if not missing or all(axis < missing for axis in whole[:missing]):
            return stored
        # Axes that broadcasting would add in front stand elsewhere now.
        shape = self._draft.shape(name)
        wide = tuple(1 if axis < missing else shape[axis - missing] for axis in whole)
        while wide[0] == 1 and len(wide) > 1:
            wide = wide[1:]
        return self._reshaped(stored, name, layout, wide)

    def _have(self, name: str, layout: Layout) -> str:
        """Return what a value is called in a layout; make it if need be."""
        draft = self._draft
        if name in draft.constants:
            if layout == plain(len(layout)):
                return name
            return self._constant(name, np.transpose(draft.constants[name], layout), layout)
        have = self._plan.layouts[name]
        shape = draft.shape(name)
        if have == layout:
            return self._stored[name]
        if same(shape, have, layout):
            return self._reshaped(self._stored[name], name, layout, stored_shape(shape, layout))
        key = (name, layout, ())
        if key not in self._had:
            self._had[key] = draft.add(
                "transpose",
                (self._stored[name],),
                stored_shape(shape, layout),
                draft.dtype(name),
                {"permutation": between(have, layout)},
                like=self._like(name),
                output=name if draft.asked(name) and layout == plain(len(layout)) else None,
            )
            self._made.append(name)
        return self._had[key]

    def _reshaped(self, stored: str, name: str, layout: Layout, shape: tuple[int, ...]) -> str:
        draft = self._draft
        if draft.shape(stored) == shape:
            return stored
        if stored in draft.constants:
            return self._constant(stored, draft.constants[stored].reshape(shape), layout)
        key = (stored, layout, shape)
        if key not in self._had:
            self._had[key] = draft.add("reshape", (stored,), shape, draft.dtype(name), {}, like=f"{stored}~shape")
        return self._had[key]

    def _constant(self, name: str, array: Any, layout: Layout) -> str:
        key = (name, layout, tuple(array.shape))
        if key not in self._had:
            self._had[key] = self._draft.hold(array, name)
        return self._had[key]

    def _like(self, name: str) -> Node | str:
        return f"{name}~transposed"

    def _finish(self, name: str) -> None:
        """Give an output of the network back its name and order of axes."""
        draft = self._draft
        if name in draft.constants or draft.maker(name) is not None or name in draft.inputs:
            return
        stored = self._have(name, plain(len(draft.shape(name))))
        if stored != name:
            draft.add("elementwise", (stored,), (), "", {"expression": 0}, like=f"{name}~copy", output=name)
