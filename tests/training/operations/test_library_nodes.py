# SPDX-License-Identifier: Apache-2.0
"""Gradients of the library's operations in task graphs, compared with central differences in double precision."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.training_steps import check_graph

import syclsched
from syclsched.kernels import get
from syclsched.kernels.nn.attention.rotary import rotary
from syclsched.kernels.nn.convolution.conv import conv
from syclsched.kernels.nn.convolution.conv_transpose import conv_transpose
from syclsched.kernels.nn.join import join
from syclsched.kernels.nn.normalisation.batch_norm import batch_norm
from syclsched.kernels.nn.normalisation.group_norm import group_norm
from syclsched.kernels.nn.normalisation.layer_norm import layer_norm
from syclsched.kernels.nn.normalisation.lrn import lrn
from syclsched.kernels.nn.normalisation.softmax_over import softmax_over
from syclsched.kernels.nn.pooling.pool import pool
from syclsched.kernels.nn.pooling.resize import resize
from syclsched.kernels.nn.product.matmul import matmul
from syclsched.kernels.nn.recurrence.recurrent import recurrent
from syclsched.kernels.tensor.concat import concat
from syclsched.kernels.tensor.elementwise import elementwise
from syclsched.kernels.tensor.gather import gather, gather_elements, gather_nd
from syclsched.kernels.tensor.pad import pad
from syclsched.kernels.tensor.reductions.reduce import reduce
from syclsched.kernels.tensor.reductions.reduce_whole import reduce_whole
from syclsched.kernels.tensor.reductions.scan import scan_sum
from syclsched.kernels.tensor.reductions.scan_parts import scan_in_parts
from syclsched.kernels.tensor.reductions.topk import topk
from syclsched.kernels.tensor.scatter import scatter_elements, scatter_nd
from syclsched.kernels.tensor.strided_slice import slice_of
from syclsched.kernels.tensor.transpose import transpose
from syclsched.kernels.tensor.update import update
from syclsched.model.access import AccessMode
from syclsched.model.operation import Operation


def numbers(*shape: int, seed: int = 0, low: float | None = None) -> Any:
    random = np.random.default_rng(seed)
    return random.standard_normal(shape) if low is None else low + random.random(shape)


def check(operation: Operation, given: dict[str, Any], made: tuple[int, ...], **scalars: Any) -> None:
    """Check the gradients of all floating-point arrays that an operation reads or updates."""
    graph = syclsched.TaskGraph(operation.name)
    if operation.variant is not None:
        operation = operation.variant(scalars)
    arguments: dict[str, Any] = {}
    output = ""
    for each in operation.arrays:
        data = given.get(each.name)
        if each.mode is AccessMode.READ:
            arguments[each.name] = graph.array(each.name, data=data)
            continue
        dtype = each.dtypes[0] if each.dtypes == ("int32",) or each.name == "indices" else "float64"
        shape = made if data is None else data.shape
        if each.name in ("status", "indices"):
            shape, dtype = ((1,), "int32") if each.name == "status" else (made, "int64")
        if each.name in ("h", "parts"):
            shape = (64,) if each.name == "parts" else made[1:]
        arguments[each.name] = graph.array(f"result {each.name}", shape, dtype)
        output = output if output or each.name == "parts" else f"result {each.name}"
        if data is not None:
            graph.copy(graph.array(each.name, data=data), arguments[each.name])
    graph.kernel(operation, **arguments, **scalars)
    # Cosines and sines are tables.
    trained = [name for name, data in given.items() if data.dtype.kind == "f" and "sines" not in name]
    check_graph(graph, parameters=trained, output=output)


def positive(n: int) -> Any:
    matrix = numbers(n, n)
    return matrix @ matrix.T + n * np.eye(n)


def triangle(n: int) -> Any:
    return np.tril(numbers(n, n, low=0.5, seed=4)) + 2 * np.eye(n)


@pytest.mark.parametrize("beta", [0.0, 0.7])
@pytest.mark.parametrize("trans_a", [False, True])
@pytest.mark.parametrize("trans_b", [False, True])
def test_gemm(trans_a: bool, trans_b: bool, beta: float) -> None:
    given = {
        "a": numbers(*((4, 3) if trans_a else (3, 4))),
        "b": numbers(*((5, 4) if trans_b else (4, 5)), seed=1),
        **({"c": numbers(3, 5, seed=2)} if beta else {}),
    }
    check(get("gemm"), given, (3, 5), alpha=1.3, beta=beta, trans_a=trans_a, trans_b=trans_b)


BUILT_IN: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("syrk", {"c": numbers(4, 4), "a": numbers(4, 3, seed=1)}, {}),
    ("trsm", {"a": numbers(3, 4), "l": triangle(4)}, {}),
    ("potrf", {"a": positive(4)}, {}),
    ("dense", {"x": numbers(3, 4), "w": numbers(4, 5, seed=1), "b": numbers(5, seed=2)}, {"activation": 0}),
    ("dense", {"x": numbers(3, 4), "w": numbers(4, 5, seed=1), "b": numbers(5, seed=2)}, {"activation": 1}),
    ("softmax", {"x": numbers(3, 5)}, {}),
    ("axpy", {"y": numbers(3, 5), "x": numbers(3, 5, seed=1)}, {"alpha": 1.7}),
    ("add", {"x": numbers(3, 5), "y": numbers(3, 5, seed=1)}, {}),
    ("scale", {"x": numbers(3, 5)}, {"alpha": -0.3}),
    ("copy", {"x": numbers(3, 5)}, {}),
    (
        "heat_step",
        {
            "center": numbers(3, 5),
            "north": numbers(2, 5, seed=1),
            "south": numbers(1, 5, seed=2),
            "west": numbers(3, 1, seed=3),
            "east": numbers(3, 2, seed=4),
        },
        {"coefficient": 0.2},
    ),
]


@pytest.mark.parametrize(("name", "given", "scalars"), BUILT_IN)
def test_ready_operations(name: str, given: dict[str, Any], scalars: dict[str, Any]) -> None:
    check(get(name), given, (3, 5), **scalars)


X, PLACES = numbers(3, 5), np.array([[2, 0], [1, 1]])
IMAGE, SCALES = numbers(2, 4, 5, 6), {"scale": numbers(4, seed=1), "bias": numbers(4, seed=2)}
FACTORIES: dict[str, tuple[Operation, dict[str, Any], tuple[int, ...]]] = {
    "elementwise": (elementwise(("mul", ("sin", 0), ("add", 1, 0)), 2), {"x0": X, "x1": numbers(5)}, (3, 5)),
    "elementwise, broadcast": (elementwise(("exp", 0), 1), {"x0": numbers(5)}, (3, 5)),
    "concat": (concat(1, 2), {"x0": X, "x1": numbers(3, 2)}, (3, 7)),
    "gather": (gather(1), {"x": X, "indices": PLACES}, (3, 2, 2)),
    "gather, checked": (gather(0, checked=True), {"x": X, "indices": PLACES}, (2, 2, 5)),
    "gather elements": (gather_elements(1), {"x": X, "indices": np.array([[4], [0], [4]])}, (3, 1)),
    "gather nd": (gather_nd(), {"x": X, "indices": PLACES}, (2,)),
    "scatter elements": (
        scatter_elements(1, "add"),
        {"x": X, "indices": np.array([[4, 1], [0, 0], [4, 2]]), "updates": numbers(3, 2, seed=1)},
        (3, 5),
    ),
    "scatter nd": (scatter_nd(), {"x": X, "indices": np.array([[2], [0]]), "updates": numbers(2, 5, seed=1)}, (3, 5)),
    "slice": (slice_of((2, 4), (-1, -2)), {"x": X}, (3, 3)),
    "transpose": (transpose((1, 0)), {"x": X}, (5, 3)),
    "pad": (pad((1, 0, 0, 2), "edge"), {"x": X}, (4, 7)),
    "sum": (reduce("sum", (0,)), {"x": X}, (5,)),
    "l2": (reduce("l2", (0, 1), True), {"x": X}, (1, 1)),
    "scan": (scan_sum(1, exclusive=True), {"x": X}, (3, 5)),
    "topk": (topk(2, 1), {"x": X}, (3, 2)),
    "scan in parts": (scan_in_parts(1, reverse=True), {"x": X}, (3, 5)),
    "sum of all": (reduce_whole("sumsquare"), {"x": X}, ()),
    "update": (
        update((("add", 1, ("mul", 0, ("sin", 2))), ("add", 0, ("mul", 1, 1))), 1),
        {"y0": X, "y1": numbers(3, 5, seed=1), "x0": numbers(5, seed=2)},
        (3, 5),
    ),
    "join": (
        join(2, (("tanh",),)),
        {"x0": X, "x1": numbers(3, 2), "scale": numbers(7, seed=1), "shift": numbers(7, seed=2)},
        (3, 7),
    ),
    "resize": (resize("linear", "half_pixel", scales=(1.0, 1.6)), {"x": X}, (3, 8)),
    "resize, nearest": (resize("nearest", "asymmetric", scales=[2.0, 1.0]), {"x": X}, (6, 5)),
    "rotary": (
        rotary(),
        {
            "x": numbers(2, 3, 4, 6),
            "cosines": np.cos(np.arange(12.0)).reshape(4, 3),
            "sines": np.sin(np.arange(12.0)).reshape(4, 3),
            "positions": np.arange(4).reshape(1, 4),
        },
        (2, 3, 4, 6),
    ),
    "gru": (
        recurrent("gru", ((("sigmoid",),), (("tanh",),)), last=True, state=True),
        {
            "x": numbers(4, 2, 3),
            "w": numbers(3, 12, seed=1),
            "r": numbers(4, 12, seed=2),
            "b": numbers(12, seed=3),
            "h0": numbers(2, 4, seed=4),
        },
        (4, 2, 4),
    ),
    "softmax": (softmax_over(-1), {"x": X}, (3, 5)),
    "log softmax": (softmax_over(0, log=True), {"x": X}, (3, 5)),
    "layer norm": (layer_norm(-1, bias=True), {"x": X, "scale": numbers(5, seed=1), "b": numbers(5, seed=2)}, (3, 5)),
    "matmul of heads": (
        matmul(transpose_b=True, residual=True, interleaved=("a", "b", "y")),
        {"a": numbers(1, 3, 2, 5), "b": numbers(1, 4, 2, 5, seed=1), "r": numbers(1, 3, 2, 4, seed=2)},
        (1, 3, 2, 4),
    ),
    "matmul": (
        matmul(True, alpha=0.5, beta=2.0, bias=True, residual=True, activation=(("tanh",),)),
        {"a": numbers(4, 3), "b": numbers(4, 5, seed=1), "c": numbers(5, seed=2), "r": numbers(3, 5, seed=3)},
        (3, 5),
    ),
    "conv": (
        conv(2, strides=[2, 1], pads=[1, 0, 0, 1], groups=2, bias=True, activation=(("sigmoid",),)),
        {"x": IMAGE, "w": numbers(6, 2, 3, 2, seed=1), "b": numbers(6, seed=2)},
        (2, 6, 2, 6),
    ),
    "conv, channels last, in place": (
        conv(2, channels_last=True, residual=True, in_place=True),
        {"x": numbers(2, 5, 6, 4), "w": numbers(6, 4, 3, 2, seed=1), "y": numbers(2, 3, 5, 6, seed=2)},
        (2, 3, 5, 6),
    ),
    "transposed conv": (
        conv_transpose(2, strides=[2, 1], bias=True, output_padding=[1, 0]),
        {"x": IMAGE, "w": numbers(4, 3, 3, 2, seed=1), "b": numbers(3, seed=2)},
        (2, 3, 12, 7),
    ),
    "max pool": (pool("max", (2, 2), strides=(2, 2)), {"x": IMAGE}, (2, 4, 2, 3)),
    "average pool, channels last": (
        pool("average", (3, 2), pads=(1, 0, 1, 0), channels_last=True, activation=(("relu",),)),
        {"x": numbers(2, 5, 6, 4)},
        (2, 5, 5, 4),
    ),
    "batch norm": (
        batch_norm(activation=(("tanh",),)),
        {"x": IMAGE, **SCALES, "mean": numbers(4, seed=3), "variance": numbers(4, low=0.5)},
        IMAGE.shape,
    ),
    "group norm": (group_norm(2), {"x": IMAGE, **SCALES}, IMAGE.shape),
    "lrn": (lrn(alpha=0.1, size=3), {"x": IMAGE}, IMAGE.shape),
}


@pytest.mark.parametrize("name", FACTORIES)
def test_operations_of_factories(name: str) -> None:
    operation, given, made = FACTORIES[name]
    check(operation, given, made)


def test_fill_passes_no_gradient_to_the_old_value() -> None:
    graph = syclsched.TaskGraph("filled")
    w, y, z = graph.array("w", data=X), graph.array("y", X.shape), graph.array("z", X.shape)
    graph.copy(w, y)
    graph.kernel(get("add"), z=z, x=y, y=w)
    graph.kernel(get("fill"), x=y, value=3.0)
    graph.kernel(get("axpy"), y=z, x=y, alpha=1.0)
    check_graph(graph)
