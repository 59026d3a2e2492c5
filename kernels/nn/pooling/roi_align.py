# SPDX-License-Identifier: Apache-2.0
"""`roi_align` and `roi_align_gradient`: interpolated elements in the cells of regions, whose number regions decide.

A cell has as many samples along an axis as the region is long there, divided by the number of cells, and rounded up.
A sample is a sum of four neighbours by weights that are a product of one for each axis, so that the means of a region
are a product of matrices.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

from syclsched.kernels.common import ITEM_BYTES, REAL_DTYPES, numpy_implementation
from syclsched.kernels.nn.geometry import size
from syclsched.model.access import AccessMode
from syclsched.model.operation import Operation, Parameter, Signature, Work


@dataclass(frozen=True, slots=True)
class _Settings:
    """The settings of ONNX's operator."""

    mode: str  # "avg" or "max"
    cells: tuple[int, int]
    scale: float
    half_pixel: bool


@dataclass(frozen=True, slots=True)
class _Samples:
    """The samples of a region along one axis: both neighbours of each, and their weights."""

    samples: int  # of a cell
    steps: Any  # of each sample its place in the region, from 0 to 1
    neighbours: tuple[Any, Any]
    weights: tuple[Any, Any]
    is_between: Any  # whether weights change with the place
    grows: bool  # whether the samples spread as the region becomes longer

    def matrix(self, extent: int) -> Any:
        """Return the mean weight (cell, element) of each element in each cell."""
        import numpy as np

        cell = np.arange(len(self.steps)) // self.samples
        found = np.zeros((len(self.steps) // self.samples, extent), self.steps.dtype)
        for neighbour, weight in zip(self.neighbours, self.weights, strict=True):
            np.add.at(found, (cell, neighbour), weight / self.samples)
        return found

    def by_ends(self, by_weights: tuple[Any, Any], scale: float) -> tuple[float, float]:
        """Return the gradients by the begin and the end of the region, given those by the weights of each sample."""
        import numpy as np

        by_place = np.where(self.is_between, by_weights[1] - by_weights[0], 0)
        by_end = (by_place * self.steps).sum() if self.grows else 0.0
        return scale * (by_place.sum() - by_end), scale * by_end


def _samples(settings: _Settings, region: Any, axis: int, extent: int) -> _Samples | None:
    """Return the samples of a region along the axis of rows or of columns; None if there are none."""
    import numpy as np

    kind, cells = region.dtype.type, settings.cells[axis]
    offset = kind(0.5 if settings.half_pixel else 0.0)
    start, end = (region[i] * kind(settings.scale) - offset for i in (1 - axis, 3 - axis))
    length = end - start if settings.half_pixel else max(end - start, kind(1))
    samples = int(np.ceil(length / kind(cells)))
    if samples < 1:
        return None
    number = np.arange(cells * samples)
    steps = (number // samples + (number % samples + kind(0.5)) / kind(samples)) / kind(cells)
    place = start + length * steps.astype(kind)
    inside = (place >= -1) & (place <= extent)
    held = np.clip(place, 0, extent - 1)
    low = np.floor(held).astype(np.int64)
    share = held - low
    return _Samples(
        samples,
        steps.astype(kind),
        (low, np.minimum(low + 1, extent - 1)),
        (np.where(inside, 1 - share, 0).astype(kind), np.where(inside, share, 0).astype(kind)),
        inside & (place > 0) & (place < extent - 1),
        settings.half_pixel or bool(end - start > 1),
    )


def _each_region(settings: _Settings, x: Any, regions: Any, of: Any) -> Iterator[tuple[int, int, _Samples, _Samples]]:
    """Yield of each region that has samples its number, its picture, and the samples along both axes."""
    for number, picture in enumerate(of.reshape(-1).tolist()):
        rows, columns = (_samples(settings, regions[number], axis, x.shape[2 + axis]) for axis in (0, 1))
        if rows is not None and columns is not None:
            yield number, int(picture), rows, columns


def _parts(x: Any, rows: _Samples, columns: _Samples) -> Any:
    """Return the four parts of each sample, as an array (channel, cell, cell, part and sample)."""
    import numpy as np

    parts = [
        x[:, row][:, :, column] * (by_row[:, None] * by_column)
        for row, by_row in zip(rows.neighbours, rows.weights, strict=True)
        for column, by_column in zip(columns.neighbours, columns.weights, strict=True)
    ]
    down, right = (len(each.steps) // each.samples for each in (rows, columns))
    cut = np.stack(parts).reshape(4, len(x), down, rows.samples, right, columns.samples)
    return cut.transpose(1, 2, 4, 0, 3, 5).reshape(len(x), down, right, -1)


def _forward(*, y: Any, x: Any, regions: Any, of: Any, settings: _Settings) -> None:
    y[...] = 0
    for number, picture, rows, columns in _each_region(settings, x, regions, of):
        if settings.mode == "max":
            y[number] = _parts(x[picture], rows, columns).max(-1)
        else:
            y[number] = rows.matrix(x.shape[2]) @ x[picture] @ columns.matrix(x.shape[3]).T


def _backward(*, y: Any, dregions: Any, x: Any, regions: Any, of: Any, dy: Any, settings: _Settings) -> None:
    y[...] = dregions[...] = 0
    way = _back_from_maxima if settings.mode == "max" else _back_from_means
    for number, picture, rows, columns in _each_region(settings, x, regions, of):
        by_rows, by_columns = way(y[picture], x[picture], dy[number], rows, columns)
        begin, end = rows.by_ends(by_rows, settings.scale)
        left, right = columns.by_ends(by_columns, settings.scale)
        dregions[number] = left, begin, right, end


def _back_from_means(total: Any, x: Any, dy: Any, rows: _Samples, columns: _Samples) -> tuple[Any, Any]:
    """Add the gradient of a picture; return those of both weights of each sample, along both axes."""
    import numpy as np

    down, right = rows.matrix(x.shape[1]), columns.matrix(x.shape[2])
    total += down.T @ dy @ right
    found = []
    for samples, by_matrix in (
        (rows, np.einsum("cij,chj->ih", dy, x @ right.T)),
        (columns, np.einsum("cij,ciw->jw", dy, down @ x)),
    ):
        cell = np.arange(len(samples.steps)) // samples.samples
        found.append(tuple(by_matrix[cell, each] / samples.samples for each in samples.neighbours))
    return found[0], found[1]


def _back_from_maxima(total: Any, x: Any, dy: Any, rows: _Samples, columns: _Samples) -> tuple[Any, Any]:
    """As `_back_from_means`: the first of the largest parts has the gradient."""
    import numpy as np

    first = _parts(x, rows, columns).argmax(-1)
    part, down, right = np.unravel_index(first, (4, rows.samples, columns.samples))
    channel, i, j = np.indices(first.shape)
    row, column = i * rows.samples + down, j * columns.samples + right
    upper, left = part // 2, part % 2
    at_row, at_column = np.stack(rows.neighbours)[upper, row], np.stack(columns.neighbours)[left, column]
    by_row, by_column = np.stack(rows.weights)[upper, row], np.stack(columns.weights)[left, column]
    np.add.at(total, (channel, at_row, at_column), dy * by_row * by_column)
    element = x[channel, at_row, at_column] * dy
    made_rows, made_columns = (np.zeros((2, len(each.steps)), x.dtype) for each in (rows, columns))
    np.add.at(made_rows, (upper, row), element * by_column)
    np.add.at(made_columns, (left, column), element * by_row)
    return (made_rows[0], made_rows[1]), (made_columns[0], made_columns[1])


def _check(signature: Signature, cells: tuple[int, int], result: str) -> str | None:
    shapes = signature.shapes
    x, regions, of = (shapes[name] for name in ("x", "regions", "of"))
    if len(x) != 4 or regions != (*of, 4) or shapes[result] != (*of, x[1], *cells):
        return f"{result} {shapes[result]} does not fit x {x}, regions {regions}, of {of} and cells {cells}"
    return None


def _work(signature: Signature, result: str) -> Work:
    dtype = signature.dtypes["x"]
    moved = sum(map(size, signature.shapes.values())) * ITEM_BYTES[dtype]
    return Work(64.0 * size(signature.shapes[result]), float(moved), dtype, 1.0)


@cache
def _operation(name: str, settings: _Settings) -> Operation:
    reads = [Parameter("x", AccessMode.READ, like="y"), Parameter("regions", AccessMode.READ, like="y")]
    reads.append(Parameter("of", AccessMode.READ, dtypes=("int64",)))
    written, function, result = [Parameter("y", AccessMode.WRITE, dtypes=REAL_DTYPES)], _forward, "y"
    if name == "roi_align_gradient":
        written.append(Parameter("dregions", AccessMode.WRITE, like="y"))
        reads.append(Parameter("dy", AccessMode.READ, like="y"))
        function, result = _backward, "dy"
    by_host: Callable[..., None] = partial(function, settings=settings)
    return Operation(
        name=f"{name} {settings.mode} {settings.cells} {settings.scale} {settings.half_pixel}",
        parameters=(*written, *reads),
        implementations=(numpy_implementation(by_host, efficiency=0.1),),
        work=partial(_work, result=result),
        check=lambda signature: _check(signature, settings.cells, result),
    )


def roi_align(mode: str, cells: tuple[int, int], scale: float, half_pixel: bool) -> Operation:
    """Return the operation of parameters y (regions, channels, *cells), x, regions (regions, 4), of (regions)."""
    return _operation("roi_align", _Settings(mode, cells, scale, half_pixel))


def roi_align_gradient(mode: str, cells: tuple[int, int], scale: float, half_pixel: bool) -> Operation:
    """Return the operation of parameters y and dregions, the gradients of x and of regions, x, regions, of, dy."""
    return _operation("roi_align_gradient", _Settings(mode, cells, scale, half_pixel))
