# SPDX-License-Identifier: Apache-2.0
"""Class probabilities of support vector machines, coupled from the scores of pairs of classes."""

from __future__ import annotations

from functools import cache

import numpy as np

from syclsched.frontends.onnx.importing.import_state import Array
from syclsched.frontends.onnx.importing.network_builder import NetworkBuilder
from syclsched.kernels.common import numpy_implementation
from syclsched.model.access import AccessMode
from syclsched.model.operation import Operation, Parameter, Signature, Work


def pair_probabilities(b: NetworkBuilder, scores: str, a: Array, offset: Array, classes: int) -> str:
    """Return a row of class probabilities for each row of scores of all pairs of classes, on the host."""
    made = ((b.shape(scores)[0], classes), "float32")
    (name,) = b.emit_all(
        "operation",
        [scores, b.constant(a), b.constant(offset)],
        made=(made,),
        operation=_operation(),
        scalars=(),
        results=(made,),
    )
    assert name is not None
    return name


@cache
def _operation() -> Operation:
    return Operation(
        name="pair probabilities",
        parameters=(
            Parameter("y", AccessMode.WRITE, dtypes=("float32",)),
            *(Parameter(name, AccessMode.READ, dtypes=("float32",)) for name in ("x", "a", "b")),
        ),
        implementations=(numpy_implementation(_host, efficiency=0.02),),
        work=_work,
    )


def _work(signature: Signature) -> Work:
    rows, classes = signature.shapes["y"]
    return Work(40.0 * rows * classes**2, float(signature.nbytes), parallelism=float(max(1, rows)))


def _host(y: Array, x: Array, a: Array, b: Array) -> None:
    """Couple the probabilities of pairs by libsvm's iteration, in the single precision of ONNX Runtime.

    It is method 2 of Wu, Lin and Weng, "Probability Estimates for Multi-class Classification by Pairwise Coupling",
    2004. Each row ends with the iteration in which its error is below a limit.
    """
    count = y.shape[1]
    value, one = x * a + b, np.float32(1)
    with np.errstate(all="ignore"):
        larger = one / (one + np.exp(-np.abs(value)))
        wins = np.clip(np.where(value < 0, larger, one - larger), np.float32(1e-7), one - np.float32(1e-7))
        pairs = np.zeros((len(y), count, count), np.float32)
        first, second = np.triu_indices(count, 1)
        pairs[:, first, second], pairs[:, second, first] = wins, one - wins
        q = -pairs.swapaxes(1, 2) * pairs
        q[:, range(count), range(count)] = (pairs**2).sum(axis=1)
        y[...] = one / count
        left = np.arange(len(y))
        for _ in range(100):
            slope = np.einsum("rij,rj->ri", q[left], y[left])
            total = (y[left] * slope).sum(axis=1)
            is_left = np.abs(slope - total[:, None]).max(axis=1, initial=0) >= np.float32(0.005) / count
            left, slope, total = left[is_left], slope[is_left], total[is_left]
            if not left.size:
                break
            y[left] = _improved(q[left], y[left], slope, total)


def _improved(q: Array, p: Array, slope: Array, total: Array) -> Array:
    """Return probabilities after one step for each class."""
    for t in range(p.shape[1]):
        step = (total - slope[:, t]) / q[:, t, t]
        p[:, t] += step
        total = (total + step * (step * q[:, t, t] + 2 * slope[:, t])) / (1 + step) ** 2
        slope = (slope + step[:, None] * q[:, t]) / (1 + step)[:, None]
        p /= (1 + step)[:, None]
    return p
