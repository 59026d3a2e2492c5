# SPDX-License-Identifier: Apache-2.0
"""Gradients of loops, and of branches that are loops of one iteration: loops from the last iteration to the first.

The values carried into each iteration are computed again by a loop that gives all of them. From them, one more loop
computes each iteration's gradients: its carried values are the gradients of the carried values, and the sums of the
gradients of outer values; its scan outputs are the gradients of slices.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from syclsched.errors import GradientError
from syclsched.frontends.onnx.importing.gradients.rules import Names, gradient_of, no_gradient
from syclsched.frontends.onnx.importing.network_builder import NetworkBuilder
from syclsched.frontends.onnx.loops.loop_body import LoopBody, ScannedAxis
from syclsched.frontends.onnx.network import CanonicalNode, Network

#: As `syclsched.frontends.onnx.importing.gradients.differentiation.differentiate`.
Sweep = Callable[[NetworkBuilder, Sequence[CanonicalNode], Mapping[str, str], Sequence[str]], Mapping[str, str]]


def register_loops(differentiate: Sweep) -> None:
    """Register the rule of loops, which differentiates their bodies."""

    @gradient_of("loop")
    def _loop(b: NetworkBuilder, node: CanonicalNode, gradients: Names, wanted: Sequence[bool]) -> Names:
        return loop_gradient(b, node, gradients, wanted, differentiate)


def loop_gradient(
    b: NetworkBuilder, node: CanonicalNode, gradients: Names, wanted: Sequence[bool], differentiate: Sweep
) -> Names:
    """Add the gradients of a loop whose number of iterations has a known limit."""
    body: LoopBody = node.attributes["body"]
    if body.rounds is None:
        raise no_gradient(
            node,
            "a loop whose number of iterations has no limit that is known has no gradient",
            hint="Give it a trip count, a constant that its condition never exceeds: for so many iterations the values "
            "that it carries are kept. Or freeze the parameters before it",
        )
    head = body.has_trips + body.has_condition
    is_branch = body.rounds == 1 and body.has_condition and not (body.conditional or body.has_trips)
    is_open = body.is_counted_at_run_time and not is_branch
    states: Sequence[str] = ()
    count: str | None = None
    if is_open or (body.rounds > 1 and body.carried):
        states, count = _states(b, node, body)
    back = _Backwards(b, body, [name or "" for name in node.inputs[head:]], count if is_open else None)
    places = back.declare(states, gradients, wanted[head:])
    try:
        backward = back.finished(differentiate, places, is_branch=is_branch)
    except GradientError as error:
        raise no_gradient(node, f"in its body, {error.where}: {error.what}") from error
    control = [count] if is_open else list(node.inputs[:head])
    made = b.emit_all("loop", [*control, *back.values], body=backward)
    found = dict(zip(places, made, strict=False))
    return [*[None] * head, *(found.get(i) if is_asked else None for i, is_asked in enumerate(wanted[head:]))]


def _states(b: NetworkBuilder, node: CanonicalNode, body: LoopBody) -> tuple[list[str], str | None]:
    """Add a loop that gives the values carried into each iteration, stacked; return them and the last result."""
    inner = NetworkBuilder(b.where, b.opset, dict(b.opsets), b.limits)
    network = body.network
    for name in network.inputs:
        inner.add_input(name, network.values[name].shape, network.values[name].dtype)
    _add_nodes(inner, network, {})
    kept = network.inputs[body.counted : body.counted + body.carried]
    results = [(name, name) for name in network.outputs[: body.conditional + body.carried]]
    stacked = replace(
        body,
        network=inner.finish("states", [*results, *((f"kept {name}", name) for name in kept)]),
        made=(ScannedAxis(0),) * body.carried,
        planned=type(body.planned)(),
    )
    made = [name or "" for name in b.emit_all("loop", node.inputs, body=stacked)]
    return made[body.carried : 2 * body.carried], made[-1]


def _add_nodes(inner: NetworkBuilder, network: Network, names: Mapping[str, str]) -> list[CanonicalNode]:
    """Add the constants and nodes of a body; some of its inputs have other names."""
    for name, array in network.constants.items():
        inner.add_constant(name, array)
    nodes: list[CanonicalNode] = []
    for node in network.nodes:
        read = tuple(None if name is None else names.get(name, name) for name in node.inputs)
        nodes.append(replace(node, inputs=read))
        inner.add_node(nodes[-1], [network.values[name] for name in node.outputs if name is not None])
    return nodes


class _Backwards:
    """The body of the loop from the last iteration to the first, under construction."""

    def __init__(self, b: NetworkBuilder, body: LoopBody, given: Sequence[str], count: str | None) -> None:
        self._b, self._body, self._given, self._count = b, body, given, count
        self._inner = NetworkBuilder(b.where, b.opset, dict(b.opsets), b.limits)
        #: The forward body's carried values, slices and outer values; and its results.
        self._own = body.network.inputs[body.counted :]
        self._results = body.network.outputs[body.conditional :]
        self._scanned = body.carried + len(body.scanned)
        #: The inputs of the loop: carried values, slices, outer values.
        self.values: list[str] = []
        self._carried = 0
        self._axes: list[ScannedAxis] = []
        #: The number of the iteration from the first.
        self._number = ""
        #: Result of the forward body -> its gradient.
        self._gradients: dict[str, str] = {}

    def declare(self, states: Sequence[str], gradients: Names, wanted: Sequence[bool]) -> list[int]:
        """Declare the inputs of the body; return the numbers of the values whose gradients it gives, in order."""
        b, body, given, own = self._b, self._body, self._given, self._own
        carried = body.carried
        moving = [i for i in range(carried) if b.dtype(given[i]).startswith("float")]
        outer = [i for i in range(self._scanned, len(given)) if wanted[i]]
        if body.counted or self._count is not None:
            self._inner.add_input("iteration backwards", (), "int64")
        for i in moving:
            after = gradients[i] or self._zeros(given[i])
            self._gradients[self._results[i]] = self._input(f"gradient of {own[i]}", after)
        for i in outer:
            self._input(f"sum for {own[i]}", self._zeros(given[i]))
        self._carried = len(self.values)
        self._count_iterations()
        for i, stack in enumerate(states):
            self._slice(own[i], stack, ScannedAxis(0))
        for i, axis in enumerate(body.scanned, carried):
            self._slice(own[i], given[i], axis)
        for i, axis in enumerate(body.made, carried):
            gradient = gradients[i]
            if gradient is not None:
                self._gradients[self._results[i]] = self._slice(f"gradient of {self._results[i]}", gradient, axis)
        for i in (*(() if states else range(carried)), *range(self._scanned, len(given))):
            self._input(own[i], given[i])
        return [*moving, *outer, *(i for i in range(carried, self._scanned) if wanted[i])]

    def _zeros(self, like: str) -> str:
        return self._b.filled(self._b.shape(like), self._b.dtype(like))

    def _input(self, name: str, value: str) -> str:
        self.values.append(value)
        return self._inner.add_input(name, self._b.shape(value), self._b.dtype(value))

    def _count_iterations(self) -> None:
        """Compute the number of the iteration from the first, if anything needs it."""
        inner = self._inner
        if self._count is not None:
            count = self._input("number of iterations", self._count)
        elif self._body.counted:
            count = inner.constant(self._body.rounds, "int64")
        else:
            return
        inner.begin("iteration", "iteration")
        last = ("sub", 0, ("const", 1, "int64"))
        self._number = inner.elementwise(("sub", last, 1), count, "iteration backwards")
        inner.end([], [])

    def _slice(self, name: str, value: str, axis: ScannedAxis) -> str:
        """Declare the slice of an iteration: the loop's own, or where only a run knows the last, an element."""
        if self._count is not None:
            inner = self._inner
            whole = self._input(f"all of {name}", value)
            inner.begin(f"slice of {name}", "slice")
            renamed = inner.end([inner.gather(whole, self._number, axis.axis)], [name])
            return renamed[name]
        self._axes.append(ScannedAxis(axis.axis, not axis.backwards))
        self.values.append(value)
        shape = self._b.shape(value)
        return self._inner.add_input(name, (*shape[: axis.axis], *shape[axis.axis + 1 :]), self._b.dtype(value))

    def finished(self, differentiate: Sweep, places: Sequence[int], *, is_branch: bool) -> LoopBody:
        """Return the body that gives the gradients of values by number."""
        inner, body, own = self._inner, self._body, self._own
        names = {body.network.inputs[0]: self._number} if body.counted else {}
        nodes = _add_nodes(inner, body.network, names)
        found = differentiate(inner, nodes, self._gradients, [own[i] for i in places])
        inner.begin("sums", "sums")
        results: list[str] = []
        for i in places:
            made = found.get(own[i])
            if i >= self._scanned:
                before = f"sum for {own[i]}"
                results.append(before if made is None else inner.elementwise(("add", 0, 1), before, made))
            else:
                results.append(made or inner.filled(inner.shape(own[i]), inner.dtype(own[i])))
        inner.end([], [])
        slices = [body.scanned[i - body.carried] for i in places if body.carried <= i < self._scanned]
        return LoopBody(
            inner.finish("backwards", [(f"backwards {i}", name) for i, name in enumerate(results)]),
            body.rounds,
            self._carried,
            tuple(self._axes),
            tuple(ScannedAxis(axis.axis, not axis.backwards) for axis in slices),
            counted=body.counted or self._count is not None,
            has_trips=self._count is not None,
            has_condition=is_branch,
        )
