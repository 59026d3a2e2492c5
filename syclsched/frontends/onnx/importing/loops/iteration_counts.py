# SPDX-License-Identifier: Apache-2.0
"""Numbers of iterations of loops that follow from their counter and from values that they carry, without any input."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, Final

import numpy as np

from syclsched.frontends.onnx.loops.host_program import HostProgram
from syclsched.frontends.onnx.model_file.onnx_model import DeclaredValue, ModelGraph, ModelNode
from syclsched.frontends.onnx.network import CanonicalNode, Network
from syclsched.frontends.onnx.operations import operation_call
from syclsched.frontends.onnx.reference import RANDOM

Array = np.ndarray[Any, Any]
#: Most iterations of a loop whose iterations are counted or unrolled while it is imported.
LONGEST_LOOP: Final = 10_000
#: Operators of truth values, others through which a condition may pass, and the most unknown truth values of one.
_LOGIC: Final = frozenset({"And", "Or", "Not", "Xor"})
_PASSING: Final = frozenset({"Add", "Cast", "Identity", "Mul", "Reshape", "Squeeze", "Unsqueeze"})
_MOST_FREE: Final = 3


def unchanged_positions(graph: ModelGraph) -> list[int]:
    """Return the positions of the carried values that the body of a Loop passes on as it gets them."""
    source = {node.outputs[0]: node.inputs[0] for node in graph.nodes if node.operator == "Identity"}
    found = []
    for position, (given, made) in enumerate(zip(graph.inputs[2:], graph.outputs[1:], strict=False)):
        name = made.name
        while name in source:
            name = source[name]
        if name == given.name:
            found.append(position)
    return found


def counted_rounds(network: Network, starts: Mapping[str, Array], limit: int | None) -> int | None:
    """Return after how many iterations a body's condition ends the loop, 0 for never; None if inputs decide it.

    The first input is the counter, the first output the condition; carried values follow both, and start at known
    values where these are given. A limit is that of the trip count.
    """
    following = dict(zip(network.inputs[1:], network.outputs[1:], strict=False))
    nodes, read = _needed(network, {each: following[each] for each in starts})
    if read - {"counter"} - starts.keys() or any(node.kind == "reference" for node in nodes):
        return None
    states = [name for name in network.inputs[1:] if name in read]
    outputs = (network.outputs[0], *(following[name] for name in states))
    network = replace(network, inputs=("counter", *states), outputs=outputs, nodes=nodes)
    if not nodes and not states:
        limit = 1 if limit is None else min(limit, 1)
    rounds, is_ended, _ = iterations(network, {name: starts[name] for name in states}, limit)
    return rounds if is_ended else None if rounds == LONGEST_LOOP != limit else 0


def iterations(network: Network, starts: Mapping[str, Array], limit: int | None) -> tuple[int, bool, dict[str, Array]]:
    """Return how many iterations there can be, whether the condition ends them, and what inputs are in each.

    Inputs are the counter, carried values, and truth values that are not known; outputs are the condition, which must
    be false whatever these are, and the carried values.
    """
    program = HostProgram(network, operation_call)
    counter, carried, free = program.inputs[0], program.inputs[1 : 1 + len(starts)], program.inputs[1 + len(starts) :]
    condition, *changed = program.outputs
    for array, start in zip(carried, starts.values(), strict=True):
        array[...] = start
    seen: list[list[Array]] = []
    is_ended = False
    while not is_ended and len(seen) < (LONGEST_LOOP if limit is None else min(limit, LONGEST_LOOP)):
        counter[...] = len(seen)
        seen.append([each.copy() for each in (counter, *carried)])
        for values in product((True, False), repeat=len(free)):
            for each, truth in zip(free, values, strict=True):
                each[...] = truth
            program.run()
            is_ended = not bool(condition.reshape(-1)[0])
            if not is_ended:
                break
        for array, value in zip(carried, [each.copy() for each in changed], strict=True):
            array[...] = value
    columns = zip(("counter", *starts), zip(*seen, strict=True), strict=False)
    return len(seen), is_ended, {name: np.stack(column) for name, column in columns}


@dataclass(frozen=True, slots=True)
class CountingPart:
    """The part of a body that follows from the counter and known starts alone."""

    graph: ModelGraph  # inputs are those of the body, and truth values that are not known
    carried: tuple[int, ...]  # positions of the carried values in it, which are its results after the condition
    free: int  # number of truth values that are not known


def counting_part(
    graph: ModelGraph, known: Collection[int], fixed: Collection[int], is_constant: Callable[[str], bool]
) -> CountingPart | None:
    """Return the part of a body that says what its counters are; None if it ends no loop.

    Given are the positions of carried values with known starts, and of those that stay constant.
    """
    inputs, outputs = [each.name for each in graph.inputs], [each.name for each in graph.outputs]
    own = {*inputs, *graph.initialisers, *(name for node in graph.nodes for name in node.outputs)}
    counted, follows = list(known), set[str]()
    while True:
        follows = {inputs[0], *graph.initialisers, *(inputs[2 + i] for i in (*counted, *fixed))}
        for node in graph.nodes:
            if all(not name or name in follows or (name not in own and is_constant(name)) for name in node.inputs):
                follows.update(node.outputs if _is_plain(node) else ())
        left = [i for i in counted if outputs[1 + i] in follows]
        if left == counted:
            break
        counted = left
    producer = {name: node for node in graph.nodes for name in node.outputs}
    free: list[str] = []
    if not counted or not _decides(outputs[0], producer, follows, free) or len(free) > _MOST_FREE:
        return None
    results = [outputs[0], *(outputs[1 + i] for i in counted)]
    waiting, needed = list(results), set(free)
    while waiting:
        name = waiting.pop()
        if name not in needed:
            needed.add(name)
            waiting += producer[name].inputs if name in producer else ()
    nodes = tuple(node for node in graph.nodes if needed.difference(free).intersection(node.outputs))
    given = (*graph.inputs, *(DeclaredValue(name, "bool", ()) for name in free))
    made = tuple(each for name in results for each in graph.outputs if each.name == name)
    return CountingPart(replace(graph, inputs=given, outputs=made, nodes=nodes), tuple(counted), len(free))


def _is_plain(node: ModelNode) -> bool:
    """Return whether a node's results follow from its inputs alone."""
    has_graph = any(isinstance(each, ModelGraph) for each in node.attributes.values())
    return not has_graph and not node.domain and node.operator not in RANDOM


