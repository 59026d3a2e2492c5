# SPDX-License-Identifier: Apache-2.0
"""Importers of pooling operators: maximum, average and Lp norms, local and global."""

from __future__ import annotations

import math
from collections.abc import Sequence

from syclsched.frontends.onnx.importing.importer_registry import UnsupportedFormError, given, imports
from syclsched.frontends.onnx.importing.network_builder import NetworkBuilder
from syclsched.frontends.onnx.importing.nn.convolutions import crop_negative_pads
from syclsched.frontends.onnx.importing.nn.window_parameters import Windows, windows_of
from syclsched.frontends.onnx.model_file.dtypes import FLOATS
from syclsched.frontends.onnx.model_file.onnx_model import ModelNode
from syclsched.kernels.nn.pooling.pool import MAX_DTYPES

Ints = tuple[int, ...]


@imports("MaxPool", "AveragePool")
def pool(b: NetworkBuilder, node: ModelNode, inputs: Sequence[str | None]) -> Sequence[str | None]:
    """Import MaxPool and AveragePool; a MaxPool with the indices output is left to the host."""
    x = given(b, inputs, 0, "X")
    mode = "max" if node.operator == "MaxPool" else "average"
    if len(node.outputs) > 1 and node.outputs[1]:
        raise UnsupportedFormError
    if b.dtype(x) not in (MAX_DTYPES if mode == "max" else FLOATS):
        raise UnsupportedFormError
    shape = b.shape(x)
    if len(shape) < 3:
        raise b.wrong(f"an input of shape {shape} has no spatial axes")
    windows = windows_of(b, node, node.integers("kernel_shape") or (), shape[2:])
    x, pads = crop_negative_pads(b, x, windows.pads)
    windows = windows._replace(pads=pads)
    extents = _window_counts(windows, b.shape(x)[2:], ceil=bool(node.integer("ceil_mode")))
    if min(extents) < 1:
        raise b.wrong(f"windows {windows.kernel} do not fit into {shape}")
    return [
        b.emit(
            "pool",
            [x],
            shape=(*shape[:2], *extents),
            mode=mode,
            kernel=windows.kernel,
            strides=windows.strides,
            pads=windows.pads,
            dilations=windows.dilations,
            count_include_pad=bool(node.integer("count_include_pad")),
            channels_last=False,
        )
    ]


def _window_counts(windows: Windows, extents: Ints, *, ceil: bool) -> Ints:
    """Return the number of windows along each axis."""
    made: list[int] = []
    rank = len(extents)
    for i, n in enumerate(extents):
        span = n + windows.pads[i] + windows.pads[i + rank] - windows.dilations[i] * (windows.kernel[i] - 1) - 1
        step = windows.strides[i]
        count = (-(-span // step) if ceil else span // step) + 1
        if ceil and (count - 1) * step >= n + windows.pads[i]:
            count -= 1
        made.append(count)
    return tuple(made)


@imports("GlobalAveragePool", "GlobalMaxPool")
def global_pool(b: NetworkBuilder, node: ModelNode, inputs: Sequence[str | None]) -> Sequence[str | None]:
    """Import global pooling: one window over all spatial axes."""
    x = given(b, inputs, 0, "X")
    shape = b.shape(x)
    rank = len(shape) - 2
    if b.dtype(x) not in FLOATS:
        raise UnsupportedFormError
    if rank < 1 or 0 in shape[2:]:
        raise b.wrong(f"an input of shape {shape} has nothing to pool")
    return [
        b.emit(
            "pool",
            [x],
            mode="max" if node.operator == "GlobalMaxPool" else "average",
            kernel=shape[2:],
            strides=(1,) * rank,
            pads=(0,) * (2 * rank),
            dilations=(1,) * rank,
            count_include_pad=False,
            channels_last=False,
        )
    ]


@imports("GlobalLpPool")
def global_lp_pool(b: NetworkBuilder, node: ModelNode, inputs: Sequence[str | None]) -> Sequence[str | None]:
    """Import GlobalLpPool for the L1 and L2 norms."""
    x, p = given(b, inputs, 0, "X"), node.integer("p", 2)
    if p not in (1, 2):
        raise UnsupportedFormError
    return [b.emit("reduce", [x], mode=f"l{p}", axes=tuple(range(2, len(b.shape(x)))), keepdims=True)]


@imports("LpPool")
def lp_pool(b: NetworkBuilder, node: ModelNode, inputs: Sequence[str | None]) -> Sequence[str | None]:
    """Import LpPool: a mean over zero-padded windows times the window size gives the sum."""
    x, p = given(b, inputs, 0, "X"), node.integer("p", 2)
    shape = b.shape(x)
    if b.dtype(x) not in FLOATS or p < 1 or node.integer("ceil_mode"):
        raise UnsupportedFormError
    windows = windows_of(b, node, node.integers("kernel_shape") or (), shape[2:])
    kind = b.dtype(x)
    power = ("abs", 0) if p == 1 else ("square", 0) if p == 2 else ("pow", ("abs", 0), ("const", float(p), kind))
    mean = b.emit(
        "pool",
        [b.elementwise(power, x)],
        mode="average",
        kernel=windows.kernel,
        strides=windows.strides,
        pads=windows.pads,
        dilations=windows.dilations,
        count_include_pad=True,
        channels_last=False,
    )
    total = ("mul", 0, ("const", float(math.prod(windows.kernel)), kind))
    root = total if p == 1 else ("sqrt", total) if p == 2 else ("pow", total, ("const", 1.0 / p, kind))
    return [b.elementwise(root, mean)]
