# SPDX-License-Identifier: Apache-2.0
"""Import of If, Loop and Scan: bodies of loops become networks of their own, other subgraphs are inlined."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

import numpy as np

from syclsched.errors import ModelError, ValueNeededError
from syclsched.frontends.onnx.importing.equal_extents import chosen_alike
from syclsched.frontends.onnx.importing.extents import bounded, numbers
from syclsched.frontends.onnx.importing.lengths import Length
from syclsched.frontends.onnx.importing.loops.invariant_nodes import without_invariants
from syclsched.frontends.onnx.importing.loops.iteration_counts import LONGEST_LOOP
from syclsched.frontends.onnx.importing.loops.loop_bodies import (
    import_branch,
    import_loop_body,
    import_scan_body,
    scan_outputs_of_none,
)
from syclsched.frontends.onnx.importing.reference_fallback import import_reference, reference_inputs
from syclsched.frontends.onnx.importing.scope import BoundValue, Scope, ScopeImporter
from syclsched.frontends.onnx.importing.sequences import SEQUENCE_IMPORTERS
from syclsched.frontends.onnx.loops.loop_body import LoopBody, ScannedAxis
from syclsched.frontends.onnx.loops.loop_kernel import step_flops
from syclsched.frontends.onnx.model_file.dtypes import FLOATS
from syclsched.frontends.onnx.model_file.onnx_model import ModelGraph, ModelNode

#: Branches of If, and the most nodes of both that are computed where one may be enough.
_BRANCHES: Final = ("then_branch", "else_branch")
_SHORT: Final = 16
#: A loop's body, the inputs of its node, and values of results that it does not have, by position.
_Imported = tuple[LoopBody, list[str], dict[int, str]]
#: Name of the trip count of a loop.
_TRIPS: Final = "the trip count"
#: Arithmetic operations of both branches of If from which a run chooses one, and does not compute both: a choice takes
#: the host some hundred microseconds.
WORTH_CHOOSING: Final = 1e7
#: Most iterations of a loop that is unrolled although its body can be replayed.
MOST_UNROLLED: Final = 4


def _import_if(scope: Scope, node: ModelNode) -> Sequence[BoundValue] | None:
    """Import If: inline the branch taken, or compute both and select where the condition is known only at run time.

    Branches with many arithmetic operations and results of the same shapes are loops of at most one iteration, of which
    a run executes one. If branches have many nodes, a condition that follows from single integers and truth values must
    be known, and the model is planned for each value of these: they have few.
    """
    b, name = scope.b, scope.tensor(node.inputs[0])
    if math.prod(b.shape(name)) != 1:
        raise b.wrong(f"its condition has {math.prod(b.shape(name))} elements, expected 1")
    if b.known(name) is None:
        chosen = _import_choice(scope, node, name)
        if chosen is not None:
            return chosen
        sources = b.sources(name)
        floating = any(b.dtype(each) in FLOATS for each in sources) or not sources
        single = all(math.prod(b.shape(each)) == 1 for each in sources)
        if floating or not single or sum(_length(_graph(scope, node, each)) for each in _BRANCHES) <= _SHORT:
            selected = _import_both(scope, node, name)
            if selected is not None or floating:
                return selected
    condition = b.require(name, "its condition")
    return scope.inline(_graph(scope, node, _BRANCHES[not condition.reshape(-1)[0]]), [], f"{node.name}/")


def _import_choice(scope: Scope, node: ModelNode, condition: str) -> Sequence[BoundValue] | None:
    """Import If with much to compute so that a run computes one branch; None if it is not so."""
    b = scope.b
    b.end([], [])
    try:
        (yes, first), (no, second) = (import_branch(scope, _graph(scope, node, each)) for each in _BRANCHES)
    except ModelError:
        return None
    finally:
        b.begin(scope.prefixed(node.name), node.label)
    flops = sum(step_flops(body) for branch in (yes, no) for body in branch.with_inner)
    if flops < WORTH_CHOOSING or yes.outputs != no.outputs:
        return None
    if any(each in b.lengths for each in (*first, *second)):
        return None
    is_taken = b.reshape(condition, ())
    made = [b.filled(*each) for each in yes.outputs[: yes.carried]]
    for body, captured in ((yes, first), (no, second)):
        results = b.emit_all("loop", [is_taken, *made, *captured], body=body)
        made = [each for each in results[: body.carried] if each is not None]
        is_taken = b.elementwise(("not", 0), is_taken)
    return made


def _length(graph: ModelGraph) -> int:
    """Return the number of nodes of a graph and of those within them."""
    inner = (each for node in graph.nodes for each in node.attributes.values() if isinstance(each, ModelGraph))
    return len(graph.nodes) + sum(map(_length, inner))


def _import_both(scope: Scope, node: ModelNode, condition: str) -> Sequence[BoundValue] | None:
    """Import both branches of If, and a selection of each result; None if results differ in shape or type."""
    b = scope.b
    b.end([], [])
    try:
        branches = [scope.inline(_graph(scope, node, each), [], f"{node.name}/{each}/") for each in _BRANCHES]
    except ModelError as error:  # a branch may be wrong for the shapes of the other
        b.drop()
        if isinstance(error, ValueNeededError) and not any(b.dtype(each) in FLOATS for each in error.inputs):
            raise
        return None
    b.begin(scope.prefixed(node.name), node.label)
    selected: list[BoundValue] = []
    for yes, no in zip(*branches, strict=True):
        if not isinstance(yes, str) or not isinstance(no, str):
            return None
        if b.element(yes) != b.element(no):
            return None
        if any(each in b.lengths for each in (yes, no)):
            alike = chosen_alike(b, b.reshape(condition, ()), yes, no)
            if alike is None:
                return None
            yes, no = alike
        if b.shape(yes) != b.shape(no):
            if b.single_rank is None or math.prod(b.shape(yes)) != 1 or math.prod(b.shape(no)) != 1:
                return None
            b.has_open_rank = True
            rank = b.single_rank(len(b.shape(yes)), len(b.shape(no)))
            yes, no = (b.reshape(each, (1,) * rank) for each in (yes, no))
        made = b.elementwise(("where", 0, 1, 2), b.reshape(condition, ()), yes, no)
        if yes in b.elements:
            b.elements[made] = b.elements[yes]
        selected.append(made)
    return selected


def _import_loop(scope: Scope, node: ModelNode) -> Sequence[BoundValue] | None:
    """Import Loop as one task, by unrolling it, or by the host."""
    body = _graph(scope, node, "body")
    number, most = _trip_count(scope, node) if len(body.outputs) > len(node.inputs) - 1 else (None, None)
    replayed = _as_one_task(scope, node, partial(_loop_body, scope, node, body, number, most))
    if replayed is not None:
        return replayed
    trips_name, condition_name = (*node.inputs, "", "")[:2]
    trips = scope.b.known(number or scope.tensor(trips_name)) if trips_name else None
    proceed = scope.b.known(scope.tensor(condition_name)) if condition_name else np.array(True)
    carried: list[BoundValue] = [scope.meaning(name) if name else None for name in node.inputs[2:]]
    if not all(isinstance(each, str) for each in carried):  # a sequence: its elements must be known
        trips = scope.b.require(scope.tensor(trips_name), "its trip count") if trips_name else None
        proceed = scope.b.require(scope.tensor(condition_name), "its condition") if condition_name else proceed
    if (trips_name and trips is None) or proceed is None:
        return _on_host(scope, node, body)
    # Exporters give the largest integer as the trip count of a loop that only its condition ends.
    limit = math.inf if trips is None else int(trips.reshape(-1)[0])
    gathered: list[list[str]] = [[] for _ in body.outputs[1 + len(carried) :]]
    if len(body.inputs) != 2 + len(carried):
        raise scope.b.wrong(f"its body has {len(body.inputs)} inputs, expected {2 + len(carried)}")
    rounds = 0
    while rounds < limit and bool(proceed.reshape(-1)[0]):
        if rounds == LONGEST_LOOP:
            raise _too_long(scope, f"more than {LONGEST_LOOP:,}")
        counter, condition_in = scope.b.constant(np.array(rounds, np.int64)), scope.b.constant(proceed.reshape(()))
        made = scope.inline(body, [counter, condition_in, *carried], f"{node.name}/{rounds}/")
        carried = made[1 : 1 + len(carried)]
        for found, value in zip(gathered, made[1 + len(carried) :], strict=True):
            if not isinstance(value, str):
                return None
            found.append(value)
        condition = made[0]
        known = scope.b.known(condition) if isinstance(condition, str) else None
        if known is None:  # the number of iterations depends on the inputs' values
            return _on_host(scope, node, body)
        proceed = known
        rounds += 1
    scope.b.begin(scope.prefixed(node.name), node.label)
    if not rounds:
        return [*carried, *(scan_outputs_of_none(scope, body, carried) if gathered else [])]
    return [*carried, *(scope.b.stack(values, 0) for values in gathered)]


def _trip_count(scope: Scope, node: ModelNode) -> tuple[str | None, int | None]:
    """Return the trip count of a loop with scan outputs, and the maximum so far; None for a count without effect."""
    b = scope.b
    name = scope.tensor(node.inputs[0]) if node.inputs and node.inputs[0] else None
    if b.observed is None or name is None or name in b.lengths or math.prod(b.shape(name)) != 1:
        return None, None
    (number,) = numbers(b, name, _TRIPS)
    extent = bounded(b, min(number, LONGEST_LOOP + 1) if isinstance(number, int) else number, _TRIPS, least=None)
    if isinstance(number, int):
        return (None if b.known(name) is not None else b.constant(number, "int64")), None
    return number, extent.bound


def _loop_body(
    scope: Scope, node: ModelNode, graph: ModelGraph, trips: str | None, most: int | None
) -> _Imported | None:
    """Import the body of a Loop as a network of its own; None if its carried values are not all tensors."""
    carried = [scope.meaning(name) if name else None for name in node.inputs[2:]]
    if not all(isinstance(each, str) for each in carried):
        return None
    given = [scope.tensor(name) if name else None for name in (*node.inputs, "", "")[:2]]
    states = [each for each in carried if isinstance(each, str)]
    return import_loop_body(scope, graph, states, trips or given[0], given[1], most)


def _as_one_task(
    scope: Scope, node: ModelNode, import_body: Callable[[], _Imported | None]
) -> Sequence[BoundValue] | None:
    """Import a loop as one node that executes its body again and again; None if it is to be unrolled.

    Unrolled are loops of few iterations, since operations of several iterations can then be fused; loops of constants,
    which are computed beforehand; and loops whose body has an operator that needs the number of the iteration, or a
    carried value, as a constant.
    """
    b = scope.b
    b.end([], [])
    try:
        found = import_body()
    except ModelError:
        found = None
    b.begin(scope.prefixed(node.name), node.label)
    if found is None:
        return None
    body, inputs, others = found
    if body.rounds == 0 and not body.is_counted_at_run_time:
        nothing = [b.constant(np.zeros(*each)) for each in body.outputs[body.carried :]]
        return _with_others([*inputs[: body.carried], *nothing], others)
    is_short = not body.is_counted_at_run_time and body.rounds is not None and body.rounds <= MOST_UNROLLED
    is_endless = not body.is_counted_at_run_time and body.rounds is None
    is_open = bool(body.made) and body.is_counted_at_run_time and (body.rounds or math.inf) > LONGEST_LOOP
    if is_short or is_endless or is_open or all(each in b.constants for each in inputs):
        return None
    if any(each in b.lengths for each in inputs):
        return None
    body, inputs = without_invariants(b, body, inputs)
    made = b.emit_all("loop", inputs, body=body)
    if body.is_counted_at_run_time and made[-1] is not None:
        for name in made[body.carried : -1]:
            if name is not None:
                b.give_lengths(name, [Length(0, made[-1])])
    return _with_others(made[: body.carried + len(body.made)], others)


def _with_others(results: Sequence[BoundValue], others: Mapping[int, str]) -> list[BoundValue]:
    """Return results, and others at their positions among them."""
    left = iter(results)
    return [others[i] if i in others else next(left) for i in range(len(results) + len(others))]


def _on_host(scope: Scope, node: ModelNode, body: ModelGraph) -> Sequence[BoundValue] | None:
    """Leave a loop to the host if its body declares that the carried values keep their shapes."""
    b = scope.b
    if len(node.outputs) != len(node.inputs) - 2 or "" in (*node.inputs[2:], *node.outputs):
        return None
    carried = [scope.tensor(name) for name in node.inputs[2:]]
    if any(out.dimensions != b.shape(each) for out, each in zip(body.outputs[1:], carried, strict=True)):
        return None
    b.begin(scope.prefixed(node.name), node.label)
    inputs = [scope.tensor(name) if name else None for name in node.inputs]
    if any(each in b.lengths for each in reference_inputs(b, node, inputs, scope).values()):
        raise b.wrong("it reads a value whose length is known only at run time")
    return import_reference(b, node, inputs, scope, made=[(b.shape(each), b.dtype(each)) for each in carried])


def _too_long(scope: Scope, rounds: str) -> ModelError:
    return scope.b.wrong(f"a loop of {rounds} rounds; loops of known length have at most {LONGEST_LOOP:,}")


def _graph(scope: Scope, node: ModelNode, name: str) -> ModelGraph:
    found = node.attributes.get(name)
    if not isinstance(found, ModelGraph):
        raise scope.b.wrong(f"attribute {name!r} is missing")
    return found


def _import_scan(scope: Scope, node: ModelNode) -> Sequence[BoundValue] | None:
    """Import Scan as one task, or by unrolling it; the number of iterations follows from the shapes."""
    b = scope.b
    if b.opset < 9:
        return None
    body, count = _graph(scope, node, "body"), node.integer("num_scan_inputs")
    if not 1 <= count <= len(node.inputs):
        raise b.wrong(f"num_scan_inputs is {count}, expected 1 to {len(node.inputs)}")
    given = [scope.tensor(name) for name in node.inputs]
    states: list[BoundValue] = list(given[: len(given) - count])
    scanned = given[len(given) - count :]
    if len(body.inputs) != len(given) or len(body.outputs) < len(states):
        raise b.wrong(f"its body has {len(body.inputs)} inputs and {len(body.outputs)} outputs for {len(given)} inputs")
    made = len(body.outputs) - len(states)
    given_axes = node.integers_or("scan_input_axes", (0,) * count)
    axes_in = [b.axis(axis, len(b.shape(x))) for axis, x in zip(given_axes, scanned, strict=True)]
    lengths = {b.shape(x)[axis] for axis, x in zip(axes_in, scanned, strict=True)}
    if len(lengths) != 1:
        raise b.wrong(f"its scan inputs have different lengths: {sorted(lengths)}")
    rounds = lengths.pop()
    backwards_in = node.integers_or("scan_input_directions", (0,) * count)
    backwards_out = node.integers_or("scan_output_directions", (0,) * made)
    axes_out = node.integers_or("scan_output_axes", (0,) * made)
    slices = [(x, ScannedAxis(axis, bool(way))) for x, axis, way in zip(scanned, axes_in, backwards_in, strict=True)]
    results_at = [ScannedAxis(axis, bool(way)) for axis, way in zip(axes_out, backwards_out, strict=True)]
    replayed = _as_one_task(
        scope, node, partial(import_scan_body, scope, body, given[: len(states)], slices, results_at, rounds)
    )
    if replayed is not None:
        return replayed
    if rounds == 0:
        return [*states, *scan_outputs_of_none(scope, body, states, slices, axes_out)]
    if rounds > LONGEST_LOOP:
        raise _too_long(scope, f"{rounds:,}")
    gathered: list[list[str]] = [[] for _ in range(made)]
    for index in range(rounds):
        parts: list[BoundValue] = []
        for x, axis, backwards in zip(scanned, axes_in, backwards_in, strict=True):
            at = rounds - 1 - index if backwards else index
            parts.append(b.without_axis(b.part(x, axis, at, 1), axis))
        b.end([], [])
        results = scope.inline(body, [*states, *parts], f"{node.name}/{index}/")
        b.begin(scope.prefixed(node.name), node.label)
        states = results[: len(states)]
        for found, value in zip(gathered, results[len(states) :], strict=True):
            if not isinstance(value, str):
                raise b.wrong("its body gives a sequence")
            found.append(value)
    stacked: list[BoundValue] = []
    for values, axis, backwards in zip(gathered, axes_out, backwards_out, strict=True):
        at = b.axis(axis, len(b.shape(values[0])) + 1)
        stacked.append(b.stack(values[::-1] if backwards else values, at))
    return [*states, *stacked]


#: Importers of operators with subgraphs or sequences.
CONTROL_FLOW_IMPORTERS: Final[dict[str, ScopeImporter]] = {
    "If": _import_if,
    "Loop": _import_loop,
    "Scan": _import_scan,
    **SEQUENCE_IMPORTERS,
}
