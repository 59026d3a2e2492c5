# SPDX-License-Identifier: Apache-2.0
"""`recurrent_gradient`: the sequential part of backpropagation through time, of one direction of a recurrent layer.

Once the states are known, the gradients are a linear recurrence (Werbos, 1990), whose coefficients are computed for all
steps at once before, and the gradients of weights and inputs after it. So it knows no activations. With G for gradients
of the result, from the last state to the first:

========== ==========================================================================================================
all        s = G(h) + dy: the gradient of a state; the previous state's is ``keep * s`` (0 without ``keep``) and the
           products of d, the gradients of the gates' sums, with the recurrent weights
rnn        d = k0 * s
lstm       c = G(c) + through * s: the gradient of a cell; the previous cell's is ``forget * c``; d of input, forget and
           candidate is k0 to k2 times c, of output k3 * s
gru        d of update and candidate is k0 * s and k2 * s; p is the product of the latter with its weights; d of reset
           is k1 * p; the previous state's gradient has ``reset * p``, too
gru_linear dx = k * s for all gates are the gradients of their input parts; d is dx, that of the candidate times
           ``reset``
========== ==========================================================================================================
"""

from __future__ import annotations

from functools import cache, partial
from typing import Any

from syclsched.kernels.common import ITEM_BYTES, REAL_DTYPES, numpy_implementation
from syclsched.kernels.nn.recurrence import gradient_groups, gradient_vectors
from syclsched.kernels.nn.recurrence.gradient_steps import WRITTEN, host
from syclsched.kernels.nn.recurrence.recurrent import CELLS
from syclsched.model.access import AccessMode
from syclsched.model.operation import Operation, Parameter, Signature, Work


@cache
def recurrent_gradient(cell: str, *, reverse: bool = False, keep: bool = False) -> Operation:
    """Return the operation that computes gradients from the last step of a layer to its first.

    Parameters
    ----------
    cell : str
        As for `syclsched.kernels.nn.recurrence.recurrent`.
    reverse : bool, optional
        The layer goes from the last step to the first.
    keep : bool, optional
        Also of ``rnn`` and ``lstm`` with ``keep``, for sequences of different lengths.

    Returns
    -------
    Operation
        Parameters ``d`` (steps, batch, gates * hidden), of ``gru_linear`` also ``dx`` like it; ``dh0``, of an LSTM also
        ``dc0`` (batch, hidden): gradients of the first state; ``dy`` (steps, batch, hidden); ``k0`` and so on, of each
        gate, like it; ``r`` (gates * hidden, hidden), the transpose of the layer's; ``dh``, of an LSTM also ``dc``
        (batch, hidden): gradients of the last state; ``keep``; of an LSTM ``through``, ``forget``; of GRUs ``reset``:
        like dy.
    """
    is_lstm, keeps = cell == "lstm", keep or cell.startswith("gru")
    names = [
        *("d", *(["dx"] if cell == "gru_linear" else []), "dh0", *(["dc0"] if is_lstm else [])),
        *("dy", *(f"k{gate}" for gate in range(CELLS[cell][0])), "r", "dh", *(["dc"] if is_lstm else [])),
        *(["keep"] if keeps else []),
        *(["through", "forget"] if is_lstm else ["reset"] if cell != "rnn" else []),
    ]
    parameters = (
        Parameter("d", AccessMode.WRITE, dtypes=REAL_DTYPES),
        *(Parameter(name, AccessMode.WRITE if name in WRITTEN else AccessMode.READ, like="d") for name in names[1:]),
    )
    known: dict[str, Any] = {"parameters": tuple(names), "cell": cell, "reverse": reverse}
    return Operation(
        name=f"{cell} gradient{' reverse' if reverse else ''}{' keep' if keep else ''}",
        parameters=parameters,
        implementations=(
            gradient_vectors.recurrent_gradient(**known),
            gradient_groups.recurrent_gradient(**known),
            numpy_implementation(partial(host, cell=cell, reverse=reverse), efficiency=0.1),
        ),
        work=_work,
        check=partial(_check, gates=CELLS[cell][0]),
    )


def _check(signature: Signature, *, gates: int) -> str | None:
    shapes = signature.shapes
    if len(shapes["dy"]) != 3:
        return f"dy {shapes['dy']} has steps, batch and hidden units"
    steps, batch, hidden = shapes["dy"]
    wide = (steps, batch, gates * hidden)
    wanted = {"d": wide, "dx": wide, "r": (gates * hidden, hidden)}
    wanted |= dict.fromkeys(("dh", "dc", "dh0", "dc0"), (batch, hidden))
    for name, shape in shapes.items():
        if shape != wanted.get(name, shapes["dy"]):
            return f"{name} is {wanted.get(name, shapes['dy'])}, not {shape}"
    return None


def _work(signature: Signature) -> Work:
    steps, batch, hidden = signature.shapes["dy"]
    columns, dtype = signature.shapes["r"][0], signature.dtypes["d"]
    flops = steps * batch * columns * (2.0 * hidden + 2.0)
    moved = ITEM_BYTES[dtype] * (steps * batch * (2 * columns + 3 * hidden) + columns * hidden)
    return Work(flops, float(moved), dtype, float(max(1, batch * hidden)))
