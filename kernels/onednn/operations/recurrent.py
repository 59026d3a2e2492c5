# SPDX-License-Identifier: Apache-2.0
"""oneDNN recurrent layers: RNN, LSTM and GRU in one direction."""

from __future__ import annotations

from functools import partial
from math import prod
from typing import Final

from syclsched.kernels.common import ITEM_BYTES, Activation
from syclsched.kernels.onednn import c_api
from syclsched.kernels.onednn.primitive_spec import PrimitiveSpec, implementation, refuse
from syclsched.kernels.onednn.requests import PrimitiveArgument, PrimitiveRequest
from syclsched.kernels.onednn.tensors import Shape, Tensor, plain
from syclsched.model.operation import Implementation, Signature

#: Cell -> kind of primitive, and the activations that it has.
_SIGMOID, _TANH = (("sigmoid",),), (("tanh",),)
_KINDS: Final = {
    "lstm": ("lstm", (_SIGMOID, _TANH, _TANH)),
    "gru": ("gru", (_SIGMOID, _TANH)),
    "gru_linear": ("lbr_gru", (_SIGMOID, _TANH)),
}
#: Constant weights of this size stay in the second cache of one core, where our kernels read them.
_SMALL_BYTES: Final = 600_000
#: Activation of an RNN -> oneDNN's.
_RNN: Final[dict[Activation, str]] = {_TANH: "tanh", _SIGMOID: "logistic", (("relu",),): "relu"}
_ARGUMENTS: Final = {
    "x": c_api.SRC,
    "h0": c_api.SRC_1,
    "c0": c_api.SRC_2,
    "w": c_api.WEIGHTS,
    "r": c_api.WEIGHTS_1,
    "b": c_api.BIAS,
    "y": c_api.DST,
    "h": c_api.DST_1,
    "c": c_api.DST_2,
}
_DIRECTIONS: Final = {False: c_api.LEFT_TO_RIGHT, True: c_api.RIGHT_TO_LEFT}


def recurrent(*, cell: str, activations: tuple[Activation, ...], reverse: bool, coupled: bool) -> Implementation:
    """Return oneDNN's recurrent layer; parameters as in `kernels.nn.recurrence.recurrent`."""
    describe = partial(_recurrent, cell=cell, activations=activations, reverse=reverse, coupled=coupled)
    return implementation(describe, efficiency=0.3)


def _recurrent(
    signature: Signature, *, cell: str, activations: tuple[Activation, ...], reverse: bool, coupled: bool
) -> PrimitiveSpec:
    shapes, dtype = signature.shapes, signature.dtypes["y"]
    if {"lengths", "p", "sum0"} & shapes.keys() or coupled:
        raise refuse("no lengths of sequences, peepholes, coupled gates or sums")
    known = {"w", "r"} <= signature.constants
    if known and ITEM_BYTES[dtype] * (prod(shapes["w"]) + prod(shapes["r"])) <= _SMALL_BYTES:
        raise refuse("our kernels are faster with weights that stay in a core's cache")
    settings: tuple[str | int | float, ...] = (_DIRECTIONS[reverse],)
    if cell == "rnn":
        kind = "vanilla_rnn"
        if activations[0] not in _RNN:
            raise refuse(f"the activation of an RNN is one of {', '.join(_RNN.values())}")
        settings = (c_api.ELTWISE[_RNN[activations[0]]], *settings)
    else:
        kind, usual = _KINDS[cell]
        if activations != usual:
            raise refuse("only the usual activations")
    hidden = shapes["r"][0]
    sources = {name: _weights(shapes[name], hidden, dtype) for name in "wr"}
    tensors = {name: each.with_any_layout() if name in signature.constants else each for name, each in sources.items()}
    tensors["b"] = plain((1, 1, shapes["b"][0] // hidden, hidden), dtype)
    for name in shapes:
        if name not in tensors:
            layer = name in "xy"
            tensors[name] = plain(shapes[name] if layer else (1, 1, *shapes[name]), dtype)
    arguments = tuple(PrimitiveArgument(name, _ARGUMENTS[name], tensor) for name, tensor in tensors.items())
    packed = {name: each for name, each in sources.items() if name in signature.constants}
    return PrimitiveSpec(PrimitiveRequest(kind, arguments, settings), packed)


def _weights(shape: Shape, hidden: int, dtype: str) -> Tensor:
    """Return a matrix as (layers, directions, rows, gates, hidden units)."""
    rows, columns = shape
    return plain((1, 1, rows, columns // hidden, hidden), dtype)
