# SPDX-License-Identifier: Apache-2.0
"""Import of the bodies of Loop and Scan as networks of their own, which one task executes as often as needed."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

from syclsched.errors import ModelError, ValueNeededError
from syclsched.frontends.onnx.importing.import_state import Shape
from syclsched.frontends.onnx.importing.loops.iteration_counts import (
    counted_rounds,
    counting_part,
    iterations,
    unchanged_positions,
)
from syclsched.frontends.onnx.importing.loops.rank_comparison import compute_alike
from syclsched.frontends.onnx.importing.network_builder import NetworkBuilder
from syclsched.frontends.onnx.importing.scope import BoundValue, Scope, ScopeImporter
from syclsched.frontends.onnx.loops.loop_body import LoopBody, ScannedAxis
from syclsched.frontends.onnx.model_file.dtypes import numpy_dtype
from syclsched.frontends.onnx.model_file.onnx_model import DeclaredValue, ModelGraph, ModelNode
from syclsched.frontends.onnx.network import Network
from syclsched.frontends.onnx.shapes import ShapeDtype

#: Operators that training computes in another way, with random numbers and moments of the whole network.
_OF_TRAINING: Final = frozenset({"BatchNormalization", "Dropout"})


#: Name, shape and type of elements of a body's input; or its value; or the outer value that it is in every iteration.
_Formal = tuple[str, Shape, str] | np.ndarray[Any, Any] | str
#: The condition of a body, which is true whenever it is executed.
_TRUE: Final = np.array(True)


class _BodyScope(Scope):
    """The scope of a body: values of outer graphs become inputs of its network, and constants its constants."""

    def __init__(
        self, b: NetworkBuilder, importers: Mapping[str, ScopeImporter], outer: Scope, *, takes_narrow: bool
    ) -> None:
        super().__init__(b, importers)
        self._outer, self._takes_narrow = outer, takes_narrow
        #: Outer value -> the network's value for it.
        self._inner: dict[str, str] = {}

    def meaning(self, name: str) -> BoundValue:
        if super().has(name):
            return super().meaning(name)
        found = self._outer.meaning(name)
        if found is not None and not isinstance(found, str):
            raise self._outer.b.wrong("its body reads a sequence")
        return None if found is None else self.capture(found)

    def capture(self, found: str) -> str:
        """Return the network's value for an outer value."""
        outer = self._outer.b
        if found not in self._inner:
            _check_plain(outer, found, outer, "its body reads", takes_narrow=self._takes_narrow)
            known = outer.known(found)
            label = f"outer value {len(self._inner)}"
            if known is None:
                self.b.add_input(label, outer.shape(found), outer.element(found))
            else:
                self.b.add_constant(label, known)
                if found in outer.elements:
                    self.b.elements[label] = outer.elements[found]
            self._inner[found] = label
        return self._inner[found]

    def has(self, name: str) -> bool:
        return super().has(name) or self._outer.has(name)

    @property
    def captured(self) -> list[str]:
        """The outer values that are inputs of the network, in order."""
        return [outer for outer, inner in self._inner.items() if self.b.known(inner) is None]


def _import_body(
    scope: Scope,
    graph: ModelGraph,
    formals: Sequence[_Formal],
    results: Sequence[DeclaredValue] | None = None,
    *,
    iterations: Mapping[str, np.ndarray[Any, Any]] | None = None,
    takes_narrow: bool = False,
) -> tuple[Network, list[str]]:
    """Import a body; return its network, of all results or some, and the outer values that follow the formal inputs.

    The values of inputs in each iteration may be known. Values may decide the rank of single elements if all else is
    computed alike.
    """
    outer = scope.b
    if outer.training is not None and any(each in _OF_TRAINING for each in _operators(graph)):
        raise outer.wrong("its body differs in training", hint="Such a loop is unrolled")
    found: list[tuple[Network, list[str]]] = []
    for rank in (max, min):
        b = NetworkBuilder(outer.where, outer.opset, dict(outer.opsets), outer.limits)
        b.single_rank, b.iterations = rank, dict(iterations or {})
        found.append(
            _import_into(b, scope, graph, formals, graph.outputs if results is None else results, takes_narrow)
        )
        if not b.has_open_rank:
            return found[0]
    first, second = (network for network, _ in found)
    if _made(first) != _made(second) or not compute_alike(first, second):
        raise outer.wrong("its results depend on the rank of an element, which follows from values")
    return found[0]


def _made(network: Network) -> list[ShapeDtype]:
    return [(network.values[name].shape, network.values[name].dtype) for name in network.outputs]


