# SPDX-License-Identifier: Apache-2.0
"""Gradient of LSTMs with peepholes: that of the same layer as a loop over its steps.

Gates that see the cell make the cells before each step no linear recurrence, so that they are not known for all steps
at once.
"""

from __future__ import annotations

from collections.abc import Sequence

from syclsched.frontends.onnx.importing.gradients.expressions import applied
from syclsched.frontends.onnx.importing.gradients.rules import Names, rule_of
from syclsched.frontends.onnx.importing.network_builder import NetworkBuilder
from syclsched.frontends.onnx.loops.loop_body import LoopBody, ScannedAxis
from syclsched.frontends.onnx.network import CanonicalNode, Network
from syclsched.kernels.tensor.writing.expression import Expression, substitute

#: Places of a layer's inputs among those of the loop: first states, x, weights, peepholes, lengths.
_ORDER = (4, 5, 0, 1, 2, 3, 7, 6)


def with_peepholes(b: NetworkBuilder, node: CanonicalNode, gradients: Names, wanted: Sequence[bool]) -> Names:
    """Add the gradient of a layer with peepholes."""
    steps, batch, hidden = b.shape(node.outputs[0] or "")
    kind, lengths = b.dtype(node.outputs[0] or ""), node.input(6)
    start = [node.input(i) or b.filled((batch, hidden), kind) for i in (4, 5)]
    given = [*start, *(node.inputs[i] or "" for i in _ORDER[2:7]), *([lengths] if lengths is not None else [])]
    along = ScannedAxis(0, backwards=node.attributes["reverse"])
    network = _step(b, node, given)
    body = LoopBody(network, steps, 2, (along,), (along,), counted=lengths is not None)
    y, h, c = gradients[:3]
    outputs = (*node.outputs[1:3], node.outputs[0])
    loop = CanonicalNode(node.name, "loop", tuple(given), outputs, {"body": body}, node.origin)
    asked = [i < len(wanted) and wanted[i] for i in _ORDER[: len(given)]]
    made = rule_of(loop)(b, loop, [h, c, y], asked)
    found: list[str | None] = [None] * len(node.inputs)
    for i, gradient in zip(_ORDER, made, strict=False):
        if i < len(found):
            found[i] = gradient
    return found


def _step(b: NetworkBuilder, node: CanonicalNode, given: Sequence[str]) -> Network:
    """Return one step: from state, cell and input to the next state, the next cell and the result."""
    inner = NetworkBuilder(b.where, b.opset, dict(b.opsets), b.limits)
    steps, at = b.shape(given[2])[0], node.attributes
    number = inner.add_input("number", (), "int64") if len(given) > 7 else ""
    names = ("state", "cell", "x", "w", "r", "bias", "peepholes", "lengths")
    for name, value in zip(names, given, strict=False):
        shape = b.shape(value)
        inner.add_input(name, shape[1:] if name == "x" else shape, b.dtype(value))
    hidden = inner.shape("state")[1]
    gate, of_candidate, of_cell = (applied(each) for each in at["activations"])
    inner.begin(node.name, ", ".join(node.origin))
    sums = inner.elementwise(("add", 0, 1), inner.matmul("x", "w", "bias"), inner.matmul("state", "r"))
    parts = [inner.part(sums, 1, i * hidden, hidden) for i in range(4)]
    seen = [inner.part("peepholes", 0, i * hidden, hidden) for i in range(3)]

    def opened(number: int, peephole: int, cell: str) -> str:
        total: Expression = ("add", 0, ("mul", 1, 2))
        return inner.elementwise(substitute(gate, {0: total}), parts[number], seen[peephole], cell)

    i = opened(0, 0, "cell")
    forget = inner.elementwise(("sub", ("const", 1.0), 0), i) if at["coupled"] else opened(1, 1, "cell")
    candidate = inner.elementwise(of_candidate, parts[2])
    cell = inner.elementwise(("add", ("mul", 0, 1), ("mul", 2, 3)), forget, "cell", i, candidate)
    state = inner.elementwise(("mul", 0, substitute(of_cell, {0: 1})), opened(3, 2, cell), cell)
    result = state
    if number:
        place: Expression = ("sub", ("const", steps - 1, "int64"), 0) if at["reverse"] else 0
        lengths = inner.cast(inner.reshape("lengths", (inner.shape("state")[0], 1)), "int64")
        within = inner.elementwise(("less", place, 1), number, lengths)
        result = inner.elementwise(("where", 0, 1, ("const", 0.0)), within, state)
        state, cell = (
            inner.elementwise(("where", 0, 1, 2), within, new, old) for new, old in ((state, "state"), (cell, "cell"))
        )
    inner.end([], [])
    return inner.finish("step", [("next state", state), ("next cell", cell), ("result", result)])
