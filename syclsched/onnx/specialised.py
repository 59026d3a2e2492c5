# SPDX-License-Identifier: Apache-2.0
"""Models specialised for input shapes: task graphs, and the map between model and graph names."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from syclsched.devices.memory.resident_array import CopiedArray
from syclsched.errors import ArgumentError, ValueNeededError
from syclsched.frontends.onnx.index_inputs import IndexInput
from syclsched.frontends.onnx.model_file.dtypes import carrier, numpy_dtype
from syclsched.frontends.onnx.network import Composition, Decoding, ExtentGuard, Network, compose, cut_to_lengths
from syclsched.model.graph import TaskGraph
from syclsched.onnx.weight_eviction import EvictableConstants

if TYPE_CHECKING:
    from syclsched.frontends.onnx.extent_checks import ExtentChecks
    from syclsched.frontends.onnx.importing.lengths import CountedAxes
    from syclsched.frontends.onnx.model_file.onnx_model import Model
    from syclsched.frontends.onnx.observed_extents import ObservedExtents
    from syclsched.frontends.onnx.rewrites import OptimisedNetwork

Array = np.ndarray[Any, np.dtype[Any]]
Shapes = Mapping[str, tuple[int, ...]]


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
    picked : Mapping[str, tuple of IndexInput]
        Inputs of the model that are indices, and the ranges that they, or parts of them, index.
    carried : Mapping[str, str]
        The graph's donated array for each input of the model that the next call finds as this one leaves it.
    growing : Mapping[str, tuple of int and str]
        Those of them of which a part counts: the axis, and the further input that says how much does after a run.
    lengths : Mapping[str, tuple of pairs of int and str]
        Outputs of which a run fills a part: axes, and for each the entry of ``outputs`` that says how many elements.
    guards : Mapping[str, ExtentGuard]
        Limits of numbers that the graph assumes, by their entries of ``outputs``.
    checks : ExtentChecks, optional
        What computes these numbers before a run, which must not begin beyond the limits.
    elements : Mapping[str, str]
        Inputs and outputs of types that NumPy lacks: graphs hold their elements in a wider dtype.
    decodings : Mapping[str, Decoding]
        Outputs that the host turns into text, or into maps.
    replicas : Mapping[str, str]
        Further entries of ``carried``: each begins with the value of the given input, and every run updates it alike.
    stay : Mapping[str, str]
        Devices of the tasks that run on one device only.
    composition : Composition
        The model's outputs in order, if some are sequences or have no value: their entries of ``outputs``.
    evictable : EvictableConstants, optional
        Evicts computed constants from host memory; None if they cannot be recomputed.
    """

    graph: TaskGraph
    shapes: Shapes
    inputs: Mapping[str, str]
    outputs: Mapping[str, str | Array]
    origins: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    rewrites: tuple[str, ...] = ()
    picked: Mapping[str, tuple[IndexInput, ...]] = field(default_factory=dict)
    carried: Mapping[str, str] = field(default_factory=dict)
    growing: Mapping[str, tuple[int, str]] = field(default_factory=dict)
    lengths: Mapping[str, tuple[tuple[int, str], ...]] = field(default_factory=dict)
    guards: Mapping[str, ExtentGuard] = field(default_factory=dict)
    checks: ExtentChecks | None = field(default=None, repr=False)
    evictable: EvictableConstants | None = field(default=None, repr=False)
    elements: Mapping[str, str] = field(default_factory=dict)
    decodings: Mapping[str, Decoding] = field(default_factory=dict)
    composition: Composition = field(default_factory=dict)
    stay: Mapping[str, str] = field(default_factory=dict)
    replicas: Mapping[str, str] = field(default_factory=dict)

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
        self.check_values(values)
        given = {array: values[name] for name, array in self.inputs.items() if name in values}
        for name in self.elements.keys() & self.inputs.keys() & values.keys():
            given[self.inputs[name]] = np.asarray(values[name]).astype(carrier(self.elements[name]))
        return given

    def check_values(self, values: Mapping[str, Any]) -> None:
        """Raise if values of inputs do not fit.

        Raises
        ------
        ArgumentError
            If an input of indices has one out of range.
        ExtentExceededError
            If the run would be beyond limits that the graph assumes, and must not begin.
        """
        self.check_indices(values)
        beyond = None if self.checks is None else self.checks.exceeded(values)
        if beyond is not None:
            raise ExtentExceededError(beyond)

    def check_indices(self, values: Mapping[str, Any]) -> None:
        """Raise `ArgumentError` if an input of indices has one out of range."""
        for name, ranges in self.picked.items():
            for each in ranges if name in values else ():  # others are carried
                _check(name, values[name], each)

    @property
    def returns_fetched(self) -> bool:
        """Whether `results` returns the fetched arrays as they are, with the outputs' names, order and dtypes."""
        return not self.is_changed and all(
            isinstance(made, str) and name == made for name, made in self.outputs.items()
        )

    @property
    def is_changed(self) -> bool:
        """Whether the host changes the values of outputs."""
        return bool(self.lengths or self.guards or self.elements or self.decodings or self.composition)

    def results(self, found: Mapping[str, Array]) -> dict[str, Array]:
        """Return the model's outputs for values of the graph's arrays; constants are copied.

        Raises
        ------
        ExtentExceededError
            If the run was beyond limits that the graph assumes.
        """
        made = {name: found[made] if isinstance(made, str) else made.copy() for name, made in self.outputs.items()}
        if not self.is_changed:
            return made
        for name, guard in self.guards.items():
            if not guard.holds(int(made.pop(name).reshape(-1)[0])):
                raise ExtentExceededError(guard)
        results = cut_to_lengths(made, self.lengths) if self.lengths else made
        for name in self.elements.keys() & results.keys():
            results[name] = results[name].astype(numpy_dtype(self.elements[name]))
        for name, decoding in self.decodings.items():
            results[name] = decoding.decode(results[name])
        return compose(results, self.composition)

    def only(self, name: str) -> Specialised:
        """Return the part that makes one output of the model."""
        made = self.composition.get(name) if self.composition else name
        own = () if made is None else (made,) if isinstance(made, str) else made
        lengths = {each: self.lengths[each] for each in own if each in self.lengths}
        kept = {*own, *self.guards, *(count for counted in lengths.values() for _, count in counted)}
        return replace(
            self,
            outputs={each: array for each, array in self.outputs.items() if each in kept},
            lengths=lengths,
            decodings={each: decoding for each, decoding in self.decodings.items() if each in own},
            composition={name: made} if self.composition else {},
        )


