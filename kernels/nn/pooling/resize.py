# SPDX-License-Identifier: Apache-2.0
"""`resize`: nearest, linear or cubic interpolation to other extents, with the conventions of ONNX's Resize.

Interpolation is separable, so each axis has a table: for every result index, the source indices and their weights. The
tables are computed when a task is created, because extents are known then.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

from syclsched.errors import ArgumentError
from syclsched.kernels.common import ITEM_BYTES, OPENCL_C, with_recipe
from syclsched.kernels.nn.geometry import size
from syclsched.kernels.nn.line_operations import lines_launch, number
from syclsched.kernels.nn.opencl_types import FLOATS, sum_dtype
from syclsched.kernels.nn.pooling import resize_opencl
from syclsched.kernels.nn.pooling.resize_opencl import Axis
from syclsched.kernels.onednn.operations import resize as onednn
from syclsched.model.access import AccessMode
from syclsched.model.operation import Implementation, OpenCLSource, Operation, Parameter, Signature, Work

MODES = ("nearest", "linear", "cubic")
COORDINATES = (
    "half_pixel",
    "half_pixel_symmetric",
    "pytorch_half_pixel",
    "align_corners",
    "asymmetric",
    "tf_crop_and_resize",
    "tf_half_pixel_for_nn",
)
NEAREST = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
#: Dtypes of nearest mode; interpolation needs floating-point ones.
PICKED = (*FLOATS, "int8", "uint8", "int32", "int64")


@dataclass(frozen=True, slots=True)
class _Resampling:
    """Mapping from result positions to source positions; see `resize`."""

    mode: str
    coordinates: str
    nearest: str
    cubic: float
    exclude_outside: bool
    extrapolation: float

    def source(self, place: int, extent: int, result: int, scale: float, roi: tuple[float, float]) -> float:
        """Return the source coordinate of a result index."""
        length = scale * extent
        if self.coordinates == "align_corners":
            return 0.0 if length == 1 else place * (extent - 1) / (length - 1)
        if self.coordinates == "asymmetric":
            return place / scale
        if self.coordinates == "tf_half_pixel_for_nn":
            return (place + 0.5) / scale
        if self.coordinates == "tf_crop_and_resize":
            span = (roi[1] - roi[0]) * (extent - 1)
            return roi[0] * (extent - 1) + (span / 2 if length == 1 else place * span / (length - 1))
        if self.coordinates == "pytorch_half_pixel" and length == 1:
            return -0.5
        offset = extent / 2 * (1 - result / length) if self.coordinates == "half_pixel_symmetric" else 0.0
        return offset + (place + 0.5) / scale - 0.5

    def taps(self, where: float) -> tuple[int, list[float]]:
        """Return the first source index and the weights of it and its successors."""
        floor = math.floor(where)
        # An integer coordinate belongs to the interval before it, with ratio 1.
        below, ratio = (floor - 1, 1.0) if where == floor else (floor, where - floor)
        if self.mode == "linear":
            return below, [1 - ratio, ratio]
        if self.mode == "cubic":
            a, near, far = self.cubic, ratio, 1 - ratio
            return below - 1, [
                ((a * (near + 1) - 5 * a) * (near + 1) + 8 * a) * (near + 1) - 4 * a,
                ((a + 2) * near - (a + 3)) * near * near + 1,
                ((a + 2) * far - (a + 3)) * far * far + 1,
                ((a * (far + 1) - 5 * a) * (far + 1) + 8 * a) * (far + 1) - 4 * a,
            ]
        up = {
            "floor": ratio == 1,
            "ceil": True,
            "round_prefer_floor": ratio > 0.5,
            "round_prefer_ceil": ratio >= 0.5,
        }[self.nearest]
        return below + up, [1.0]

    def table(
        self, extent: int, result: int, scale: float, roi: tuple[float, float]
    ) -> tuple[list[list[int]], list[list[float]]]:
        """Return the source indices and weights for every result index.

        Where the result is ``extrapolation``, because its coordinate is outside the source, the indices are -1.
        """
        places, weights = [], []
        for place in range(result):
            where = self.source(place, extent, result, scale, roi)
            start, share = self.taps(where)
            span = range(start, start + len(share))
            if self.coordinates == "tf_crop_and_resize" and not 0 <= where <= extent - 1:
                places.append([-1] * len(share))
                weights.append(share)
                continue
            if self.exclude_outside and self.mode == "cubic":
                share = [each if 0 <= index < extent else 0.0 for index, each in zip(span, share, strict=True)]
                total = sum(share)
                share = [each / total for each in share]
            places.append([min(max(index, 0), extent - 1) for index in span])
            weights.append(share)
        return places, weights


def axes(
    signature: Signature, resampling: _Resampling, scales: tuple[float, ...], roi: tuple[float, ...]
) -> list[Axis]:
    """Return the resized axes, each with its table."""
    y, x = signature.shapes["y"], signature.shapes["x"]
    rank = len(x)
    found = []
    for axis in range(rank):
        bounds = (roi[axis], roi[axis + rank]) if roi else (0.0, 1.0)
        if x[axis] == y[axis] and scales[axis] == 1 and bounds == (0.0, 1.0):
            continue
        found.append((axis, *resampling.table(x[axis], y[axis], scales[axis], bounds)))
    return found


def _check(signature: Signature, *, scales: tuple[float, ...], roi: tuple[float, ...]) -> str | None:
    y, x = signature.shapes["y"], signature.shapes["x"]
    if not len(y) == len(x) == len(scales):
        return f"y {y} and x {x} have {len(scales)} axes each, one for each scale"
    if roi and len(roi) != 2 * len(x):
        return f"roi is a begin and an end of each of {len(x)} axes, not {len(roi)} numbers"
    if size(y) and not size(x):
        return f"x {x} is empty, but y {y} is not"
    return None


def _work(signature: Signature, *, taps: int) -> Work:
    y, x, dtype = signature.shapes["y"], signature.shapes["x"], signature.dtypes["y"]
    changed = sum(a != b for a, b in zip(y, x, strict=True))
    moved = (size(y) + min(size(x), size(y) * taps**changed)) * ITEM_BYTES[dtype]
    return Work(2.0 * size(y) * taps**changed, float(moved), dtype, float(max(1, size(y))))


def _host(*, y: Any, x: Any, changed: list[Axis], extrapolation: float) -> None:
    import numpy as np

    outside = np.zeros(y.shape, bool)
    whole = y.dtype.kind != "f"
    source = x if whole else x.astype(sum_dtype(str(y.dtype)), copy=False)
    for axis, places, weights in changed:
        index, share = np.asarray(places, np.intp), np.asarray(weights)
        shape = [1] * y.ndim
        shape[axis] = -1
        outside |= (index[:, :1] < 0).any(axis=1).reshape(shape)
        picked = [np.take(source, index[:, tap], axis=axis) for tap in range(index.shape[1])]
        if len(picked) == 1:
            source = picked[0]
            continue
        source = sum(each * share[:, tap].reshape(shape).astype(each.dtype) for tap, each in enumerate(picked))
    y[...] = source
    if outside.any():
        y[outside] = extrapolation


def _count(signature: Signature, *, resampling: _Resampling, **attributes: Any) -> int:
    return resize_opencl.count(signature, _known(signature, resampling, **attributes))


def _load_opencl(signature: Signature, *, resampling: _Resampling, **attributes: Any) -> OpenCLSource:
    return resize_opencl.load(signature, _known(signature, resampling, **attributes), resampling.extrapolation)


def _known(signature: Signature, resampling: _Resampling, **attributes: Any) -> list[Axis]:
    """Return the resized axes; none for an empty result."""
    return axes(signature, resampling, **attributes) if size(signature.shapes["y"]) else []


def _load_host(signature: Signature, *, resampling: _Resampling, **attributes: Any) -> Any:
    if not size(signature.shapes["y"]):
        return _nothing
    return partial(_host, changed=axes(signature, resampling, **attributes), extrapolation=resampling.extrapolation)


def _nothing(**arrays: Any) -> None:
    pass


@cache
def _resize(resampling: _Resampling, scales: tuple[float, ...], roi: tuple[float, ...]) -> Operation:
    names = [
        f"resize {resampling.mode}",
        resampling.coordinates,
        resampling.nearest if resampling.mode == "nearest" else "",
        f"cubic={number(resampling.cubic)}" if resampling.mode == "cubic" else "",
        "exclude" if resampling.exclude_outside else "",
        "x".join(map(number, scales)),
        f"roi={','.join(map(number, roi))} {number(resampling.extrapolation)}" if roi else "",
    ]
    attributes = {"scales": scales, "roi": roi}
    taps = {"nearest": 1, "linear": 2, "cubic": 4}[resampling.mode]
    launch = partial(lines_launch, count=partial(_count, resampling=resampling, **attributes))
    load = partial(_load_opencl, resampling=resampling, **attributes)
    opencl = Implementation("opencl-c", "opencl-c", load, launch, OPENCL_C, efficiency=0.3, revision="2")
    host = partial(_load_host, resampling=resampling, **attributes)
    return Operation(
        name=" ".join(filter(None, names)),
        parameters=(
            Parameter("y", AccessMode.WRITE, dtypes=PICKED if resampling.mode == "nearest" else FLOATS),
            Parameter("x", AccessMode.READ, like="y"),
        ),
        implementations=(
            onednn.resize(mode=resampling.mode, axes=partial(axes, resampling=resampling, scales=scales, roi=roi)),
            opencl,
            Implementation("numpy", "host", host, efficiency=0.1),
        ),
        work=partial(_work, taps=taps),
        check=partial(_check, **attributes),
    )


@with_recipe
def resize(
    mode: str,
    coordinates: str,
    nearest: str = "round_prefer_floor",
    scales: Sequence[float] = (),
    roi: Sequence[float] = (),
    cubic: float = -0.75,
    exclude_outside: bool = False,
    extrapolation: float = 0.0,
) -> Operation:
    """Return the operation that resizes an array by interpolation."""
    for name, value, known in (
        ("mode", mode, MODES),
        ("coordinates", coordinates, COORDINATES),
        ("nearest", nearest, NEAREST),
    ):
        if value not in known:
            raise ArgumentError(f"there is no {name} {value!r}", where=name, hint=f"There are: {', '.join(known)}")
    if not all(scale > 0 for scale in scales):
        raise ArgumentError(f"scales are positive, not {tuple(scales)}", where="scales")
    crops = coordinates == "tf_crop_and_resize"
    resampling = _Resampling(mode, coordinates, nearest, float(cubic), bool(exclude_outside), float(extrapolation))
    return _resize(resampling, tuple(map(float, scales)), tuple(map(float, roi)) if crops else ())