def _import_into(
    b: NetworkBuilder,
    scope: Scope,
    graph: ModelGraph,
    formals: Sequence[_Formal],
    results: Sequence[DeclaredValue],
    takes_narrow: bool,
) -> tuple[Network, list[str]]:
    """Import a body as the network of a builder; return it, and the outer values that follow the formal inputs."""
    outer = scope.b
    inner = _BodyScope(b, scope.importers, scope, takes_narrow=takes_narrow)
    if len(graph.inputs) != len(formals):
        raise outer.wrong(f"its body has {len(graph.inputs)} inputs, expected {len(formals)}")
    for declared, formal in zip(graph.inputs, formals, strict=True):
        if isinstance(formal, np.ndarray):
            inner.bind(declared.name, b.add_constant(f"value {declared.name}", formal))
        elif not isinstance(formal, str):
            inner.bind(declared.name, b.add_input(*formal))
    for declared, formal in zip(graph.inputs, formals, strict=True):
        if isinstance(formal, str):  # as an input it follows the others
            inner.bind(declared.name, inner.capture(formal))
    inner.add_constants(graph.initialisers)
    inner.run(graph.nodes)
    outputs = [(f"result {i}", inner.tensor(output.name)) for i, output in enumerate(results)]
    for _, value in outputs:
        _check_plain(b, value, outer, "its body makes", takes_narrow=takes_narrow)
    if b.guards:
        raise outer.wrong("its body has extents with limits that a run must check")
    return b.finish(graph.name or "body", outputs), inner.captured


def _operators(graph: ModelGraph) -> Iterator[str]:
    """Yield the operators of a graph and of those within its nodes."""
    for node in graph.nodes:
        yield node.operator
        for each in node.attributes.values():
            if isinstance(each, ModelGraph):
                yield from _operators(each)


def _check_plain(
    b: NetworkBuilder, value: str, outer: NetworkBuilder, what: str, *, takes_narrow: bool = False
) -> None:
    """Raise `ModelError` for a value that is more than an array of numbers of its dtype, or of narrow elements."""
    found = [f"elements of {b.elements[value]}"] if value in b.elements and not takes_narrow else []
    found += ["a value whose length is known only at run time"] if value in b.lengths else []
    if found:
        raise outer.wrong(f"{what} {found[0]}")


def _formals(scope: Scope, kind: str, values: Sequence[str], *, takes_narrow: bool = False) -> list[_Formal]:
    for each in values:
        _check_plain(scope.b, each, scope.b, "it takes", takes_narrow=takes_narrow)
    return [(f"{kind} {i}", scope.b.shape(each), scope.b.element(each)) for i, each in enumerate(values)]


def _slices(scope: Scope, scanned: Sequence[tuple[str, ScannedAxis]], *, takes_narrow: bool = False) -> list[_Formal]:
    """Return the formal inputs for one slice of each scanned input."""
    found: list[_Formal] = []
    whole = _formals(scope, "slice", [x for x, _ in scanned], takes_narrow=takes_narrow)
    for formal, (_, each) in zip(whole, scanned, strict=True):
        assert isinstance(formal, tuple)
        name, shape, element = formal
        found.append((name, (*shape[: each.axis], *shape[each.axis + 1 :]), element))
    return found


def _check_carried(scope: Scope, network: Network, carried: Sequence[str], first: int) -> None:
    for name, start in zip(network.outputs[first:], carried, strict=False):
        made, given = network.values[name], scope.b.values[start]
        if (made.shape, made.dtype) != (given.shape, given.dtype):
            raise scope.b.wrong(
                f"a carried value changes from {given.dtype} {given.shape} to {made.dtype} {made.shape}"
            )