class ExtentExceededError(Exception):
    """A run was beyond limits that its graph assumes: another one must be planned."""

    def __init__(self, guard: ExtentGuard) -> None:
        super().__init__(guard.key)
        self.deciding = guard.deciding


#: By the code of a signed type, the unsigned type of its size.
_UNSIGNED: Final = {each.lower(): each for each in "BHILQ"}


def _check(name: str, indices: Any, picked: IndexInput) -> None:
    if isinstance(indices, CopiedArray):
        indices = indices.host
    if not isinstance(indices, np.ndarray) or not indices.size:
        return
    # Read as unsigned, negative indices are the largest: one reduction checks most inputs, and it is in each call.
    unsigned = _UNSIGNED.get(indices.dtype.char)
    if unsigned is not None and picked.least <= 0 and np.maximum.reduce(indices.view(unsigned), None) < picked.extent:
        return
    indices = picked.part(indices)
    beyond = (indices < picked.least) | (indices >= picked.extent)
    if picked.ignored is not None:
        beyond &= indices != picked.ignored
    if not beyond.any():
        return
    wrong = int(indices[beyond].min())
    if wrong >= picked.least:
        wrong = int(indices[beyond].max())
    if picked.room is not None:
        raise ArgumentError(
            f"its value {wrong} is out of range: the cache of {picked.operator} has room for {picked.room} tokens, "
            f"so that {picked.least} to {picked.extent - 1} are allowed",
            where=f"input {name!r}",
            hint="Begin a new sequence, or give the cache a larger extent when the model is compiled (shapes=)",
        )
    if picked.is_label:
        raise ArgumentError(
            f"label {wrong} is out of range: {picked.operator} has {picked.extent:,} classes, 0 to {picked.extent - 1}",
            where=f"input {name!r}",
            hint=None if picked.ignored is None else f"Samples of the label {picked.ignored} do not count",
        )
    raise ArgumentError(
        f"index {wrong} is out of range: {picked.operator} picks from {picked.extent:,}",
        where=f"input {name!r}",
        hint=f"Give {picked.least} to {picked.extent - 1}",
    )


#: Function of a model, shapes, known values and carried outputs that returns its network.
NetworkOf = Callable[["Model", Shapes, Mapping[str, Array], Mapping[str, str]], "Network"]


