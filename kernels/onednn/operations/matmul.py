# SPDX-License-Identifier: Apache-2.0
"""oneDNN matrix products, single or batched, with bias, residual and activation fused."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import partial
from math import prod

from syclsched.kernels.common import Activation
from syclsched.kernels.onednn import c_api
from syclsched.kernels.onednn.operations.conv import post_ops_of
from syclsched.kernels.onednn.post_ops import Binary, Eltwise, PostOp
from syclsched.kernels.onednn.primitive_spec import PrimitiveSpec, implementation, refuse
from syclsched.kernels.onednn.requests import PrimitiveArgument, PrimitiveRequest
from syclsched.kernels.onednn.tensors import Shape, plain
from syclsched.model.operation import Implementation, Signature


def matmul(
    *,
    transpose_a: bool,
    transpose_b: bool,
    interleaved: Collection[str],
    alpha: float,
    beta: float,
    residual: bool,
    activation: Activation,
) -> Implementation:
    """Return oneDNN's matmul: parameters y, a, b, and optionally c and r."""
    describe = partial(
        _matmul,
        transpose_a=transpose_a,
        transpose_b=transpose_b,
        interleaved=interleaved,
        alpha=alpha,
        beta=beta,
        residual=residual,
        activation=activation,
    )
    return implementation(describe, efficiency=0.7)


def _matmul(
    signature: Signature,
    *,
    transpose_a: bool,
    transpose_b: bool,
    interleaved: Collection[str],
    alpha: float,
    beta: float,
    residual: bool,
    activation: Activation,
) -> PrimitiveSpec:
    dtype = signature.dtypes["y"]
    shapes = dict(signature.shapes) if interleaved else _merged_batch(signature.shapes, transpose_a)
    rank = len(shapes["y"])
    most = c_api.MAX_DIMENSIONS
    if rank > most:
        raise refuse(f"there are at most {most} axes, not {rank}")
    a, b, y = (
        plain(shapes[name], dtype)
        .padded_to(rank)
        .permuted((*range(rank - 3), rank - 2, rank - 3, rank - 1) if name in interleaved else range(rank))
        for name in "aby"
    )
    swapped = (*range(rank - 2), rank - 1, rank - 2)
    a = a.permuted(swapped) if transpose_a else a
    b = b.permuted(swapped) if transpose_b else b
    packed = "b" in signature.constants
    arguments = [
        PrimitiveArgument("a", c_api.SRC, a),
        PrimitiveArgument("b", c_api.WEIGHTS, b.with_any_layout() if packed else b),
        PrimitiveArgument("y", c_api.DST, y),
    ]
    post_ops: list[PostOp] = [Eltwise("linear", alpha)] if alpha != 1 else []
    factors: dict[str, float] = {}
    if "c" in shapes:
        if beta != 1:
            if "c" not in signature.constants:
                raise refuse("beta is 1 unless the bias is constant")
            factors["c"] = beta
        c = plain(shapes["c"], dtype).padded_to(rank)
        if c.dims[-1] != y.dims[-1] and c.size != 1:
            raise refuse("the bias is not one for each column, or one for all")
        # oneDNN adds the bias before all post-ops, so alpha would scale it, too.
        if alpha == 1 and c.dims == (1,) * (rank - 1) + y.dims[-1:]:
            arguments.append(PrimitiveArgument("c", c_api.BIAS, c))
        else:
            post_ops.append(Binary("add", c, "c"))
    post_ops += post_ops_of(activation, y if residual else None)
    request = PrimitiveRequest("matmul", tuple(arguments), (), tuple(post_ops))
    return PrimitiveSpec(request, {"b": b} if packed else {}, factors)


def _merged_batch(shapes: Mapping[str, Shape], transpose_a: bool) -> dict[str, Shape]:
    """Return the shapes with the leading axes merged into a's rows, if all products share one b.

    One large product is faster than many small ones, and only its b can be packed well.
    """
    known = dict(shapes)
    a, b, y = known["a"], known["b"], known["y"]
    leading = y[:-2]
    c = known.get("c", ())
    if transpose_a or prod(b[:-2]) != 1 or not leading or prod(a[:-2]) != prod(leading) or prod(c[:-1]) != 1:
        return known
    rows, columns = prod(y[:-1]), y[-1]
    flat = {"a": (rows, a[-1]), "b": b[-2:], "y": (rows, columns), "r": (rows, columns), "c": c[-1:]}
    return {name: flat[name] for name in known}
