# SPDX-License-Identifier: Apache-2.0
"""`recurrent`: one direction of a recurrent layer over all steps of a sequence.

Cells are ``rnn`` (Elman, 1990), ``lstm`` (Hochreiter and Schmidhuber, 1997, with forget gates and optional peepholes),
``gru`` (Cho et al., 2014) and ``gru_linear``, whose reset gate applies after the matrix product. The columns of weights
and biases are grouped by gate:

========== ================================= ==================================================
cell       gates                             biases
========== ================================= ==================================================
rnn        state                             as the gates
lstm       input, forget, candidate, output  as the gates; peepholes of input, forget, output
gru        update, reset, candidate          as the gates
gru_linear update, reset, candidate          as the gates, then of the candidate's recurrent part
========== ================================= ==================================================

Beyond the length of a sequence its states stay, and the result is 0.
"""

from __future__ import annotations

from functools import cache, partial
from typing import Any, Final

from syclsched.errors import ArgumentError
from syclsched.kernels.common import ITEM_BYTES, Activation, numpy_implementation, with_recipe
from syclsched.kernels.nn import activation as act
from syclsched.kernels.nn.opencl_types import FLOATS, sum_dtype
from syclsched.kernels.nn.recurrence import recurrent_blocks, recurrent_groups, recurrent_vectors
from syclsched.kernels.onednn.operations import recurrent as onednn
from syclsched.model.access import AccessMode
from syclsched.model.operation import Operation, Parameter, Signature, Work

#: Cell -> number of gates, of biases, and of activations.
CELLS: Final = {"rnn": (1, 1, 1), "lstm": (4, 4, 3), "gru": (3, 3, 2), "gru_linear": (3, 4, 2)}


@with_recipe
def recurrent(
    cell: str,
    activations: tuple[Activation, ...],
    *,
    reverse: bool = False,
    coupled: bool = False,
    last: bool = False,
    state: bool = False,
    lengths: bool = False,
    peepholes: bool = False,
    sums: bool = False,
) -> Operation:
    """Return the operation that computes all steps of one direction of a recurrent layer.

    Parameters
    ----------
    cell : str
        ``rnn``, ``gru``, ``gru_linear`` or ``lstm``.
    activations : tuple of Activation
        Of the gates, and then of the candidate; of an LSTM also that of the cell before the output.
    reverse : bool, optional
        From the last step to the first.
    coupled : bool, optional
        The forget gate of an LSTM is 1 less the input gate.
    last : bool, optional
        Also write the last state ``h``, and of an LSTM the last cell ``c``.
    state : bool, optional
        Begin with the state ``h0``, and of an LSTM the cell ``c0``, instead of 0.
    lengths : bool, optional
        Each sequence has a length of its own.
    peepholes : bool, optional
        The gates of an LSTM also depend on its cell.
    sums : bool, optional
        Also write ``sum0`` and so on, the sums that the activations are applied to, without those of peepholes: one for
        each of the biases, of ``gru_linear`` the candidate's input part and then its recurrent part.

    Returns
    -------
    Operation
        Parameters ``y`` (steps, batch, hidden), ``h`` and ``c`` (batch, hidden), ``sum0`` and so on
        (steps, batch, hidden), ``x`` (steps, batch, features), ``w``
        (features, gates * hidden), ``r`` (hidden, gates * hidden), ``b`` (biases * hidden), ``h0``, ``c0``,
        ``lengths`` (batch), ``p`` (3 * hidden); those that are wanted.

    Raises
    ------
    ArgumentError
        If there is no such cell or activation, or the cell has another number of activations.
    """
    if cell not in CELLS:
        raise ArgumentError(f"there is no cell {cell!r}", hint=f"There are: {', '.join(CELLS)}")
    if len(activations) != CELLS[cell][2]:
        raise ArgumentError(f"cell {cell!r} has {CELLS[cell][2]} activations, not {len(activations)}")
    checked = tuple(map(act.checked, activations))
    return _recurrent(cell, checked, reverse, coupled, last, state, lengths, peepholes, sums)


