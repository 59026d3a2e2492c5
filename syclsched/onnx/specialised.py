# SPDX-License-Identifier: Apache-2.0
"""A model specialised for input shapes: its task graph, and the map between model and graph names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from syclsched.errors import ArgumentError
from syclsched.frontends.onnx.index_inputs import IndexInput
from syclsched.model.graph import TaskGraph
from syclsched.onnx.array_types import Array, Shapes
from syclsched.onnx.weight_eviction import EvictableConstants


@dataclass(frozen=True, slots=True)
class Specialised:
    """A model specialised for known input shapes.

    Parameters
    ----------
    graph : TaskGraph
        An ordinary task graph for planning, simulation and tracing.
    shapes : Mapping[str, tuple of int]
        The shape of every input of the model.
    inputs : Mapping[str, str]
        The graph's array for each input of the model; unused inputs have none.
    outputs : Mapping[str, str or numpy.ndarray]
        The graph's array for each output of the model, in the model's order; or the value of a constant output.
    origins : Mapping[str, tuple of str]
        For each task the operators of the model that it computes, as ``"Conv conv1"``.
    rewrites : tuple of str
        The graph rewrites applied before lowering, one line each.
    picked : Mapping[str, IndexInput]
        Inputs of the model that are indices, and the range each of them indexes.
    evictable : EvictableConstants, optional
        Evicts computed constants from host memory; None if they cannot be recomputed.
    """

    graph: TaskGraph
    shapes: Shapes
    inputs: Mapping[str, str]
    outputs: Mapping[str, str | Array]
    origins: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    rewrites: tuple[str, ...] = ()
    picked: Mapping[str, IndexInput] = field(default_factory=dict)
    evictable: EvictableConstants | None = field(default=None, repr=False)

    @property
    def fetched(self) -> tuple[str, ...]:
        """The graph's arrays to fetch after a run."""
        return tuple(dict.fromkeys(made for made in self.outputs.values() if isinstance(made, str)))

    def given(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return the graph's inputs for values of the model's inputs.

        Raises
        ------
        ArgumentError
            If an input of indices has one out of range.
        """
        for name, each in self.picked.items():
            _check(name, values[name], each)
        return {array: values[name] for name, array in self.inputs.items()}

    def results(self, found: Mapping[str, Array]) -> dict[str, Array]:
        """Return the model's outputs for values of the graph's arrays; constants are copied."""
        return {name: found[made] if isinstance(made, str) else made.copy() for name, made in self.outputs.items()}


def _check(name: str, indices: Any, picked: IndexInput) -> None:
    if not isinstance(indices, np.ndarray) or not indices.size:
        return
    low, high = int(indices.min()), int(indices.max())
    if low < -picked.extent or high >= picked.extent:
        raise ArgumentError(
            f"index {low if low < -picked.extent else high} is out of range: "
            f"{picked.operator} picks from {picked.extent:,}",
            where=f"input {name!r}",
        )
