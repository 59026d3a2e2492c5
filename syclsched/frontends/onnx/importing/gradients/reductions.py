# SPDX-License-Identifier: Apache-2.0
"""Gradients of reductions and cumulative sums."""

from __future__ import annotations

import math
from collections.abc import Sequence

from syclsched.frontends.onnx.importing.gradients.rules import Names, gradient_of, no_gradient
from syclsched.frontends.onnx.importing.network_builder import NetworkBuilder
from syclsched.frontends.onnx.network import CanonicalNode

#: Mode -> gradient by x, given the gradient of the result, x, and the result.
_FORMULAS = {
    "l1": ("mul", 0, ("sign", 1)),
    "l2": ("where", ("equal", 2, ("const", 0.0)), ("const", 0.0), ("div", ("mul", 0, 1), 2)),
    "sumsquare": ("mul", 0, ("const", 2.0), 1),
    "logsumexp": ("mul", 0, ("exp", ("sub", 1, 2))),
}


@gradient_of("reduce")
def _reduce(b: NetworkBuilder, node: CanonicalNode, gradients: Names, wanted: Sequence[bool]) -> Names:
    x, mode, axes = node.inputs[0] or "", node.attributes["mode"], node.attributes["axes"]
    shape = b.shape(x)
    kept = tuple(1 if axis in axes else n for axis, n in enumerate(shape))
    gradient, y = (b.reshape(each or "", kept) for each in (gradients[0], node.outputs[0]))
    if mode == "sum":
        return [b.expand(gradient, shape)]
    if mode == "mean":
        share = ("const", 1 / max(1, math.prod(shape[axis] for axis in axes)))
        return [b.elementwise(("mul", 0, share), gradient, shape=shape)]
    if mode == "logsum":
        return [b.elementwise(("mul", 0, ("exp", ("neg", 1))), gradient, y, shape=shape)]
    if mode in ("max", "min"):
        largest = b.elementwise(("cast", b.dtype(x), ("equal", 0, 1)), x, y)
        count = b.reduce("sum", largest, axes)
        return [b.elementwise(("mul", 0, ("div", 1, 2)), largest, gradient, count)]
    if mode == "prod":
        zero: tuple[object, ...] = ("equal", 0, ("const", 0.0))
        zeros = b.reduce("sum", b.elementwise(("cast", b.dtype(x), zero), x), axes)
        rest = b.reduce("prod", b.elementwise(("where", zero, ("const", 1.0), 0), x), axes)
        alone = ("where", ("equal", 3, ("const", 1.0)), 1, ("const", 0.0))
        others = ("where", ("equal", 3, ("const", 0.0)), ("div", 1, 0), ("const", 0.0))
        return [b.elementwise(("mul", 2, ("where", zero, alone, others)), x, rest, gradient, zeros)]
    if mode in _FORMULAS:
        return [b.elementwise(_FORMULAS[mode], gradient, x, y)]
    raise no_gradient(node, f"a reduction by {mode!r} has no gradient")


@gradient_of("scan_sum")
def _scan_sum(b: NetworkBuilder, node: CanonicalNode, gradients: Names, wanted: Sequence[bool]) -> Names:
    at = node.attributes
    return [b.emit("scan_sum", [gradients[0]], axis=at["axis"], exclusive=at["exclusive"], reverse=not at["reverse"])]
