# SPDX-License-Identifier: Apache-2.0
"""oneDNN reductions: sums and means along axes."""

from __future__ import annotations

from functools import partial

from syclsched.kernels.onednn import c_api
from syclsched.kernels.onednn.primitive_spec import PrimitiveSpec, implementation, refuse
from syclsched.kernels.onednn.requests import PrimitiveArgument, PrimitiveRequest
from syclsched.kernels.onednn.tensors import Shape, plain
from syclsched.model.operation import Implementation, Signature


def reduce(*, mode: str, axes: Shape) -> Implementation:
    """Return oneDNN's reduction: parameters y and x."""
    return implementation(partial(_reduce, mode=mode, axes=axes), efficiency=0.3)


def _reduce(signature: Signature, *, mode: str, axes: Shape) -> PrimitiveSpec:
    shape, dtype = signature.shapes["x"], signature.dtypes["x"]
    if mode not in c_api.REDUCTION:
        raise refuse(f"there is no {mode}" if mode not in ("max", "min") else f"its {mode} passes over NaN")
    if all(shape[axis] == 1 for axis in axes):
        raise refuse("nothing is reduced")
    folded: list[tuple[int, bool]] = []
    for axis, extent in enumerate(shape):
        is_reduced = axis in axes
        if folded and folded[-1][1] == is_reduced:
            folded[-1] = (folded[-1][0] * extent, is_reduced)
        else:
            folded.append((extent, is_reduced))
    if not folded[-1][1] or len(folded) > 2:
        raise refuse("only the last axes are reduced, else it has its reference implementation only")
    x = plain(tuple(extent for extent, _ in folded), dtype)
    y = plain(tuple(1 if is_reduced else extent for extent, is_reduced in folded), dtype)
    arguments = PrimitiveArgument("x", c_api.SRC, x), PrimitiveArgument("y", c_api.DST, y)
    return PrimitiveSpec(PrimitiveRequest("reduction", arguments, (c_api.REDUCTION[mode],)))
