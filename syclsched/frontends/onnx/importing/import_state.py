# SPDX-License-Identifier: Apache-2.0
"""Query part of the network builder: values, constants, and errors located at the current node."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from syclsched.errors import ModelError, ValueNeededError
from syclsched.frontends.onnx.importing.lengths import Lengths
from syclsched.frontends.onnx.model_file.dtypes import DTYPES, carrier, element_type_name
from syclsched.frontends.onnx.model_file.model_limits import ModelLimits
from syclsched.frontends.onnx.network import CanonicalNode, Decoding, ExtentGuard, Value
from syclsched.frontends.onnx.observed_extents import ObservedExtents

Array = np.ndarray[Any, Any]
Shape = tuple[int, ...]
#: Name of the input from which dropout derives its random numbers: an uint32 of shape (1,).
SEED: Final = "seed of dropout"


@dataclass(slots=True)
class TrainingImport:
    """Import for training: dropout drops elements, and batch normalisation uses the moments of its batch."""

    first: int = 0  # of the samples of a batch that the network computes
    samples: int = 0  # number of them
    dropouts: int = 0  # so far
    #: Initialiser -> the value that it has in the next step: of running means and variances.
    next_values: dict[str, str] = field(default_factory=dict)


class ImportState:
    """Values and constants of a network under construction; base class of the builder."""

    def __init__(self, where: str, opset: int, opsets: Mapping[str, int], limits: ModelLimits) -> None:
        self.where = where
        self.opset = opset
        self.opsets = tuple(sorted(opsets.items()))
        self.limits = limits
        self.values: dict[str, Value] = {}
        self.constants: dict[str, Array] = {}
        #: Inputs whose memory takes the next call's value: nodes may overwrite them.
        self.carried: frozenset[str] = frozenset()
        self.training: TrainingImport | None = None
        self.elements: dict[str, str] = {}  # value -> narrow type of its elements; its dtype is the carrier
        self.decodings: dict[str, Decoding] = {}  # outputs that stand for text or maps
        #: Lengths of values that are known only at run time.
        self.lengths: dict[str, Lengths] = {}
        #: Inputs that are extents of dimensions with buckets -> the dimensions.
        self.extent_inputs: dict[str, str] = {}
        #: Largest extent of each length.
        self.bounds: dict[str, int] = {}
        #: Observed extents that depend on values; without it, each must be known.
        self.observed: ObservedExtents | None = None
        #: Whether they are computed now, as the inputs that decide them are known.
        self.is_observing = False
        #: Element of a value that is an extent -> its upper bound, and the length; see `extents`.
        self.extent_roots: dict[tuple[str, int], tuple[int, str]] = {}
        #: Element of a value, and a factor -> the single int64 with their product.
        self.extent_scalars: dict[tuple[str, int, int], str] = {}
        #: The kind of a formula, its numbers, and lengths -> the single int64 with their value.
        self.extent_formulas: dict[tuple[str, tuple[int, ...], tuple[str, ...]], str] = {}
        #: Inputs of a loop's body -> their values in each iteration, where these are known.
        self.iterations: dict[str, Array] = {}
        #: Which rank has a single element if values decide it; whether there is one. Without it, it must be known.
        self.single_rank: Callable[[int, int], int] | None = None
        self.has_open_rank = False
        #: Numbers of which the network assumes something.
        self.guards: list[tuple[str, ExtentGuard]] = []
        self._inputs: list[str] = []
        self._producers: dict[str, CanonicalNode] = {}
        self._nodes: list[CanonicalNode] = []
        self._fresh: list[CanonicalNode] = []
        self._label: str = ""

    # --- values ---------------------------------------------------------------------------------------

    def shape(self, name: str) -> Shape:
        """Return a value's shape."""
        return self.values[name].shape

    def dtype(self, name: str) -> str:
        """Return a value's dtype."""
        return self.values[name].dtype

    def element(self, name: str) -> str:
        """Return the type of a value's elements: the dtype, or a narrow type."""
        return self.elements.get(name) or self.values[name].dtype

    def known(self, name: str) -> Array | None:
        """Return a value if it is constant, else None."""
        return self.constants.get(name)

    def require(self, name: str, what: str) -> Array:
        """Return a constant value; raise `ValueNeededError` if the value is not constant."""
        found = self.constants.get(name)
        if found is None:
            inputs = self.sources(name)
            raise ValueNeededError(
                f"{what} must be known before anything runs, but {name!r} is computed from the values of "
                f"{', '.join(map(repr, inputs)) or 'unknown values'}",
                inputs=inputs,
                where=self.place(),
                hint="Give these inputs' values when the model is loaded (known=), or export it with constant shapes",
            )
        return found

    def integers(self, name: str, what: str) -> Shape:
        """Return a constant value as a tuple of integers; see `require`."""
        array = self.require(name, what)
        if array.ndim > 1 or array.dtype.kind not in "iu":
            raise self.wrong(f"{what} are {array.dtype} of shape {array.shape}, expected a list of integers")
        return tuple(int(n) for n in array.reshape(-1))

    def integer(self, name: str, what: str) -> int:
        """Return the first element of a constant value as an integer; see `require`."""
        return int(self.require(name, what).reshape(-1)[0])

    def element_dtype(self, number: int, what: str = "elements of type") -> str:
        """Return the dtype in which elements of an ONNX type are held."""
        if number not in DTYPES:
            raise self.wrong(f"{what} {element_type_name(number)}, which is not supported")
        return carrier(DTYPES[number])

    def producer(self, name: str) -> CanonicalNode | None:
        """Return the node that makes a value; None for inputs and constants."""
        found = self._producers.get(name)
        return found or next((node for node in reversed(self._fresh) if name in node.outputs), None)

    def guard(self, value: str, key: str, least: int | None, most: int, deciding: tuple[str, ...] = ()) -> None:
        """Let runs check that a number lies within these limits, as the network assumes."""
        self.guards.append((value, ExtentGuard(key, least, most, deciding)))

    def sources(self, name: str) -> tuple[str, ...]:
        """Return the network inputs that a value depends on."""
        seen: set[str] = set()
        waiting = [name]
        while waiting:
            each = waiting.pop()
            if each in seen:
                continue
            seen.add(each)
            waiting += [length.count for length in self.lengths.get(each, ())]
            node = self.producer(each)
            if node is not None:
                waiting += [source for source in node.inputs if source is not None]
        return tuple(each for each in self._inputs if each in seen)

    @property
    def nodes(self) -> tuple[CanonicalNode, ...]:
        """The complete nodes so far."""
        return tuple(self._nodes)

    def nodes_between(self, leaves: Collection[str], name: str) -> list[CanonicalNode]:
        """Return the nodes from which a value is computed where leaves are given, in order."""
        needed = {name}
        found: list[CanonicalNode] = []
        for node in reversed([*self._nodes, *self._fresh]):
            made = needed.intersection(node.outputs)
            if made and not made.issubset(leaves):
                found.append(node)
                needed.update(each for each in node.inputs if each is not None and each not in leaves)
        return found[::-1]

    # --- errors ---------------------------------------------------------------------------------------

    def place(self) -> str:
        """Return the location of the current node for error messages."""
        return f"{self.where}, node {self._label}" if self._label else self.where

    def wrong(self, what: str, *, hint: str | None = None) -> ModelError:
        """Return an error located at the current node."""
        return ModelError(what, where=self.place(), hint=hint)

    def axis(self, axis: int, rank: int) -> int:
        """Return an axis as a non-negative number."""
        if not -rank <= axis < max(rank, 1):
            raise self.wrong(f"there is no axis {axis} in {rank} dimensions")
        return axis + rank if axis < 0 else axis

    def axes(self, axes: Iterable[int], rank: int) -> Shape:
        """Return axes as sorted non-negative numbers."""
        found = sorted(self.axis(axis, rank) for axis in axes)
        if len(set(found)) < len(found):
            raise self.wrong(f"an axis stands twice in {found}")
        return tuple(found)
