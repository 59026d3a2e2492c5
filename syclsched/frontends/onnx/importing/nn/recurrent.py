# SPDX-License-Identifier: Apache-2.0
"""Importers of RNN, GRU and LSTM: one canonical node for each direction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from syclsched.frontends.onnx.importing.extents import Extent, with_lengths
from syclsched.frontends.onnx.importing.importer_registry import Inputs, Names, UnsupportedFormError, imports
from syclsched.frontends.onnx.importing.network_builder import NetworkBuilder
from syclsched.frontends.onnx.model_file.dtypes import FLOATS
from syclsched.frontends.onnx.model_file.onnx_model import ModelNode
from syclsched.kernels.common import Activation

_DEFAULTS: Final = {"RNN": ("Tanh",), "GRU": ("Sigmoid", "Tanh"), "LSTM": ("Sigmoid", "Tanh", "Tanh")}
#: Cell -> places of its gates in ONNX's weights; ONNX's LSTM has input, output, forget, candidate.
_ORDERS: Final = {"rnn": (0,), "gru": (0, 1, 2), "gru_linear": (0, 1, 2), "lstm": (0, 2, 3, 1)}
#: Places of input, forget and output in ONNX's peepholes.
_PEEPHOLES: Final = (0, 2, 1)
#: ONNX activation -> the steps of ours with the names of their numbers, and the defaults of alpha and beta.
_FUNCTIONS: Final[dict[str, tuple[tuple[tuple[str, tuple[str, ...]], ...], tuple[float, ...]]]] = {
    **{name: (((name.lower(), ()),), ()) for name in ("Sigmoid", "Tanh", "Relu", "Softsign", "Softplus")},
    "LeakyRelu": ((("leaky_relu", ("alpha",)),), (0.01,)),
    "ThresholdedRelu": ((("thresholded_relu", ("alpha",)),), (1.0,)),
    "Elu": ((("elu", ("alpha",)),), (1.0,)),
    "HardSigmoid": ((("hard_sigmoid", ("alpha", "beta")),), (0.2, 0.5)),
    "ScaledTanh": ((("scale", ("beta",)), ("tanh", ()), ("scale", ("alpha",))), (1.0, 1.0)),
    "Affine": ((("scale", ("alpha",)), ("shift", ("beta",))), (1.0, 0.0)),
}


@imports("RNN", "GRU", "LSTM")
def _recurrent(b: NetworkBuilder, node: ModelNode, inputs: Inputs) -> Names:
    x = inputs.required(0, "X")
    if b.dtype(x) not in FLOATS:
        raise UnsupportedFormError
    if node.flag("layout"):
        x = b.transpose(x, (1, 0, 2))
    if len(b.shape(x)) != 3:
        raise b.wrong(f"an input of shape {b.shape(x)}, expected (sequence, batch, features)")
    steps, batch, _ = b.shape(x)
    hidden = node.integer("hidden_size", b.shape(inputs.required(2, "R"))[-1])
    directions = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}
    order = directions.get(node.text("direction", "forward"))
    if order is None or b.shape(inputs.required(1, "W"))[0] != len(order):
        raise b.wrong(f"weights of shape {b.shape(inputs.required(1, 'W'))} for direction {node.text('direction')!r}")
    functions = _functions(b, node, len(order))
    lengths = _lengths(b, inputs, steps, batch)
    count = b.length_along(x, 0)
    if count is not None:  # of all sequences, unless they have lengths of their own
        others = [each for each in b.lengths[x] if each.axis]
        x = b.with_all(x, b.shape(x))
        b.give_lengths(x, others)
        lengths = lengths or b.elementwise(("cast", "int32", 0), count, shape=(batch,))
    made = [
        _direction(b, node, inputs, x, number, hidden, functions[number], lengths, reverse=reverse)
        for number, reverse in enumerate(order)
    ]
    rows, *states = zip(*made, strict=True)
    rows = tuple(with_lengths(b, each, 0, Extent(steps, count)) for each in rows)
    y = _joined(b, rows, (steps, 1, batch, hidden), 1)
    ends = [_joined(b, each, (1, batch, hidden), 0) for each in states]
    if node.flag("layout"):
        y = b.transpose(y, (2, 0, 1, 3))
        ends = [b.transpose(each, (1, 0, 2)) for each in ends]
    return [y, *ends][: len(node.outputs)]


def _direction(
    b: NetworkBuilder,
    node: ModelNode,
    inputs: Inputs,
    x: str,
    number: int,
    hidden: int,
    functions: tuple[Activation, ...],
    lengths: str | None,
    *,
    reverse: bool,
) -> list[str]:
    """Return the states after all steps of one direction, the last state, and of an LSTM the last cell."""
    steps, batch, _ = b.shape(x)
    is_lstm = node.operator == "LSTM"
    cell = "gru_linear" if node.operator == "GRU" and node.integer("linear_before_reset") else node.operator.lower()
    weights = _weights(b, node, inputs, number, cell, hidden)
    states = [_state(b, node, inputs, position, number) for position in ((5, 6) if is_lstm else (5,))]
    if any(states) or not steps:
        states = [each or _zeros(b, x, (batch, hidden), 0) for each in states]
    if not steps:
        return [_zeros(b, x, (0, batch, hidden), 1), *filter(None, states)]
    given = inputs.optional(7) if is_lstm else None
    peepholes = None if given is None else _in_order(b, _part(b, given, number), hidden, _PEEPHOLES)
    made = b.emit_all(
        "recurrent",
        [x, *weights, states[0], states[1] if is_lstm else None, lengths, peepholes],
        cell=cell,
        activations=functions,
        reverse=reverse,
        coupled=is_lstm and node.flag("input_forget"),
    )
    return [name for name in made[: 3 if is_lstm else 2] if name is not None]


def _zeros(b: NetworkBuilder, x: str, shape: tuple[int, ...], axis: int) -> str:
    """Return zeros that are along an axis as many as the sequences."""
    count = b.length_along(x, 1)
    return with_lengths(b, b.filled(shape, b.dtype(x), folded=count is None), axis, Extent(b.shape(x)[1], count))


def _lengths(b: NetworkBuilder, inputs: Inputs, steps: int, batch: int) -> str | None:
    """Return the sequence lengths; None if all have the full length."""
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
    return lengths


def _functions(b: NetworkBuilder, node: ModelNode, directions: int) -> list[tuple[Activation, ...]]:
    """Return the activations of each direction; those with parameters take the next alpha and beta."""
    count = len(_DEFAULTS[node.operator])
    names = node.attributes.get("activations") or _DEFAULTS[node.operator] * directions
    if len(names) != count * directions:
        raise b.wrong(f"{len(names)} activations, expected {count * directions}")
    bound = node.number("clip", 0.0) if "clip" in node.attributes else None
    if bound is not None and not bound > 0:
        raise b.wrong(f"clip={bound:g} bounds nothing, expected more than 0")
    given = [iter(node.attributes.get(f"activation_{each}") or ()) for each in ("alpha", "beta")]
    found: list[Activation] = []
    for place, name in enumerate(names):
        if name not in _FUNCTIONS:
            raise b.wrong(f"there is no activation {name!r}", hint=f"Those of ONNX are {', '.join(_FUNCTIONS)}")
        steps, usual = _FUNCTIONS[name]
        pairs = zip(("alpha", "beta"), given, usual, strict=False)
        numbers = {each: float(next(values, default)) for each, values, default in pairs}
        made = tuple((step, *(numbers[each] for each in parameters)) for step, parameters in steps)
        # The bound applies to the gates' sums, not to the cell of an LSTM, as in ONNX Runtime.
        bounded = bound is not None and place % count < 2
        found.append((("clip", -bound, bound), *made) if bounded and bound is not None else made)
    return [tuple(found[i * count : (i + 1) * count]) for i in range(directions)]


def _part(b: NetworkBuilder, x: str, number: int) -> str:
    """Return one slice along the first axis, without that axis."""
    shape = b.shape(x)
    if number >= shape[0]:
        raise b.wrong(f"{shape} has no part {number}")
    return b.without_axis(b.part(x, 0, number, 1), 0)


def _in_order(b: NetworkBuilder, x: str, width: int, places: Sequence[int]) -> str:
    """Return ranges of the first axis, of equal width, in the order of their places."""
    shape, count = b.shape(x), len(places)
    if [*places] == [*range(count)]:
        return x
    ranges = b.reshape(x, (count, width, *shape[1:]))
    return b.reshape(b.gather(ranges, b.constant(np.array(places, np.int64))), shape)


def _weights(b: NetworkBuilder, node: ModelNode, inputs: Inputs, number: int, cell: str, hidden: int) -> list[str]:
    """Return the weights of one direction, in the order of gates of `syclsched.kernels.nn.recurrence.recurrent`."""
    order = _ORDERS[cell]
    columns = len(order) * hidden
    w, r = (_part(b, inputs.required(i, name), number) for i, name in ((1, "W"), (2, "R")))
    if b.shape(r) != (columns, hidden) or b.shape(w)[0] != columns:
        raise b.wrong(f"weights {b.shape(w)} and {b.shape(r)} for {len(order)} gates of {hidden}")
    # Ordered before they are transposed: of their gradients, the transpositions cancel out.
    found = [b.transpose(_in_order(b, each, hidden, order), (1, 0)) for each in (w, r)]
    given = inputs.optional(3)
    if given is None:
        biases = columns + hidden * (cell == "gru_linear")
        return [*found, b.filled((biases,), b.dtype(w), 0.0)]
    bias = _part(b, given, number)
    of_inputs, of_state = (b.part(bias, -1, start, columns) for start in (0, columns))
    if cell == "gru_linear":
        gates = b.elementwise(("add", 0, 1), *(b.part(each, -1, 0, 2 * hidden) for each in (of_inputs, of_state)))
        candidate = [b.part(each, -1, 2 * hidden, hidden) for each in (of_inputs, of_state)]
        return [*found, b.concat([gates, *candidate], 0)]
    return [*found, _in_order(b, b.elementwise(("add", 0, 1), of_inputs, of_state), hidden, order)]


def _state(b: NetworkBuilder, node: ModelNode, inputs: Inputs, position: int, number: int) -> str | None:
    name = inputs.optional(position)
    if name is None:
        return None
    return _part(b, b.transpose(name, (1, 0, 2)) if node.flag("layout") else name, number)


def _joined(b: NetworkBuilder, parts: Sequence[str], shape: tuple[int, ...], axis: int) -> str:
    made = [b.reshape(part, shape) for part in parts]
    return b.concat(made, axis) if len(made) > 1 else made[0]
