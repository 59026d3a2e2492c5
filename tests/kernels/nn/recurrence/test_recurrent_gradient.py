# SPDX-License-Identifier: Apache-2.0
"""The recurrences of gradients, every implementation, compared with the host's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.operations import close, described, numbers, unwritten

from syclsched.kernels.nn.recurrence.gradient_steps import WRITTEN
from syclsched.kernels.nn.recurrence.linear_recurrence import linear_recurrence
from syclsched.kernels.nn.recurrence.recurrent import CELLS
from syclsched.kernels.nn.recurrence.recurrent_gradient import recurrent_gradient
from syclsched.model.operation import Operation

#: Steps, batch and hidden units: remainders of blocks of sequences and of vectors, and several blocks.
SIZES = [(5, 1, 1), (4, 3, 5), (6, 13, 20), (3, 18, 128), (2, 2, 300)]


def given(operation: Operation, steps: int, batch: int, hidden: int, dtype: str) -> dict[str, np.ndarray]:
    """Return the arrays of a call."""
    gates = sum(each.name in ("k0", "k1", "k2", "k3") for each in operation.parameters)
    shapes = {"d": (steps, batch, gates * hidden), "r": (gates * hidden, hidden)}
    shapes["dx"] = shapes["d"]
    shapes |= dict.fromkeys(("dh", "dc", "dh0", "dc0"), (batch, hidden))
    made = {}
    for seed, each in enumerate(operation.parameters):
        shape = shapes.get(each.name, (steps, batch, hidden))
        made[each.name] = unwritten(shape, dtype) if each.name in WRITTEN else numbers(*shape, dtype=dtype, seed=seed)
    made["r"] /= np.sqrt(gates * hidden, dtype=dtype)
    return made


@pytest.mark.sycl
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("cell", [*CELLS])
def test_gradients_of_states(run: Any, cell: str, reverse: bool, dtype: str, size: tuple[int, int, int]) -> None:
    operation = recurrent_gradient(cell, reverse=reverse, keep=reverse)
    arrays = given(operation, *size, dtype)
    wanted = {each: array.copy() for each, array in arrays.items()}
    operation.implementation("numpy").load(described(operation, wanted))(**wanted)
    for name in ("opencl-c-groups", "opencl-c"):
        found = run(operation, name, arrays)
        for each in WRITTEN:
            if each in arrays:
                close(found[each], wanted[each], dtype, 10)


@pytest.mark.sycl
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("shape", [(4, 3, 5), (6, 8, 64), (3,)])
def test_linear_recurrences(run: Any, shape: tuple[int, ...], reverse: bool, dtype: str) -> None:
    operation = linear_recurrence(reverse)
    arrays = {
        "y": unwritten(shape, dtype),
        **{each: numbers(*shape, dtype=dtype, seed=i) for i, each in enumerate("ab")},
    }
    arrays["start"] = numbers(*shape[1:], dtype=dtype, seed=5)
    state, wanted = arrays["start"].astype("float64"), np.empty(shape)
    for at in range(shape[0])[:: -1 if reverse else 1]:
        wanted[at] = state
        state = arrays["a"][at] * state + arrays["b"][at]
    for each in operation.implementations:
        if each.kind == "host":
            made = {name: array.copy() for name, array in arrays.items()}
            each.load(described(operation, made))(**made)
            close(made["y"], wanted, dtype, 10)
        else:
            close(run(operation, each.name, arrays)["y"], wanted, dtype, 10)


def test_wrong_shapes_are_refused() -> None:
    operation = recurrent_gradient("lstm")
    arrays = given(operation, 3, 2, 4, "float32")
    for name, shape in (("r", (4, 16)), ("k1", (3, 2, 16)), ("dc", (3, 2, 4)), ("d", (3, 2, 4)), ("dy", (2, 4))):
        with pytest.raises(AssertionError, match=r"is|has"):
            described(operation, {**arrays, name: np.zeros(shape, "float32")})
    with pytest.raises(AssertionError, match="start is"):
        described(linear_recurrence(), {name: np.zeros((3, 2)) for name in ("y", "a", "b", "start")})
