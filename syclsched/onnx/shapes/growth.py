# SPDX-License-Identifier: Apache-2.0
"""Dimensions that grow from call to call: pasts of caches, to which a model appends rows for the next call."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from syclsched.frontends.onnx.model_file.onnx_model import extent_by_name, summands
from syclsched.onnx.model import OnnxModel
from syclsched.onnx.specialised import Shapes


@dataclass(frozen=True, slots=True)
class Growth:
    """A dimension of inputs to which each call appends along axes."""

    name: str
    axes: tuple[tuple[str, int], ...]  # inputs, and which of their axes it is
    #: Names of the dimension of appended rows, and the axes of other inputs with the same extent.
    totals: tuple[str, ...]
    total_axes: tuple[tuple[str, int], ...]
    appended: tuple[str, ...]  # names of dimensions that are appended
    #: Inputs that are conditions, and the truth values with which calls append.
    conditions: frozenset[tuple[str, bool]] = frozenset()

    @property
    def summed(self) -> set[str]:
        """Names of the dimensions whose extents are added up to those after a call."""
        terms = (each for total in self.totals for each in summands(total) if not each.isdecimal())
        return {*self.appended, *self.totals, *terms}

    def applies(self, values: Mapping[str, Any]) -> bool:
        """Return whether a call with these values appends, as far as inputs that are conditions say so."""
        return all(
            np.size(values.get(name, ())) == 1 and bool(np.reshape(values[name], -1)[0]) == truth
            for name, truth in self.conditions
        )

    def extents(self, shapes: Shapes, known: Mapping[str, int]) -> tuple[int, int] | None:
        """Return how many elements there are before and after a call; None if nothing is known to be appended.

        ``known`` are the extents of dimensions.
        """
        past = {shapes[name][axis] for name, axis in self.axes if name in shapes}
        if len(past) != 1:
            return None
        given = {shapes[name][axis] for name, axis in self.total_axes if name in shapes}
        if not given:
            given = {total for total in (extent_by_name(each, known) for each in self.totals) if total is not None}
        before, after = *past, max(given, default=0)
        return (before, after) if len(given) == 1 and after > before else None


def growing_dimensions(model: OnnxModel, pairs: Mapping[str, str], given: Collection[str]) -> list[Growth]:
    """Return the dimensions that grow, of those without buckets given.

    They are open axes of inputs that a ``Concat`` begins with, whose result is the input of the next call: ``pairs``.
    It may be in a branch of an ``If``, as in models that have another one for calls without a past.
    """
    declared = {each.name: each.dimensions or () for each in model.graph_inputs}
    outputs = {each.name: each.dimensions or () for each in model.outputs}
    found: dict[str, tuple[list[tuple[str, int]], dict[str, None], set[tuple[str, bool]]]] = {}
    unnamed = ""
    for output, past in model.appended.items():
        name, axis = past.name, past.axis
        dimension = declared[name][axis]
        if pairs.get(output) != name or isinstance(dimension, int):
            continue
        if dimension is None:  # those without a name are taken as one
            dimension = unnamed = unnamed or f"{name}[{axis}]"
        axes, totals, conditions = found.setdefault(dimension, ([], {}, set()))
        axes.append((name, axis))
        conditions |= past.conditions
        total = outputs[output][axis] if axis < len(outputs[output]) else None
        if isinstance(total, str):
            totals[total] = None
    growing = []
    for dimension, (axes, totals, conditions) in found.items():
        others = [
            (name, axis, each)
            for name, dimensions in declared.items()
            for axis, each in enumerate(dimensions)
            if isinstance(each, str) and each != dimension and (each in totals or dimension in summands(each))
        ]
        if given and not {dimension, *totals, *(each for _, _, each in others)}.isdisjoint(given):
            continue
        whole = (*dict.fromkeys([*totals, *(each for _, _, each in others)]),)
        terms = dict.fromkeys(each for total in whole for each in summands(total) if dimension in summands(total))
        appended = tuple(each for each in terms if each != dimension and not each.isdecimal())
        total_axes = tuple((name, axis) for name, axis, _ in others)
        growing.append(Growth(dimension, (*axes,), whole, total_axes, appended, frozenset(conditions)))
    return growing
