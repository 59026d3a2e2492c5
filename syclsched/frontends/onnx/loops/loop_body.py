# SPDX-License-Identifier: Apache-2.0
"""The body of a ``loop`` node: a network that is executed once per iteration, and how its values are connected."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

if TYPE_CHECKING:
    from syclsched.frontends.onnx.network import Network

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class ScannedAxis:
    """The axis of an outer array along which iterations read or write one slice each."""

    axis: int
    backwards: bool = False  # the last slice first


class BodyProgram(Protocol):
    """Executes a body's network on arrays of its own: inputs are written, outputs read by the caller."""

    @property
    def inputs(self) -> Sequence[Array]:
        """The arrays of the network's inputs, in order."""

    @property
    def outputs(self) -> Sequence[Array]:
        """The arrays of the network's outputs, in order."""

    def run(self) -> None:
        """Compute the outputs from the inputs."""


@dataclass(slots=True)
class BodyPlan:
    """A program that was planned for a body; None while there is none, and NumPy executes it."""

    program: BodyProgram | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)  # held while a loop uses the program's arrays


@dataclass(frozen=True, slots=True, eq=False)
class LoopBody:
    """The body of a loop and its connections.

    The network's inputs are the iteration number (if ``counted``), the carried values, one slice of each scanned input,
    and outer values. Its outputs are whether to go on (if ``conditional``), the next carried values, and one slice of
    each scan output. A ``loop`` node has the inputs trip count (if ``has_trips``), first condition (if
    ``has_condition``), carried values, scanned inputs, outer values; and the outputs last carried values, scan outputs,
    and the number of iterations (int64) if it is known only at run time.
    """

    network: Network
    rounds: int | None  # number of iterations, or the most there can be; None if there is no limit
    carried: int  # number of carried values
    scanned: tuple[ScannedAxis, ...] = ()
    made: tuple[ScannedAxis, ...] = ()  # of the scan outputs
    counted: bool = False
    conditional: bool = False
    has_trips: bool = False
    has_condition: bool = False
    planned: BodyPlan = field(default_factory=BodyPlan, repr=False)

    @property
    def is_counted_at_run_time(self) -> bool:
        """Whether the number of iterations is known only at run time."""
        return self.conditional or self.has_trips or self.has_condition

    @property
    def input_count(self) -> int:
        """Number of inputs of the node."""
        return len(self.network.inputs) - self.counted + self.has_trips + self.has_condition

    @property
    def output_count(self) -> int:
        """Number of outputs of the node."""
        return len(self.outputs)

    @property
    def outputs(self) -> tuple[tuple[tuple[int, ...], str], ...]:
        """Shape and dtype of each output of the node; of scan outputs, for the most iterations there can be."""
        values = [self.network.values[name] for name in self.network.outputs[self.conditional :]]
        found = [(each.shape, each.dtype) for each in values]
        for i, each in enumerate(self.made, self.carried):
            shape, dtype = found[i]
            found[i] = ((*shape[: each.axis], self.rounds or 0, *shape[each.axis :]), dtype)
        return (*found, ((), "int64")) if self.is_counted_at_run_time else tuple(found)

    @property
    def with_inner(self) -> list[LoopBody]:
        """The body and those of the loops in it, each before its own inner ones."""
        inner = [node.attributes["body"] for node in self.network.nodes if node.kind == "loop"]
        return [self, *(each for body in inner for each in body.with_inner)]

    @property
    def digest(self) -> str:
        """Digest of the body's computation except the values of constants: a key of measured times."""
        network = self.network
        parts = (
            *((node.kind, node.inputs, node.outputs, _stable(node.attributes)) for node in network.nodes),
            *((each.name, each.shape, each.dtype) for each in network.values.values()),
            (self.rounds, self.carried, self.scanned, self.made, self.counted, self.conditional),
        )
        return hashlib.sha256(repr(parts).encode()).hexdigest()[:12]


def _stable(attributes: object) -> object:
    """Return attributes in a form whose text is the same in every process."""
    if not isinstance(attributes, dict):
        return attributes
    return {name: each.digest if isinstance(each, LoopBody) else each for name, each in attributes.items()}
