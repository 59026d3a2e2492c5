# SPDX-License-Identifier: Apache-2.0
"""Random recurrent layers, and their results by the formulas: sequence by sequence, step by step, gate by gate."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

from support.operations import numbers, unwritten
from syclsched.kernels import nn
from syclsched.kernels.nn.recurrence.recurrent import CELLS, sum_names
from syclsched.model.operation import Operation

SIGMOID, TANH, RELU = (("sigmoid",),), (("tanh",),), (("clip", -0.5, 0.5), ("relu",))
FUNCTIONS = {
    SIGMOID: lambda v: 1 / (1 + np.exp(-v)),
    TANH: np.tanh,
    RELU: lambda v: np.maximum(np.clip(v, -0.5, 0.5), 0),
}
Case = tuple[Operation, dict[str, np.ndarray], dict[str, np.ndarray]]


def reference(cell: str, f: Any, at: dict[str, Any], arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the results, computed sequence by sequence, step by step and gate by gate."""
    a = {name: each.astype("float64") for name, each in arrays.items()}
    steps, batch, hidden = a["y"].shape
    gates, _, _ = CELLS[cell]
    sums = {name: np.zeros((steps, batch, hidden)) for name in sum_names(cell)}
    y, last = np.zeros((steps, batch, hidden)), {"h": np.zeros((batch, hidden)), "c": np.zeros((batch, hidden))}

    def part(values: np.ndarray, gate: int) -> np.ndarray:
        return values[..., gate * hidden : (gate + 1) * hidden]

    for row in range(batch):
        h = a["h0"][row] if "h0" in a else np.zeros(hidden)
        c = a["c0"][row] if "c0" in a else np.zeros(hidden)
        for t in range(steps)[:: -1 if at["reverse"] else 1]:
            x = [a["x"][t, row] @ part(a["w"], g) + part(a["b"], g) for g in range(gates)]
            r = [h @ part(a["r"], g) for g in range(gates)]
            parts = [each + other for each, other in zip(x, r, strict=True)]
            if cell == "gru":
                parts[2] = x[2] + (f[0](parts[1]) * h) @ part(a["r"], 2)
            if cell == "gru_linear":
                parts[2:] = [x[2], r[2] + part(a["b"], 3)]
            for each, value in zip(sums.values(), parts, strict=True):
                each[t, row] = value
            if "lengths" in a and t >= a["lengths"][row]:
                continue
            if cell == "rnn":
                h = f[0](x[0] + r[0])
            elif cell == "lstm":
                peep = [part(a["p"], g) for g in range(3)] if "p" in a else [0, 0, 0]
                i = f[0](x[0] + r[0] + peep[0] * c)
                forget = 1 - i if at["coupled"] else f[0](x[1] + r[1] + peep[1] * c)
                c = forget * c + i * f[1](x[2] + r[2])
                h = f[0](x[3] + r[3] + peep[2] * c) * f[2](c)
            else:
                update, reset = f[0](x[0] + r[0]), f[0](x[1] + r[1])
                if cell == "gru":
                    candidate = f[1](x[2] + (reset * h) @ part(a["r"], 2))
                else:
                    candidate = f[1](x[2] + reset * (r[2] + part(a["b"], 3)))
                h = (1 - update) * candidate + update * h
            y[t, row] = h
        last["h"][row], last["c"][row] = h, c
    return {"y": y, **{name: each for name, each in (last | sums).items() if name in arrays}}


@st.composite
def layers(
    draw: st.DrawFn, plain: bool = False, usual: bool = False, peepholes: bool = True, lengths: bool = False
) -> Case:
    """Draw a recurrent layer.

    A plain one has no peepholes, coupled gates or sums, and no lengths without ``lengths``; a usual one ONNX's
    activations.
    """
    cell, dtype = draw(st.sampled_from([*CELLS])), draw(st.sampled_from(["float32", *([] if usual else ["float64"])]))
    steps, batch = draw(st.integers(1, 20)), draw(st.integers(1, 7))
    features, hidden = draw(st.sampled_from([1, 3, 16, 21])), draw(st.sampled_from([1, 5, 8, 16, 20, 33]))
    gates, biases, functions = CELLS[cell]
    default = (TANH,) if cell == "rnn" else (SIGMOID, TANH, TANH)[:functions]
    activations = default if usual else draw(st.sampled_from([default, (RELU, TANH, RELU)[:functions]]))
    at: dict[str, Any] = {name: draw(st.booleans()) for name in ("reverse", "last", "state")}
    at |= {
        "coupled": not plain and cell == "lstm" and draw(st.booleans()),
        "peepholes": peepholes and not plain and cell == "lstm" and draw(st.booleans()),
        "lengths": (lengths or not plain) and draw(st.booleans()),
        "sums": not plain and draw(st.booleans()),
    }
    shapes = {
        "y": (steps, batch, hidden),
        **(dict.fromkeys(("h", "c"), (batch, hidden)) if at["last"] else {}),
        **(dict.fromkeys(sum_names(cell), (steps, batch, hidden)) if at["sums"] else {}),
        "x": (steps, batch, features),
        "w": (features, gates * hidden),
        "r": (hidden, gates * hidden),
        "b": (biases * hidden,),
        **(dict.fromkeys(("h0", "c0"), (batch, hidden)) if at["state"] else {}),
        **({"p": (3 * hidden,)} if at["peepholes"] else {}),
    }
    if cell != "lstm":
        shapes = {name: each for name, each in shapes.items() if name not in ("c", "c0")}
    arrays = {
        name: unwritten(each, dtype)
        if name in ("y", "h", "c", *sum_names(cell))
        else numbers(*each, dtype=dtype, seed=seed) / 2
        for seed, (name, each) in enumerate(shapes.items())
    }
    if at["lengths"]:
        ends = draw(st.lists(st.integers(0, steps), min_size=batch, max_size=batch))
        arrays["lengths"] = np.array(ends, draw(st.sampled_from(["int32", "int64"])))
    wanted = reference(cell, [FUNCTIONS[each] for each in activations], at, arrays)
    return nn.recurrent(cell, activations, **at), arrays, wanted
