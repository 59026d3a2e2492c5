# SPDX-License-Identifier: Apache-2.0
"""Batched inference of dense layers: H_l = relu(H_(l-1) W_l + b_l), without relu in the last layer.

The batch is split into chunks, so that several devices can share it; all chunks read the same weights.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from syclsched import kernels
from syclsched.errors import ArgumentError, FormatError
from syclsched.model.graph import TaskGraph
from syclsched.workloads.base import (
    Array,
    Arrays,
    CheckResult,
    Workload,
    WorkloadKind,
    allocate,
    blocks,
    check_residual,
    limit_tasks,
    require_array,
    require_count,
    require_dtype,
)
from syclsched.workloads.numpy_files import read_npy, read_npz

NAME = "mlp"

#: Values of the parameter ``activation`` of the operation ``dense``.
_IDENTITY, _RELU = 0, 1

#: Largest accepted error of an element, in multiples of the expected rounding error.
TOLERANCE = 8.0

Layer = tuple[Array, Array]


@dataclass(frozen=True, slots=True)
class MlpOptions:
    """Options of the MLP workload."""

    sizes: tuple[int, ...] = field(
        default=(784, 1024, 1024, 10),
        metadata={"help": "Features of the input and of each layer; with weights, theirs."},
    )
    batch: int = field(default=2048, metadata={"help": "Rows of the random input; with an input, taken from it."})
    chunks: int = field(default=8, metadata={"help": "Parts the batch is cut into."})
    softmax: bool = field(default=False, metadata={"help": "Turn each output row into probabilities."})
    dtype: str = field(default="float32", metadata={"help": "float32 or float64; with weights, theirs."})
    seed: int = field(default=0, metadata={"help": "Seed of random weights and input."})
    weights: Path | None = field(
        default=None, metadata={"help": "A .npz file with W0, b0, W1, b1, ...: W (inputs, outputs), b (outputs,)."}
    )
    input: Path | None = field(default=None, metadata={"help": "A .npy file with one row per sample."})


def build(options: MlpOptions | None = None) -> Workload:
    """Build the workload."""
    options = options or MlpOptions()
    chunks = require_count(options.chunks, "chunks", NAME)
    layers = _random_layers(options) if options.weights is None else _read_layers(options.weights)
    batch = _batch(options, layers)
    if chunks > len(batch):
        raise ArgumentError(f"cannot cut {len(batch)} rows into {chunks} chunks", where=f"{NAME}: chunks")
    cuts = blocks(len(batch), -(-len(batch) // chunks))
    limit_tasks(len(cuts) * (len(layers) + 1), NAME, "Take fewer chunks")
    graph = TaskGraph(NAME)
    weights = [(graph.array(f"W{n}", data=w), graph.array(f"b{n}", data=b)) for n, (w, b) in enumerate(layers)]
    for chunk, rows in enumerate(cuts):
        hidden = graph.array(f"X[{chunk}]", data=np.ascontiguousarray(batch[rows]))
        for number, (w, b) in enumerate(weights):
            last = number == len(weights) - 1
            name = f"H{number}[{chunk}]" if not last or options.softmax else f"Y[{chunk}]"
            out = graph.array(name, (hidden.shape[0], w.shape[1]), hidden.dtype, temporary=name.startswith("H"))
            activation = _IDENTITY if last else _RELU
            graph.kernel(
                kernels.get("dense"), name=f"dense({number},{chunk})", y=out, x=hidden, w=w, b=b, activation=activation
            )  # fmt: skip
            hidden = out
        if options.softmax:
            out = graph.array(f"Y[{chunk}]", hidden.shape, hidden.dtype)
            graph.kernel(kernels.get("softmax"), name=f"softmax({chunk})", y=out, x=hidden)
    results = tuple(f"Y[{chunk}]" for chunk in range(len(cuts)))
    return Workload(NAME, graph, results, partial(_check, layers, batch, cuts, options.softmax))


def _random_layers(options: MlpOptions) -> list[Layer]:
    """Return random layers with the initialisation of He et al. (2015) for relu."""
    if len(options.sizes) < 2:
        raise ArgumentError("needs the features of the input and of at least one layer", where=f"{NAME}: sizes")
    sizes = [require_count(size, "sizes", NAME) for size in options.sizes]
    dtype = require_dtype(options.dtype, NAME)
    rng = np.random.default_rng(options.seed)
    layers = []
    for inputs, outputs in pairwise(sizes):
        w = allocate(partial(_normal, rng, (inputs, outputs)), NAME) * np.sqrt(2 / inputs)
        layers.append((w.astype(dtype), (0.1 * rng.standard_normal(outputs)).astype(dtype)))
    return layers


def _normal(rng: np.random.Generator, shape: tuple[int, int]) -> Array:
    return rng.standard_normal(shape)


def _read_layers(path: Path) -> list[Layer]:
    """Read W0, b0, W1, b1, ... from a .npz file and check that the layers match."""
    arrays, where = read_npz(path), str(path)
    count = len(arrays) // 2
    expected = [f"{kind}{n}" for n in range(count) for kind in ("W", "b")]
    if not count or arrays.keys() != set(expected):
        listed = ", ".join(sorted(arrays)[:8]) or "nothing"
        raise FormatError(f"expected the keys W0, b0, W1, b1, ..., found {listed}", where=where)
    dtype = arrays["W0"].dtype
    for key in expected:
        if arrays[key].dtype != dtype:
            raise FormatError(
                f"expected {dtype.name} as in W0, found {arrays[key].dtype.name}", where=f"{where}, {key}"
            )
    layers = [(arrays[f"W{n}"], arrays[f"b{n}"]) for n in range(count)]
    for n, (w, b) in enumerate(layers):
        inputs = layers[n - 1][1].shape[0] if n else None
        _check_layer(w, b, inputs, where, n)
    return layers


def _check_layer(w: Array, b: Array, inputs: int | None, where: str, n: int) -> None:
    if w.ndim != 2 or w.size == 0:
        raise FormatError(f"expected a matrix (inputs, outputs), found shape {w.shape}", where=f"{where}, W{n}")
    if inputs is not None and w.shape[0] != inputs:
        raise FormatError(
            f"expected {inputs} rows, one per output of layer {n - 1}, found {w.shape[0]}", where=f"{where}, W{n}"
        )
    if b.shape != (w.shape[1],):
        raise FormatError(
            f"expected shape ({w.shape[1]},), as W{n} has outputs, found {b.shape}", where=f"{where}, b{n}"
        )


def _batch(options: MlpOptions, layers: Sequence[Layer]) -> Array:
    features, dtype = layers[0][0].shape[0], layers[0][0].dtype
    if options.input is None:
        rows = require_count(options.batch, "batch", NAME)
        rng = np.random.default_rng([options.seed, 1])
        return allocate(lambda: rng.standard_normal((rows, features)).astype(dtype), NAME)
    batch, where = read_npy(options.input), str(options.input)
    if batch.ndim != 2 or batch.shape[1] != features or batch.size == 0:
        raise FormatError(f"expected shape (samples, {features}), found {batch.shape}", where=where)
    if batch.dtype != dtype:
        raise FormatError(
            f"expected {dtype.name} as the weights are, found {batch.dtype.name}", where=where, hint="Use astype"
        )
    return batch


def reference(layers: Sequence[Layer], batch: Array, softmax: bool) -> tuple[Array, Array]:
    """Return the output in float64, and the expected rounding error in the layers' dtype.

    Rounding errors behave as if independent, so the error of a dot product of length k plus a bias is about
    sqrt(k + 2) eps (|x| |W| + |b|) for any order of summation (Higham and Mary, "A new approach to probabilistic
    rounding error analysis", SIAM J. Sci. Comput. 41, 2019). Previous errors propagate through W in quadrature, and
    relu does not increase them. The worst-case bound would be hundreds of times larger and hide real mistakes.
    """
    eps = float(np.finfo(batch.dtype).eps)
    value, error = batch.astype("float64"), np.zeros(batch.shape)
    for number, (w, b) in enumerate(layers):
        weight, bias = w.astype("float64"), b.astype("float64")
        rounding = np.sqrt(len(w) + 2) * eps * (np.abs(value) @ np.abs(weight) + np.abs(bias))
        error = np.hypot(np.sqrt(error**2 @ weight**2), rounding)
        value = value @ weight + bias
        if number < len(layers) - 1:
            value = np.maximum(value, 0)
    if softmax:
        value = np.exp(value - value.max(axis=1, keepdims=True))
        value /= value.sum(axis=1, keepdims=True)
        # d p_i = p_i (d x_i - sum_j p_j d x_j): the relative error is at most twice the largest error of the row, plus
        # the rounding of a subtraction, an exponential, a sum and a division, plus underflow.
        relative = 2 * error.max(axis=1, keepdims=True) + (np.sqrt(value.shape[1]) + 4) * eps
        error = value * relative + float(np.finfo(batch.dtype).tiny)
    return value, error


def _check(
    layers: Sequence[Layer], batch: Array, cuts: Sequence[slice], softmax: bool, arrays: Arrays | Mapping[str, Any]
) -> CheckResult:
    value, expected = reference(layers, batch, softmax)
    worst = 0.0
    for chunk, rows in enumerate(cuts):
        got = require_array(arrays, f"Y[{chunk}]", value[rows].shape, batch.dtype)
        error = np.abs(got - value[rows])
        # An error of 0 is correct even where the expected error is 0.
        ratio = np.divide(error, expected[rows], out=np.where(error == 0, 0.0, np.inf), where=expected[rows] > 0)
        worst = float(np.maximum(worst, ratio.max()))
    return check_residual(worst, TOLERANCE, "largest |Y - Y_NumPy| / expected rounding error")


KIND = WorkloadKind(NAME, "Batched inference through dense layers.", MlpOptions, build)