def _decides(name: str, producer: Mapping[str, ModelNode], follows: Collection[str], free: list[str]) -> bool:
    """Return whether what follows from counters has a part in a condition; add the truth values beside it."""
    if name in follows:
        return True
    node = producer.get(name)
    if node is None or node.operator not in (*_LOGIC, *_PASSING):
        return False
    beside: list[str] = []
    open_ones = [each for each in node.inputs if each and not _decides(each, producer, follows, beside)]
    varies = [each for each in node.inputs if each in producer and producer[each].inputs and each not in open_ones]
    if not varies or (open_ones and node.operator not in _LOGIC):
        return False
    free += [each for each in (*beside, *open_ones) if each not in free]
    return True


def _needed(network: Network, following: Mapping[str, str]) -> tuple[tuple[CanonicalNode, ...], set[str]]:
    """Return the nodes that a body's condition needs, and the inputs: of carried ones, also what follows them."""
    producer, waiting = network.producer(), [network.outputs[0]]
    needed = set(waiting)
    while waiting:
        name = waiting.pop()
        node = producer.get(name)
        found = {each for each in node.inputs if each is not None} if node is not None else set()
        if name in following:
            found.add(following[name])
        waiting += found - needed
        needed |= found
    return tuple(node for node in network.nodes if needed.intersection(node.outputs)), needed & set(network.inputs)