@cache
def _recurrent(
    cell: str,
    activations: tuple[Activation, ...],
    reverse: bool,
    coupled: bool,
    last: bool,
    state: bool,
    lengths: bool,
    peepholes: bool,
    sums: bool,
) -> Operation:
    is_lstm = cell == "lstm"
    attributes: dict[str, Any] = {"cell": cell, "activations": activations, "reverse": reverse, "coupled": coupled}
    written = ["y", *(["h"] if last else []), *(["c"] if last and is_lstm else [])]
    written += sum_names(cell) if sums else []
    read = ["x", "w", "r", "b", *(["h0"] if state else []), *(["c0"] if state and is_lstm else [])]
    parameters = (
        Parameter("y", AccessMode.WRITE, dtypes=FLOATS),
        *(Parameter(name, AccessMode.WRITE, like="y") for name in written[1:]),
        *(Parameter(name, AccessMode.READ, like="y") for name in read),
        *([Parameter("lengths", AccessMode.READ, dtypes=("int32", "int64"))] if lengths else []),
        *([Parameter("p", AccessMode.READ, like="y")] if peepholes else []),
    )
    names = tuple(each.name for each in parameters)
    said = [
        *(act.label(each) for each in activations),
        *(word for word, is_so in (("reverse", reverse), ("coupled", coupled)) if is_so),
        *(each.name for each in parameters if each.name in ("h", "sum0", "h0", "lengths", "p")),
    ]
    return Operation(
        name=f"{cell} {' '.join(said)}",
        parameters=parameters,
        implementations=(
            onednn.recurrent(**attributes),
            recurrent_vectors.recurrent(parameters=names, **attributes),
            recurrent_blocks.recurrent(parameters=names, **attributes),
            recurrent_groups.recurrent(parameters=names, **attributes),
            numpy_implementation(partial(_host, **attributes), efficiency=0.1),
        ),
        work=partial(_work, cell=cell),
        check=partial(_check, cell=cell),
    )


def sum_names(cell: str) -> list[str]:
    """Return the names of the sums of a cell's gates."""
    return [f"sum{number}" for number in range(CELLS[cell][1])]


def _check(signature: Signature, *, cell: str) -> str | None:
    gates, biases, _ = CELLS[cell]
    shapes = signature.shapes
    if len(shapes["x"]) != 3 or len(shapes["w"]) != 2 or len(shapes["r"]) != 2:
        return f"x {shapes['x']} has steps, batch and features, and w {shapes['w']} and r {shapes['r']} are matrices"
    steps, batch, features = shapes["x"]
    hidden = shapes["r"][0]
    states = dict.fromkeys(("h", "c", "h0", "c0"), (batch, hidden))
    wanted = {
        "y": (steps, batch, hidden),
        "w": (features, gates * hidden),
        "r": (hidden, gates * hidden),
        "b": (biases * hidden,),
        "lengths": (batch,),
        "p": (3 * hidden,),
        **states,
        **dict.fromkeys(sum_names(cell), (steps, batch, hidden)),
    }
    for name, shape in shapes.items():
        if shape != wanted.get(name, shape):
            return f"{name} of x {shapes['x']} with {hidden} hidden units is {wanted[name]}, not {shape}"
    return None


def _work(signature: Signature, *, cell: str) -> Work:
    steps, batch, features = signature.shapes["x"]
    hidden, columns = signature.shapes["r"]
    flops = steps * batch * (2.0 * (features + hidden) * columns + 10.0 * columns)
    dtype = signature.dtypes["y"]
    # Weights count once, as if caches held them for all steps.
    moved = ITEM_BYTES[dtype] * (steps * batch * (features + hidden) + (features + hidden) * columns)
    return Work(flops, float(moved), dtype, float(max(1, batch * hidden)))