def import_loop_body(
    scope: Scope,
    graph: ModelGraph,
    carried: Sequence[str],
    trips: str | None,
    condition: str | None,
    most_trips: int | None = None,
) -> tuple[LoopBody, list[str], dict[int, str]]:
    """Import the body of a Loop; return it, the inputs of its node, and the values of results that it does not have.

    Trip count and condition are values, or None if they are left out; the trip count may have an upper bound. Values
    that are carried unchanged are outer values of the body: their results are known by position.
    """
    b = scope.b
    unchanged = {i: carried[i] for i in unchanged_positions(graph) if i < len(carried)}
    changing = {i: each for i, each in enumerate(carried) if i not in unchanged}
    known_trips, known_condition = (None if each is None else b.known(each) for each in (trips, condition))
    limit = None if known_trips is None else max(0, int(known_trips.reshape(-1)[0]))
    is_run = limit != 0 and (trips is None or limit is not None)
    is_run = is_run and (condition is None or (known_condition is not None and bool(known_condition.reshape(-1)[0])))
    network, captured, counted = _import_states(scope, graph, changing, unchanged, limit)
    settled = _settled(scope, graph, network, changing) if is_run else changing
    if settled != changing:
        as_started = network
        network, captured, counted = _import_states(scope, graph, settled, unchanged, limit, counted)
        if _made(network) != _made(as_started) or not compute_alike(as_started, network):
            raise b.wrong("its results are others with the shapes of its first iteration")
    states = list(settled.values())
    _check_carried(scope, network, states, 1)
    starts = {name: b.known(each) for name, each in zip(network.inputs[1:], states, strict=False)}
    most = counted_rounds(network, {name: each for name, each in starts.items() if each is not None}, limit)
    if known_condition is not None and not bool(known_condition.reshape(-1)[0]):
        limit = 0
    else:
        limit = min(
            (each for each in (most or None, most_trips, limit, counted and counted[0]) if each is not None),
            default=None,
        )
    body = LoopBody(
        network if most is None else replace(network, outputs=network.outputs[1:]),
        limit,
        len(states),
        made=(ScannedAxis(0),) * (len(graph.outputs) - 1 - len(carried)),
        counted=True,
        conditional=most is None,
        has_trips=trips is not None and known_trips is None,
        has_condition=condition is not None and known_condition is None,
    )
    first = [each for each, is_given in ((trips, body.has_trips), (condition, body.has_condition)) if is_given]
    return body, [*(each for each in first if each is not None), *states, *captured], unchanged


#: Most iterations of a loop, and values of inputs of its body in each; or None if neither is needed.
_Iterations = tuple[int, dict[str, np.ndarray[Any, Any]]] | None


def _import_states(
    scope: Scope,
    graph: ModelGraph,
    carried: Mapping[int, str],
    unchanged: Mapping[int, str],
    limit: int | None,
    counted: _Iterations = None,
) -> tuple[Network, list[str], _Iterations]:
    """Import the body of a Loop with the starts of what changes, and what is unchanged, by position.

    Where extents follow from counters that are carried, their values in each iteration are computed beforehand.
    """
    changing = dict(zip(carried, _formals(scope, "carried", list(carried.values())), strict=True))
    formals = {-2: ("counter", (), "int64"), -1: _TRUE, **changing, **unchanged}
    results = [each for i, each in enumerate(graph.outputs, -1) if i not in unchanged]
    given = [formals[i] for i in sorted(formals)]
    try:
        made = _import_body(scope, graph, given, results, iterations=None if counted is None else counted[1])
        return *made, counted
    except ValueNeededError:
        starts = {i: scope.b.known(each) for i, each in carried.items()}
        known = [i for i, each in starts.items() if each is not None]
        fixed = [i for i, each in unchanged.items() if scope.b.known(each) is not None]
        part = None if counted is not None else counting_part(graph, known, fixed, lambda x: _is_constant(scope, x))
        if part is None:
            raise
        free: list[_Formal] = [(f"free {i}", (), "bool") for i in range(part.free)]
        kept = [formals[i] if i < 0 or i in (*part.carried, *fixed) else _TRUE for i in sorted(formals)]
        counting, _ = _import_body(scope, part.graph, [*kept, *free])
        values = (starts[i] for i in part.carried)
        first = {name: each for name, each in zip(counting.inputs[1:], values, strict=False) if each is not None}
        rounds, is_ended, found = iterations(counting, first, limit)
        if not rounds or (not is_ended and rounds != limit):
            raise
        return _import_states(scope, graph, carried, unchanged, limit, (rounds, found))


def _is_constant(scope: Scope, name: str) -> bool:
    found = scope.meaning(name) if scope.has(name) else None
    return isinstance(found, str) and scope.b.known(found) is not None


def _settled(scope: Scope, graph: ModelGraph, network: Network, carried: Mapping[int, str]) -> dict[int, str]:
    """Return the starts of a loop that is executed, with the shapes of its first iteration where these do not matter.

    They do not if an iteration does not read the value, or if it is a single element.
    """
    b, settled = scope.b, dict(carried)
    read = {name for node in graph.nodes for name in _names_read(node)} | {each.name for each in graph.outputs}
    for (position, start), result in zip(carried.items(), network.outputs[1:], strict=False):
        made, given = network.values[result], b.values[start]
        if made.shape == given.shape or made.dtype != given.dtype:
            continue
        if math.prod(made.shape) == math.prod(given.shape) == 1:
            settled[position] = b.reshape(start, made.shape)
        elif graph.inputs[2 + position].name not in read:
            settled[position] = b.constant(np.zeros(made.shape, made.dtype))
    return settled


