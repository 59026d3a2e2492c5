# SPDX-License-Identifier: Apache-2.0
"""Gradient of recurrent layers: backpropagation through time.

The forward pass keeps the sums of the gates. What does not depend on the step after is computed for all steps at once:
the gates; the coefficients of the recurrence of gradients, see
`syclsched.kernels.nn.recurrence.recurrent_gradient`; and after it the gradients of weights and inputs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from syclsched.frontends.onnx.importing.gradients.expressions import applied, derivatives
from syclsched.frontends.onnx.importing.gradients.peepholes import with_peepholes
from syclsched.frontends.onnx.importing.gradients.rules import Names, gradient_of
from syclsched.frontends.onnx.importing.network_builder import NetworkBuilder
from syclsched.frontends.onnx.network import CanonicalNode
from syclsched.kernels.common import Activation
from syclsched.kernels.nn.recurrence.recurrent import CELLS
from syclsched.kernels.tensor.writing.expression import Expression, inputs_of, substitute


@gradient_of("recurrent")
def _recurrent(b: NetworkBuilder, node: CanonicalNode, gradients: Names, wanted: Sequence[bool]) -> Names:
    if node.input(7) is not None:
        return with_peepholes(b, node, gradients, wanted)
    layer, cell = _Layer.of(b, node), node.attributes["cell"]
    steps, batch, hidden = layer.steps, layer.batch, layer.hidden
    shapes = ((steps, batch, hidden), (batch, hidden), (batch, hidden))
    dy, dh, dc = (
        each if each is not None else b.filled(shape, layer.dtype)
        for each, shape in zip((*gradients, None, None), shapes, strict=False)
    )
    slopes, more, scaled = {"rnn": _rnn, "lstm": _lstm}.get(cell, _gru)(layer)
    made = b.emit_all(
        "recurrent_gradient",
        [
            layer.by_step(layer.within(layer.rows(dy), 0)),
            *map(layer.by_step, slopes),
            b.transpose(layer.r, (1, 0)),
            *((dh, dc) if cell == "lstm" else (dh,)),
            *map(layer.by_step, more),
        ],
        cell=cell,
        reverse=layer.reverse,
        keep=layer.mask is not None and cell in ("rnn", "lstm"),
    )
    d, *others = (name or "" for name in made)
    dx = others.pop(0) if cell == "gru_linear" else d
    found: list[str | None] = [None] * len(node.inputs)
    d_rows, dx_rows = layer.rows(d), layer.rows(dx)
    if wanted[0]:
        found[0] = b.reshape(b.matmul(dx_rows, layer.w, transpose_b=True), b.shape(node.inputs[0] or ""))
    if wanted[1]:
        found[1] = _outer(b, layer.x, dx_rows)
    if wanted[2]:
        found[2] = _by_recurrent_weights(layer, d_rows, scaled)
    if wanted[3]:
        parts = [dx_rows, *([b.part(d_rows, 1, 2 * hidden, hidden)] if cell == "gru_linear" else [])]
        found[3] = b.concat([b.reduce("sum", each, (0,), keepdims=False) for each in parts], 0)
    for position, name in zip((4, 5), others, strict=False):
        if node.input(position) is not None:
            found[position] = name
    return found


@dataclass(frozen=True, slots=True)
class _Layer:
    """One direction of a recurrent layer whose states are known.

    Values of all steps are matrices, with a row for each step and sequence.
    """

    b: NetworkBuilder
    steps: int
    batch: int
    hidden: int
    dtype: str
    cell: str
    activations: tuple[Activation, ...]
    reverse: bool
    coupled: bool
    # Names of values.
    x: str
    w: str
    r: str
    sums: tuple[str, ...]  # of each gate, and of ``gru_linear`` the candidate's recurrent part
    start_cell: str | None
    previous: str  # the state before each step
    mask: str | None  # whether a step is within the length of a sequence

    @classmethod
    def of(cls, b: NetworkBuilder, node: CanonicalNode) -> _Layer:
        """Return the layer of a node."""
        at, y = node.attributes, node.outputs[0] or ""
        x, w, r = (name or "" for name in node.inputs[:3])
        steps, batch, hidden = b.shape(y)
        sums = [name or "" for name in node.outputs[-CELLS[at["cell"]][1] :]]
        start = node.input(4) or b.filled((batch, hidden), b.dtype(y))
        others = b.part(y, 0, 1 if at["reverse"] else 0, steps - 1)
        first = b.reshape(start, (1, batch, hidden))
        parts = [others, first] if at["reverse"] else [first, others]
        previous, mask = (b.concat(parts, 0) if steps > 1 else first), None
        lengths = node.input(6)
        if lengths is not None:
            long = b.cast(b.reshape(lengths, (1, batch, 1)), "int64")
            mask = b.elementwise(("less", ("index", -3), 0), long, shape=(steps, batch, 1))
            if at["reverse"]:  # a sequence begins at its own end
                later = ("less", ("add", ("index", -3), ("const", 1)), 0)
                previous = b.elementwise(("where", later, 1, 2), long, previous, first)
        return cls(
            b,
            steps,
            batch,
            hidden,
            b.dtype(y),
            cell=at["cell"],
            activations=at["activations"],
            reverse=at["reverse"],
            coupled=at["coupled"],
            x=b.reshape(x, (steps * batch, b.shape(x)[-1])),
            w=w,
            r=r,
            sums=tuple(b.reshape(each, (steps * batch, hidden)) for each in sums),
            start_cell=node.input(5),
            previous=b.reshape(previous, (steps * batch, hidden)),
            mask=None if mask is None else b.reshape(mask, (steps * batch, 1)),
        )

    def rows(self, value: str) -> str:
        """Return the rows of all steps and sequences as a matrix."""
        return self.b.reshape(value, (self.steps * self.batch, self.b.shape(value)[-1]))

    def by_step(self, value: str) -> str:
        """Return a value of rows with axes of steps and sequences."""
        return self.b.reshape(value, (self.steps, self.batch, self.b.shape(value)[-1]))

    def within(self, value: str, beyond: float) -> str:
        """Return a value with a number beyond the lengths of sequences."""
        if self.mask is None:
            return value
        return self.b.elementwise(("where", 1, 0, ("const", float(beyond))), value, self.mask)

    def activated(self, sums: str, number: int) -> str:
        """Return an activation of sums."""
        return self.b.elementwise(applied(self.activations[number]), sums)

    def slope(self, sums: str, value: str, number: int, factor: Expression, *operands: str) -> str:
        """Return the derivative of an activation whose value is known, times an expression of operands from input 2."""
        found = derivatives(applied(self.activations[number]), (self.dtype,), factor, 1)
        expression = found.get(0, ("const", 0.0))
        used = sorted(inputs_of(expression))
        given = [(sums, value, *operands)[position] for position in used]
        expression = substitute(expression, {position: place for place, position in enumerate(used)})
        made = self.b.elementwise(expression, *given, shape=(self.steps * self.batch, self.hidden), dtype=self.dtype)
        return self.within(made, 0)


def _rnn(layer: _Layer) -> tuple[list[str], list[str], str | None]:
    """Return the slopes of the gates, the other coefficients, and the factor of states before the candidate."""
    (sums,) = layer.sums
    slope = layer.slope(sums, layer.activated(sums, 0), 0, ("const", 1.0))
    return [slope], _kept(layer), None


def _kept(layer: _Layer) -> list[str]:
    """Return the coefficient by which states stay beyond the lengths of sequences."""
    if layer.mask is None:
        return []
    stays = ("where", 0, ("const", 0.0), ("const", 1.0, layer.dtype))
    shape = (layer.steps * layer.batch, layer.hidden)
    return [layer.b.elementwise(stays, layer.mask, shape=shape, dtype=layer.dtype)]


def _lstm(layer: _Layer) -> tuple[list[str], list[str], str | None]:
    b = layer.b
    sums = layer.sums
    i, forget, candidate, o = (layer.activated(each, int(gate == 2)) for gate, each in enumerate(sums))
    kept = b.elementwise(("sub", ("const", 1.0), 0), i) if layer.coupled else forget
    start = layer.start_cell or b.filled((layer.batch, layer.hidden), layer.dtype)
    stays, added = layer.within(kept, 1), layer.within(b.elementwise(("mul", 0, 1), i, candidate), 0)
    before = layer.rows(
        b.emit("linear_recurrence", [layer.by_step(stays), layer.by_step(added), start], reverse=layer.reverse)
    )
    cells = b.elementwise(("add", ("mul", 0, 1), 2), stays, before, added)
    shown = layer.activated(cells, 2)
    through = layer.slope(cells, shown, 2, 2, o)
    if layer.coupled:
        by_input = layer.slope(sums[0], i, 0, ("sub", 2, 3), candidate, before)
        by_forget = b.filled((layer.steps * layer.batch, layer.hidden), layer.dtype)
    else:
        by_input = layer.slope(sums[0], i, 0, 2, candidate)
        by_forget = layer.slope(sums[1], forget, 0, 2, before)
    slopes = [by_input, by_forget, layer.slope(sums[2], candidate, 1, 2, i), layer.slope(sums[3], o, 0, 2, shown)]
    return slopes, [*_kept(layer), through, stays], None


def _gru(layer: _Layer) -> tuple[list[str], list[str], str | None]:
    b = layer.b
    update_sums, reset_sums, sums = layer.sums[:3]
    update, reset = layer.activated(update_sums, 0), layer.activated(reset_sums, 0)
    if layer.cell == "gru":
        scaled, there = b.elementwise(("mul", 0, 1), reset, layer.previous), None
    else:
        scaled, there = None, layer.sums[3]
        sums = b.elementwise(("add", 0, ("mul", 1, 2)), sums, reset, there)
    candidate = layer.activated(sums, 1)
    by_update = layer.slope(update_sums, update, 0, ("sub", 2, 3), layer.previous, candidate)
    by_candidate = layer.slope(sums, candidate, 1, ("sub", ("const", 1.0), 2), update)
    if there is None:
        by_reset = layer.slope(reset_sums, reset, 0, 2, layer.previous)
    else:
        by_reset = layer.slope(reset_sums, reset, 0, ("mul", 2, 3), by_candidate, there)
    return [by_update, by_reset, by_candidate], [layer.within(update, 1), reset], scaled


def _by_recurrent_weights(layer: _Layer, d: str, scaled: str | None) -> str:
    """Return the gradient of the recurrent weights; ``scaled``: the states by which the candidate's are multiplied."""
    b, hidden, previous = layer.b, layer.hidden, layer.previous
    if scaled is None:
        return _outer(b, previous, d)
    gates = _outer(b, previous, b.part(d, 1, 0, 2 * hidden))
    candidate = _outer(b, scaled, b.part(d, 1, 2 * hidden, hidden))
    return b.concat([gates, candidate], 1)


def _outer(b: NetworkBuilder, x: str, d: str) -> str:
    """Return the product of the transpose of x with d, which is wider: libraries are faster at its transpose."""
    return b.transpose(b.matmul(d, x, transpose_a=True), (1, 0))