def _host(
    *, cell: str, activations: tuple[Activation, ...], reverse: bool, coupled: bool, y: Any, **arrays: Any
) -> None:
    import numpy as np

    kind = sum_dtype(str(y.dtype))
    x, w, r, b = (arrays[name].astype(kind, copy=False) for name in "xwrb")
    steps, batch, hidden = y.shape
    first = [arrays.get(name) for name in (("h0", "c0") if cell == "lstm" else ("h0",))]
    states = [np.zeros((batch, hidden), kind) if each is None else each.astype(kind) for each in first]
    peepholes = np.split(arrays["p"].astype(kind, copy=False), 3) if "p" in arrays else []
    functions = [partial(act.numpy, each) for each in activations]
    inputs, lengths = x @ w, arrays.get("lengths")
    written = [arrays[name] for name in sum_names(cell) if name in arrays]
    step = {"rnn": _rnn, "lstm": _lstm, "gru": _gru, "gru_linear": _gru_linear}[cell]
    for at in range(steps)[:: -1 if reverse else 1]:
        sums, new = step(inputs[at], states, r, b, functions, coupled=coupled, peepholes=peepholes)
        for array, value in zip(written, sums, strict=False):
            array[at] = value
        if lengths is None:
            states, y[at] = new, new[0]
            continue
        within = (at < lengths)[:, None]
        states = [np.where(within, now, before) for now, before in zip(new, states, strict=True)]
        y[at] = np.where(within, new[0], 0)
    for name, value in zip("hc", states, strict=False):
        if name in arrays:
            arrays[name][...] = value


def _split(values: Any, count: int) -> list[Any]:
    import numpy as np

    return np.split(values, count, axis=-1)


#: The sums of a step, and its states.
_Made = tuple[list[Any], list[Any]]


def _rnn(x: Any, states: list[Any], r: Any, b: Any, f: list[Any], **_: Any) -> _Made:
    sums = x + states[0] @ r + b
    return [sums], [f[0](sums)]


def _lstm(x: Any, states: list[Any], r: Any, b: Any, f: list[Any], *, coupled: bool, peepholes: list[Any]) -> _Made:
    state, cell = states
    i, kept, candidate, o = sums = _split(x + state @ r + b, 4)
    if peepholes:
        i, kept = i + peepholes[0] * cell, kept + peepholes[1] * cell
    i = f[0](i)
    forget = 1 - i if coupled else f[0](kept)
    cell = forget * cell + i * f[1](candidate)
    if peepholes:
        o = o + peepholes[2] * cell
    return sums, [f[0](o) * f[2](cell), cell]


def _gru(x: Any, states: list[Any], r: Any, b: Any, f: list[Any], **_: Any) -> _Made:
    (state,), hidden = states, states[0].shape[-1]
    both = x[:, : 2 * hidden] + state @ r[:, : 2 * hidden] + b[: 2 * hidden]
    update, reset = _split(f[0](both), 2)
    candidate = x[:, 2 * hidden :] + (reset * state) @ r[:, 2 * hidden :] + b[2 * hidden :]
    return [*_split(both, 2), candidate], [(1 - update) * f[1](candidate) + update * state]


def _gru_linear(x: Any, states: list[Any], r: Any, b: Any, f: list[Any], **_: Any) -> _Made:
    (state,), hidden = states, states[0].shape[-1]
    there = state @ r
    both = x[:, : 2 * hidden] + there[:, : 2 * hidden] + b[: 2 * hidden]
    update, reset = _split(f[0](both), 2)
    parts = [x[:, 2 * hidden :] + b[2 * hidden : 3 * hidden], there[:, 2 * hidden :] + b[3 * hidden :]]
    new = f[1](parts[0] + reset * parts[1])
    return [*_split(both, 2), *parts], [(1 - update) * new + update * state]
