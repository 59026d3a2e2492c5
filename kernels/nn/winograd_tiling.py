# SPDX-License-Identifier: Apache-2.0
"""How a convolution by minimal filtering is cut: into tiles, blocks of tiles for work-items, and parts of channels.

A work-item takes a block of tiles and a part of the output channels. The larger its block, the more tiles each weight
it fetches serves; where there are few tiles, compute units share the channels instead, and each transforms the input
for itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Final

from syclsched.kernels.common import ceil_div
from syclsched.kernels.nn.panels import VECTOR_BYTES, Block
from syclsched.kernels.nn.winograd import POINTS, TAPS
from syclsched.model.operation import DeviceLimits, Launch, Signature

#: Elements of a vector.
WIDTH: Final = VECTOR_BYTES // 4
#: Bytes of scratch a work-item has at most.
SCRATCH_BYTES: Final = 4 << 20
#: More of it than this goes through a slower cache, and so do weights.
NEAR_BYTES: Final = 1 << 20

# Times, found by fitting those of 14 shapes on two cores with AVX-512. The unit is that of one multiply-add of vectors
# for each channel, or what a place of a tile takes for each 32 products of an input and an output channel.
#: Fetching a weight, in tiles it is multiplied with: from a near cache, and from a slower one.
_FETCHING: Final = (2.0, 6.0)
#: Transforming a channel of a tile's input or output.
_TRANSFORMING: Final = 0.6
#: Taking it through the slower cache, besides.
_SPILLING: Final = 0.67
#: The same as `_FETCHING`, where networks do it, which have had other weights since.
_FETCHING_AFRESH: Final = 13


@dataclass(frozen=True, slots=True)
class Tiling:
    """How a convolution is cut."""

    m: int  # rows and columns of a tile's outputs
    #: Tiles of an image.
    down: int
    across: int
    tiles: int  # those of all images
    #: Input and output channels.
    inside: int
    outside: int
    block: Block  # what is summed at once: rows are tiles, columns are output channels

    @property
    def n(self) -> int:
        """Rows and columns of a tile's inputs."""
        return self.m + TAPS - 1

    @property
    def places(self) -> int:
        """Elements of a transformed tile, and of a transformed filter."""
        return self.n * self.n

    @property
    def panels(self) -> int:
        """Panels of output channels; the last one may have more columns than there are channels."""
        return ceil_div(self.outside, self.block.columns)

    @property
    def row(self) -> int:
        """Elements from a tile to the next in scratch."""
        # One vector more than the channels: rows of a power of two would meet in the same few places of a cache.
        return ceil_div(max(self.inside, self.panels * self.block.columns), WIDTH) * WIDTH + WIDTH

    @property
    def most(self) -> int:
        """Tiles of a work-item at most: whole blocks."""
        room = SCRATCH_BYTES if self.weight_bytes(self.panels) > NEAR_BYTES else NEAR_BYTES
        fitting = room // self.scratch_bytes(1) // self.block.rows
        return max(1, min(ceil_div(self.tiles, self.block.rows), fitting)) * self.block.rows

    @property
    def plane(self) -> int:
        """Elements from a place to the next in scratch."""
        return self.most * self.row + WIDTH

    def scratch_bytes(self, tiles: int) -> int:
        """Return how much scratch so many tiles need."""
        return (self.places + 1) * tiles * self.row * 4

    def weight_bytes(self, panels: int) -> int:
        """Return the bytes of the weights of so many panels."""
        return self.places * self.inside * panels * self.block.columns * 4

    def seconds(self, blocks: int, parts: int, units: int) -> float:
        """Return what all takes, in a unit of its own, if work is dealt out so to so many compute units."""
        tiles, panels = ceil_div(self.tiles, blocks), ceil_div(self.panels, parts)
        share = panels * self.block.columns
        rows = ceil_div(tiles, self.block.rows) * self.block.rows
        spilling = _SPILLING if self.scratch_bytes(rows) > NEAR_BYTES else 0.0
        fetching = _FETCHING[self.weight_bytes(panels) > NEAR_BYTES]
        one = self.inside * share / 32 * (rows + fetching)
        one += tiles * (self.inside + share) * (_TRANSFORMING + spilling)
        return ceil_div(blocks * parts, units) * one


def _cut(extents: tuple[int, int], m: int) -> tuple[int, int]:
    return ceil_div(extents[0], m), ceil_div(extents[1], m)


def _products(extents: tuple[int, int], m: int) -> int:
    """Return what the products of a pair of channels take, with fetching their weights."""
    down, across = _cut(extents, m)
    return (m + TAPS - 1) ** 2 * (down * across + _FETCHING_AFRESH)


def pays(extents: tuple[int, int]) -> bool:
    """Return whether an image of such extents takes fewer products than its sums as they stand."""
    direct = TAPS**2 * (extents[0] * extents[1] + _FETCHING_AFRESH)
    return min(_products(extents, m) for m in POINTS) < direct


@cache
def _tiling(batch: int, extents: tuple[int, int], inside: int, outside: int) -> Tiling:
    # Of one image, not of all: an image must get the same bits alone.
    m = min(POINTS, key=lambda m: _products(extents, m))
    down, across = _cut(extents, m)
    tiles, vectors = batch * down * across, ceil_div(outside, WIDTH)
    # So many accumulators as leave registers for what is multiplied.
    width = min((2, 3), key=lambda width: ceil_div(vectors, width) * width) if vectors > 1 else 1
    tall = min(range(1, min(tiles, 28 // max(2, width)) + 1), key=lambda r: (ceil_div(tiles, r) * (r + 3), -r))
    return Tiling(m, down, across, tiles, inside, outside, Block(tall, width, WIDTH))


def tiling(signature: Signature) -> Tiling:
    """Return how a convolution is cut: the same for an image of a batch as for it alone, but for the blocks."""
    y = signature.shapes["y"]
    return _tiling(y[0], (y[1], y[2]), signature.shapes["w"][1], y[3])


@cache
def _dealt(tiled: Tiling, units: int) -> tuple[int, int]:
    """Return blocks of tiles and parts of the channels."""
    rows, most = tiled.block.rows, tiled.panels
    parts = sorted({ceil_div(most, share) for share in range(1, most + 1)})
    found: list[tuple[int, int]] = []
    for part in parts:
        for tiles in range(rows, tiled.most + 1, rows):
            blocks = ceil_div(tiled.tiles, tiles)
            # As they come, or so many more that all compute units have one in the last turn.
            full = ceil_div(blocks * part, units) * units // part
            found += [(each, part) for each in {blocks, min(max(blocks, full), tiled.tiles)}]
    return min(found, key=lambda each: (tiled.seconds(each[0], each[1], units), each))


def launch(signature: Signature, limits: DeviceLimits) -> Launch:
    """Return the index space: blocks of tiles by parts of the output channels."""
    return Launch(_dealt(tiling(signature), limits.compute_units), (1, 1))