def _names_read(node: ModelNode) -> Iterator[str]:
    """Yield the names that a node and its subgraphs read."""
    yield from node.inputs
    for each in node.attributes.values():
        if isinstance(each, ModelGraph):
            yield from (output.name for output in each.outputs)
            for inner in each.nodes:
                yield from _names_read(inner)


def scan_outputs_of_none(
    scope: Scope,
    graph: ModelGraph,
    carried: Sequence[BoundValue],
    scanned: Sequence[tuple[str, ScannedAxis]] = (),
    axes: Sequence[int] | None = None,
) -> list[str]:
    """Return the scan outputs of a Loop or Scan without iterations, of the shapes that its body would make or declares.

    Those of a Scan have axes.
    """
    # Extents may follow from the counter, which is 0 in the first iteration.
    counters: list[_Formal] = [("counter", (), "int64"), np.array(0)]
    firsts: list[list[_Formal]] = [[each, _TRUE] for each in counters] if axes is None else [[]]
    at = len(carried) + (axes is None)
    for first in firsts:
        try:
            found = _made_by_body(scope, graph, first, carried, scanned)[at:]
            break
        except ModelError:
            continue
    else:  # only an iteration could tell
        found = [_declared_result(scope, each) for each in graph.outputs[at:]]
    empty = []
    for (shape, element), given in zip(found, [0] * len(found) if axes is None else axes, strict=True):
        axis = scope.b.axis(given, len(shape) + 1)
        empty.append(scope.b.constant(np.zeros((*shape[:axis], 0, *shape[axis:]), numpy_dtype(element))))
    return empty


def _made_by_body(
    scope: Scope,
    graph: ModelGraph,
    first: Sequence[_Formal],
    carried: Sequence[BoundValue],
    scanned: Sequence[tuple[str, ScannedAxis]],
) -> list[ShapeDtype]:
    """Return shapes and types of the results of a body."""
    tensors = [each for each in carried if isinstance(each, str)]
    if len(tensors) < len(carried):
        raise scope.b.wrong("it carries a sequence")
    states, slices = (
        _formals(scope, "carried", tensors, takes_narrow=True),
        _slices(scope, scanned, takes_narrow=True),
    )
    network, _ = _import_body(scope, graph, [*first, *states, *slices], takes_narrow=True)
    made = [network.values[name] for name in network.outputs]
    return [(each.shape, network.elements.get(each.name, each.dtype)) for each in made]


def _declared_result(scope: Scope, declared: DeclaredValue) -> ShapeDtype:
    """Return shape and type of a body's result as it is declared, open extents as 0."""
    if declared.dtype is None:
        raise scope.b.wrong(f"it has no iterations, and its body does not declare the type of {declared.name!r}")
    return tuple(d if isinstance(d, int) else 0 for d in declared.dimensions or ()), declared.dtype


def import_scan_body(
    scope: Scope,
    graph: ModelGraph,
    carried: Sequence[str],
    scanned: Sequence[tuple[str, ScannedAxis]],
    made: Sequence[ScannedAxis],
    rounds: int,
) -> tuple[LoopBody, list[str], dict[int, str]]:
    """Import the body of a Scan as that of a Loop. Axes of results may count from the end."""
    b = scope.b
    formals = [*_formals(scope, "carried", carried), *_slices(scope, scanned)]
    network, captured = _import_body(scope, graph, formals)
    _check_carried(scope, network, carried, 0)
    ranks = [len(network.values[name].shape) + 1 for name in network.outputs[len(carried) :]]
    axes = tuple(ScannedAxis(b.axis(each.axis, rank), each.backwards) for each, rank in zip(made, ranks, strict=True))
    body = LoopBody(network, rounds, len(carried), tuple(each for _, each in scanned), axes)
    return body, [*carried, *(x for x, _ in scanned), *captured], {}


def import_branch(scope: Scope, graph: ModelGraph) -> tuple[LoopBody, list[str]]:
    """Import a branch of If as a loop of one iteration at most; return it and the outer values it reads.

    Its carried values are what its results are if it is not taken.
    """
    network, captured = _import_body(scope, graph, [])
    carried = [replace(network.values[name], name=f"not taken {number}") for number, name in enumerate(network.outputs)]
    network = replace(
        network,
        inputs=(*(each.name for each in carried), *network.inputs),
        values={**network.values, **{each.name: each for each in carried}},
    )
    return LoopBody(network, 1, len(carried), has_condition=True), captured
