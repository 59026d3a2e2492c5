# SPDX-License-Identifier: Apache-2.0
"""Importers of RNN, GRU and LSTM: unrolled, as the sequence length is known at import."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from syclsched.frontends.onnx.importing.importer_registry import Inputs, Names, UnsupportedFormError, imports
from syclsched.frontends.onnx.importing.network_builder import NetworkBuilder
from syclsched.frontends.onnx.model_file.dtypes import FLOATS
from syclsched.frontends.onnx.model_file.onnx_model import ModelNode

#: Most unrolled steps.
LONGEST: Final = 4_000
_GATES: Final = {"RNN": 1, "GRU": 3, "LSTM": 4}
_DEFAULTS: Final = {"RNN": ("Tanh",), "GRU": ("Sigmoid", "Tanh"), "LSTM": ("Sigmoid", "Tanh", "Tanh")}
#: ONNX activation -> operator of expressions, and its default alpha and beta.
_FUNCTIONS: Final[dict[str, tuple[str, tuple[float, ...]]]] = {
    **{name: (name.lower(), ()) for name in ("Sigmoid", "Tanh", "Relu", "Softsign", "Softplus")},
    "LeakyRelu": ("leaky_relu", (0.01,)),
    "ThresholdedRelu": ("thresholded_relu", (1.0,)),
    "Elu": ("elu", (1.0,)),
    "HardSigmoid": ("hard_sigmoid", (0.2, 0.5)),
    "ScaledTanh": ("scaled_tanh", (1.0, 1.0)),
    "Affine": ("affine", (1.0, 0.0)),
}


class _Function(NamedTuple):
    """An activation and the clip bound of its argument."""

    name: str
    numbers: tuple[float, ...]
    bound: float | None

    def __call__(self, x: Any) -> Any:
        """Apply the activation to an expression."""
        if self.bound is not None:
            x = ("clip", -self.bound, self.bound, x)
        if self.name == "affine":
            return ("add", ("mul", x, ("const", self.numbers[0])), ("const", self.numbers[1]))
        if self.name == "scaled_tanh":
            return ("mul", ("tanh", ("mul", x, ("const", self.numbers[1]))), ("const", self.numbers[0]))
        return (self.name, *self.numbers, x)


_Functions = tuple[_Function, ...]


class _Weights(NamedTuple):
    """The weights of one direction: w (gates * hidden, input), r (gates * hidden, hidden), and their biases."""

    w: str
    r: str
    wb: str
    rb: str
    peepholes: tuple[str, ...]


@imports("RNN", "GRU", "LSTM")
def _recurrent(b: NetworkBuilder, node: ModelNode, inputs: Inputs) -> Names:
    """Import recurrent networks: per direction one matrix product for the inputs of all steps, then unrolled steps."""
    x = inputs.required(0, "X")
    if node.integer("layout"):
        x = b.transpose(x, (1, 0, 2))
    if len(b.shape(x)) != 3:
        raise b.wrong(f"an input of shape {b.shape(x)}, expected (sequence, batch, features)")
    steps, batch, _ = b.shape(x)
    _refuse_forms(b, node, inputs, steps)
    lengths = _lengths(b, inputs, steps, batch)
    hidden = node.integer("hidden_size", b.shape(inputs.required(2, "R"))[-1])
    directions = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}
    order = directions.get(node.text("direction", "forward"))
    if order is None or b.shape(inputs.required(1, "W"))[0] != len(order):
        raise b.wrong(f"weights of shape {b.shape(inputs.required(1, 'W'))} for direction {node.text('direction')!r}")
    functions = _functions(b, node, len(order))
    rows: list[list[str]] = []
    last: list[str] = []
    cells: list[str] = []
    for number, backwards in enumerate(order):
        weights = _weights(b, node, inputs, number, hidden)
        states = [_state(b, node, inputs, 5, number, batch, hidden)]
        if node.operator == "LSTM":
            states.append(_state(b, node, inputs, 6, number, batch, hidden))
        made, states = _direction(b, node, x, weights, states, functions[number], backwards, lengths)
        rows.append(made)
        last.append(states[0])
        cells.append(states[-1])
    made_steps = [_joined(b, [each[i] for each in rows], (1, 1, batch, hidden), 1) for i in range(steps)]
    if made_steps:
        y = b.concat(made_steps, 0)
    else:
        y = b.constant(np.zeros((0, len(order), batch, hidden), b.dtype(x)))
    ends = [_joined(b, each, (1, batch, hidden), 0) for each in (last, cells)]
    if node.integer("layout"):
        y = b.transpose(y, (2, 0, 1, 3))
        ends = [b.transpose(each, (1, 0, 2)) for each in ends]
    return [y, *ends][: len(node.outputs)]


def _refuse_forms(b: NetworkBuilder, node: ModelNode, inputs: Inputs, steps: int) -> None:
    """Leave long sequences to the host; raise `ModelError` for forms that the host computes incorrectly."""
    if steps <= LONGEST and b.dtype(inputs.required(0, "X")) in FLOATS:
        return
    # onnx's reference implementation silently ignores these attributes and has no third output.
    told = {"direction", "clip", "input_forget", "activations", "activation_alpha", "activation_beta", "layout"}
    said = {name for name in told & node.attributes.keys() if node.attributes[name] not in (0, b"forward", "forward")}
    if said or inputs.optional(4) is not None or len(node.outputs) > 2:
        raise b.wrong(
            f"{steps:,} steps: more than {LONGEST:,} are done in the simplest form only",
            hint="Give it shorter sequences, and the last state on to the next",
        )
    raise UnsupportedFormError


def _lengths(b: NetworkBuilder, inputs: Inputs, steps: int, batch: int) -> str | None:
    """Return the sequence lengths as a column; None if all have the full length."""
    lengths = inputs.optional(4)
    if lengths is None:
        return None
    if b.shape(lengths) != (batch,):
        raise b.wrong(f"lengths of shape {b.shape(lengths)} for {batch} sequences")
    known = b.known(lengths)
    if known is not None:
        if (known < 0).any() or (known > steps).any():
            raise b.wrong(f"lengths from {known.min()} to {known.max()}, and there are {steps} steps")
        if (known == steps).all():
            return None
    return b.reshape(lengths, (batch, 1))


def _functions(b: NetworkBuilder, node: ModelNode, directions: int) -> list[_Functions]:
    """Return the activations of each direction; activations with parameters consume alpha and beta in order."""
    count = len(_DEFAULTS[node.operator])
    names = node.attributes.get("activations") or _DEFAULTS[node.operator] * directions
    if len(names) != count * directions:
        raise b.wrong(f"{len(names)} activations, expected {count * directions}")
    bound = node.number("clip", 0.0) if "clip" in node.attributes else None
    if bound is not None and not bound > 0:
        raise b.wrong(f"clip={bound:g} bounds nothing, expected more than 0")
    given = [iter(node.attributes.get(f"activation_{each}") or ()) for each in ("alpha", "beta")]
    found = []
    for name in names:
        if name not in _FUNCTIONS:
            raise b.wrong(f"there is no activation {name!r}", hint=f"Those of ONNX are {', '.join(_FUNCTIONS)}")
        kind, usual = _FUNCTIONS[name]
        numbers = tuple(float(next(each, default)) for each, default in zip(given, usual, strict=False))
        found.append(_Function(kind, numbers, bound))
    return [tuple(found[i * count : (i + 1) * count]) for i in range(directions)]


def _part(b: NetworkBuilder, x: str, number: int) -> str:
    """Return one slice along the first axis, without that axis."""
    shape = b.shape(x)
    if number >= shape[0]:
        raise b.wrong(f"{shape} has no part {number}")
    return b.without_axis(b.part(x, 0, number, 1), 0)


def _columns(b: NetworkBuilder, x: str, width: int, *places: int) -> list[str]:
    """Return ranges of the last axis: of equal width, by their places."""
    return [b.part(x, -1, place * width, width) for place in places]


def _weights(b: NetworkBuilder, node: ModelNode, inputs: Inputs, number: int, hidden: int) -> _Weights:
    gates = _GATES[node.operator]
    w, r = (_part(b, inputs.required(i, name), number) for i, name in ((1, "W"), (2, "R")))
    bias = inputs.optional(3)
    if bias is None:
        wb = rb = b.filled((gates * hidden,), b.dtype(w), 0.0)
    else:
        wb, rb = _columns(b, _part(b, bias, number), gates * hidden, 0, 1)
    if b.shape(r) != (gates * hidden, hidden) or b.shape(w)[0] != gates * hidden:
        raise b.wrong(f"weights {b.shape(w)} and {b.shape(r)} for {gates} gates of {hidden}")
    peepholes: tuple[str, ...] = ()
    held = inputs.optional(7) if node.operator == "LSTM" else None
    if held is not None:
        peepholes = tuple(_columns(b, _part(b, held, number), hidden, 0, 1, 2))
    return _Weights(w, r, wb, rb, peepholes)


def _state(
    b: NetworkBuilder, node: ModelNode, inputs: Inputs, position: int, number: int, batch: int, hidden: int
) -> str:
    name = inputs.optional(position)
    if name is None:
        return b.filled((batch, hidden), b.dtype(inputs.required(0, "X")), 0.0)
    return _part(b, b.transpose(name, (1, 0, 2)) if node.integer("layout") else name, number)


def _times(b: NetworkBuilder, x: str, w: str, bias: str) -> str:
    """Return x @ w.T + bias."""
    return b.matmul(x, w, bias, transpose_b=True)


def _joined(b: NetworkBuilder, parts: Sequence[str], shape: tuple[int, ...], axis: int) -> str:
    return b.concat([b.reshape(part, shape) for part in parts], axis)


def _direction(
    b: NetworkBuilder,
    node: ModelNode,
    x: str,
    weights: _Weights,
    states: list[str],
    functions: _Functions,
    backwards: bool,
    lengths: str | None,
) -> tuple[list[str], list[str]]:
    """Return the state after each step, in sequence order, and the final states.

    Beyond the length of a sequence its states do not change and the returned state is 0.
    """
    steps, batch, features = b.shape(x)
    flat = _times(b, b.reshape(x, (steps * batch, features)), weights.w, weights.wb)
    gates = b.reshape(flat, (steps, batch, b.shape(weights.w)[0]))
    step: Callable[..., list[str]] = {"RNN": _rnn, "GRU": _gru, "LSTM": _lstm}[node.operator]
    made: list[str] = [""] * steps
    for index in reversed(range(steps)) if backwards else range(steps):
        new = step(b, node, _part(b, gates, index), weights, states, functions)
        if lengths is None:
            states = new
            made[index] = states[0]
            continue
        within = ("less", ("const", index, b.dtype(lengths)), 0)
        states = [b.elementwise(("where", within, 1, 2), lengths, *each) for each in zip(new, states, strict=True)]
        made[index] = b.elementwise(("where", within, 1, ("const", 0.0)), lengths, new[0])
    return made, states


def _rnn(b: NetworkBuilder, _: ModelNode, x: str, weights: _Weights, states: list[str], f: _Functions) -> list[str]:
    h = _times(b, states[0], weights.r, weights.rb)
    return [b.elementwise(f[0](("add", 0, 1)), x, h)]


def _gru(b: NetworkBuilder, node: ModelNode, x: str, weights: _Weights, states: list[str], f: _Functions) -> list[str]:
    """Compute one GRU step; gates in order z (update), r (reset), h (candidate)."""
    (state,) = states
    hidden = b.shape(state)[1]
    xz, xr, xh = _columns(b, x, hidden, 0, 1, 2)
    if node.integer("linear_before_reset"):
        h = _times(b, state, weights.r, weights.rb)
        hz, hr, hh = _columns(b, h, hidden, 0, 1, 2)
        z = b.elementwise(f[0](("add", 0, 1)), xz, hz)
        new = b.elementwise(f[1](("add", 0, ("mul", f[0](("add", 1, 2)), 3))), xh, xr, hr, hh)
    else:
        both = _times(b, state, *(b.part(each, 0, 0, 2 * hidden) for each in (weights.r, weights.rb)))
        hz, hr = _columns(b, both, hidden, 0, 1)
        z = b.elementwise(f[0](("add", 0, 1)), xz, hz)
        kept = b.elementwise(("mul", f[0](("add", 0, 1)), 2), xr, hr, state)
        hh = _times(b, kept, *(b.part(each, 0, 2 * hidden, hidden) for each in (weights.r, weights.rb)))
        new = b.elementwise(f[1](("add", 0, 1)), xh, hh)
    one = ("const", 1.0)
    return [b.elementwise(("add", ("mul", ("sub", one, 0), 1), ("mul", 0, 2)), z, new, state)]


def _lstm(b: NetworkBuilder, node: ModelNode, x: str, weights: _Weights, states: list[str], f: _Functions) -> list[str]:
    """Compute one LSTM step; gates in order i (input), o (output), f (forget), c (candidate)."""
    state, cell = states
    hidden = b.shape(state)[1]
    total = b.elementwise(("add", 0, 1), x, _times(b, state, weights.r, weights.rb))
    gi, go, gf, gc = _columns(b, total, hidden, 0, 1, 2, 3)
    if weights.peepholes:
        pi, po, pf = weights.peepholes
        gi, gf = (b.elementwise(("add", 0, ("mul", 1, 2)), gate, p, cell) for gate, p in ((gi, pi), (gf, pf)))
    # With input_forget, the input and forget gates are coupled: f = 1 - i.
    forget = ("sub", ("const", 1.0), f[0](1)) if node.integer("input_forget") else f[0](0)
    kept: Any = ("add", ("mul", forget, 3), ("mul", f[0](1), f[1](2)))
    new_cell = b.elementwise(kept, gf, gi, gc, cell)
    if weights.peepholes:
        go = b.elementwise(("add", 0, ("mul", 1, 2)), go, po, new_cell)
    # The clip bound applies to the gates' sums, not to the cell state, as in ONNX Runtime.
    return [b.elementwise(("mul", f[0](0), f[2]._replace(bound=None)(1)), go, new_cell), new_cell]
