# SPDX-License-Identifier: Apache-2.0
"""oneDNN nearest and linear resampling, used where its coordinates equal the requested ones."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

from syclsched.kernels.onednn import c_api
from syclsched.kernels.onednn.primitive_spec import PrimitiveSpec, implementation, refuse
from syclsched.kernels.onednn.requests import PrimitiveArgument, PrimitiveRequest
from syclsched.kernels.onednn.tensors import Shape, Tensor, plain
from syclsched.model.operation import Implementation, Signature

#: A resized axis: its number, the source indices for each result index, and their weights.
Axis = tuple[int, list[list[int]], list[list[float]]]
_TOLERANCE = 1e-6


def resize(*, mode: str, axes: Callable[[Signature], Sequence[Axis]]) -> Implementation:
    """Return oneDNN's resampling: parameters y and x."""
    return implementation(partial(_resize, mode=mode, axes=axes), efficiency=0.3)


def _resize(signature: Signature, *, mode: str, axes: Callable[[Signature], Sequence[Axis]]) -> PrimitiveSpec:
    if mode not in c_api.RESAMPLING:
        raise refuse(f"there is no {mode} interpolation")
    x, y = signature.shapes["x"], signature.shapes["y"]
    dtype = signature.dtypes["x"]
    changed = axes(signature)
    for axis, places, weights in changed:
        if not _agrees(mode, x[axis], y[axis], places, weights):
            raise refuse(f"it computes axis {axis} by other coordinates")
    places_of = sorted(axis for axis, *_ in changed)
    if not places_of:
        raise refuse("nothing changes")
    first, last = places_of[0], places_of[-1]
    if last - first >= 3:
        raise refuse(f"the axes that change are at most three neighbours, not {places_of}")
    source, target = (_image(shape, first, last, dtype) for shape in (x, y))
    arguments = PrimitiveArgument("x", c_api.SRC, source), PrimitiveArgument("y", c_api.DST, target)
    return PrimitiveSpec(PrimitiveRequest("resampling", arguments, (c_api.RESAMPLING[mode],)))


def _image(shape: Shape, first: int, last: int, dtype: str) -> Tensor:
    """Return an array as (axes before, axes after, the axes from first to last), before and after each merged."""
    collapsed = plain((math.prod(shape[:first]), *shape[first : last + 1], math.prod(shape[last + 1 :])), dtype)
    return collapsed.permuted((0, last - first + 2, *range(1, last - first + 2)))


def _agrees(
    mode: str, extent: int, result: int, places: Sequence[Sequence[int]], weights: Sequence[Sequence[float]]
) -> bool:
    """Return whether oneDNN's half-pixel coordinates give the requested interpolation along an axis."""
    for place, (wanted, shares) in enumerate(zip(places, weights, strict=True)):
        where = (place + 0.5) * extent / result - 0.5
        if mode == "nearest":
            # oneDNN's roundf() rounds halves up, and single precision may turn near halves into halves.
            if abs(where - math.floor(where) - 0.5) < _TOLERANCE * max(1, extent):
                return False
            if min(max(round(where), 0), extent - 1) != wanted[0]:
                return False
            continue
        low = min(max(math.floor(where), 0), extent - 1)
        high = min(max(math.floor(where) + 1, 0), extent - 1)
        share = where - math.floor(where)
        if not _same({low: 1 - share}, {high: share}, wanted, shares):
            return False
    return True


def _same(low: dict[int, float], high: dict[int, float], wanted: Sequence[int], shares: Sequence[float]) -> bool:
    """Return whether two weighted sums of source elements are equal."""
    difference: dict[int, float] = {}
    for places, sign in ((low, 1), (high, 1), *(({p: s}, -1) for p, s in zip(wanted, shares, strict=True))):
        for place, share in places.items():
            difference[place] = difference.get(place, 0.0) + sign * share
    return all(abs(each) < _TOLERANCE for each in difference.values())