def imported(
    model: Model,
    shapes: Shapes,
    values: Mapping[str, Array],
    carried: Mapping[str, str],
    observed: ObservedExtents | None = None,
    *,
    observing: bool = False,
    counted: CountedAxes | None = None,
) -> Network:
    """Return the network of a model for these input shapes."""
    from syclsched.frontends.onnx.importing import import_model

    extents = () if counted is None else counted.extents
    open_ones = {name: shape for name, shape in shapes.items() if name not in values and name not in extents}
    return import_model(
        model,
        open_ones,
        known=values,
        carried=carried.values(),
        observed=observed,
        observing=observing,
        counted=counted,
    )


def specialise(
    model: Model,
    shapes: Shapes,
    values: Mapping[str, Array],
    rewrites: bool | tuple[str, ...],
    carried: Mapping[str, str],
    network_of: NetworkOf = imported,
    growing: Mapping[str, tuple[int, str]] | None = None,
) -> Specialised:
    """Lower a model to tasks for these input shapes; ``carried`` tells by output which input of the next call it is.

    For ``growing`` see `Specialised`.
    """
    from syclsched.frontends.onnx.index_inputs import find_index_inputs
    from syclsched.frontends.onnx.lowering import lower

    rewritten = _rewritten(model, shapes, values, rewrites, carried, network_of)
    checks = _checks(model, rewritten.network, carried) if carried and rewritten.network.guards else None
    lowered = lower(rewritten.network, carried, growing or {})
    return Specialised(
        graph=lowered.graph,
        shapes=dict(shapes),
        inputs=lowered.inputs,
        outputs=lowered.outputs,
        origins=lowered.origins,
        rewrites=tuple(map(str, rewritten.changes)),
        picked=find_index_inputs(rewritten.network),
        carried=lowered.carried,
        growing={name: each for name, each in (growing or {}).items() if name in lowered.carried},
        lengths={name: each for name, each in rewritten.network.lengths.items() if name in lowered.outputs},
        guards=rewritten.network.guards,
        checks=checks,
        decodings=rewritten.network.decodings,
        composition=rewritten.network.composition,
        elements={
            name: element
            for name, element in rewritten.network.elements.items()
            if name in lowered.inputs or name in lowered.outputs
        },
    )


def _checks(model: Model, network: Network, carried: Mapping[str, str]) -> ExtentChecks:
    """Return the checks before runs that change carried values; raise if they take too long."""
    from syclsched.frontends.onnx.extent_checks import extent_checks

    found = extent_checks(network)
    if not found.is_quick([*carried.values()]):
        inputs = tuple(name for name in found.inputs if name not in carried.values())
        raise ValueNeededError(
            "extents follow from values, and a run beyond their bounds would change the carried values",
            inputs=inputs,
            where=model.where,
        )
    return found


def recompute_values(
    model: Model,
    shapes: Shapes,
    rewrites: bool | tuple[str, ...],
    carried: Mapping[str, str],
    network_of: NetworkOf,
    digests: Collection[str],
) -> dict[str, Array]:
    """Recompute constants of a model's tasks; return their values by digest."""
    from syclsched.frontends.onnx.model_file.mapped_files import mapped_location
    from syclsched.model.constant import digest_of

    found = {}
    network = _rewritten(model, shapes, {}, rewrites, carried, network_of).network
    bodies = [each for node in network.nodes if node.kind == "loop" for each in node.attributes["body"].with_inner]
    constants = [*network.constants.values(), *(x for body in bodies for x in body.network.constants.values())]
    for array in constants:
        if mapped_location(array) is None or not array.flags.c_contiguous:
            whole = np.ascontiguousarray(array).reshape(array.shape)
            digest = digest_of(whole)
            if digest in digests:
                found[digest] = whole
    return found


def _rewritten(
    model: Model,
    shapes: Shapes,
    values: Mapping[str, Array],
    rewrites: bool | tuple[str, ...],
    carried: Mapping[str, str],
    network_of: NetworkOf,
) -> OptimisedNetwork:
    from syclsched.frontends.onnx.model_file.mapped_files import check_unchanged
    from syclsched.frontends.onnx.rewrites import DEFAULT_PASSES, rewrite

    check_unchanged(model.graph.initialisers.values())
    network = network_of(model, shapes, values, carried)
    found = rewrite(network, passes=(DEFAULT_PASSES if rewrites else ()) if isinstance(rewrites, bool) else rewrites)
    check_unchanged(model.graph.initialisers.values())  # the file may have changed meanwhile
    return found
