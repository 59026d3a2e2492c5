# SPDX-License-Identifier: Apache-2.0
"""Partition of a Winograd convolution into tiles, blocks of tiles for work-items, and parts of channels.

A work-item takes a block of tiles and a part of the output channels. Larger blocks reuse each fetched weight for more
tiles. If there are few tiles, compute units share the channels instead, and each transforms the input for itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Final

from syclsched.kernels.common import ceil_div
from syclsched.kernels.nn import panels
from syclsched.kernels.nn.convolution.winograd import POINTS, TAPS
from syclsched.kernels.nn.panels import RegisterBlock
from syclsched.model.operation import DeviceLimits, Launch, Signature

#: Most scratch bytes of a work-item.
SCRATCH_BYTES: Final = 4 << 20
#: Capacity of the near cache; larger scratch or weights go through a slower cache.
NEAR_BYTES: Final = 1 << 20

# Cost model, fitted to 14 shapes on two cores with AVX-512. The unit is one vector multiply-add per channel: the time
# that one position of a tile takes for 32 products of an input and an output channel.
#: Fetching a weight, in tiles multiplied with it: from the near cache, and from a slower one.
_FETCHING: Final = (2.0, 6.0)
#: Transforming a channel of a tile's input or output.
_TRANSFORMING: Final = 0.6
#: Extra cost of the same through the slower cache.
_SPILLING: Final = 0.67
#: Like `_FETCHING`, within networks, where other weights have evicted these.
_FETCHING_AFRESH: Final = 13


@dataclass(frozen=True, slots=True)
class Tiles:
    """Tiles of the images that a convolution makes."""

    m: int  # rows and columns of a tile's outputs
    down: int  # tiles of an image along its height
    across: int  # tiles of an image along its width
    tiles: int  # tiles of all images
    inside: int  # input channels
    outside: int  # output channels
    block: RegisterBlock

    @property
    def n(self) -> int:
        """Rows and columns of a tile's inputs."""
        return self.m + TAPS - 1

    @property
    def places(self) -> int:
        """Elements of a transformed tile and of a transformed filter."""
        return self.n * self.n


@dataclass(frozen=True, slots=True)
class WinogradTiling(Tiles):
    """Tiles, blocks (rows are tiles, columns are output channels) and panels of a convolution."""

    @property
    def panels(self) -> int:
        """Panels of output channels; the last one may have more columns than there are channels."""
        return ceil_div(self.outside, self.block.columns)

    @property
    def layout(self) -> tuple[int, int]:
        """Numbers on which the layout of the weights depends, beside their shape."""
        return self.m, self.block.columns

    @property
    def row(self) -> int:
        """Stride between tiles in scratch, in elements."""
        # One vector of padding: power-of-two strides would map rows to the same cache sets.
        width = self.block.width
        return ceil_div(max(self.inside, self.panels * self.block.columns), width) * width + width

    @property
    def most(self) -> int:
        """Most tiles of a work-item: whole blocks."""
        capacity = SCRATCH_BYTES if self.weight_bytes(self.panels) > NEAR_BYTES else NEAR_BYTES
        fitting = capacity // self.scratch_bytes(1) // self.block.rows
        return max(1, min(ceil_div(self.tiles, self.block.rows), fitting)) * self.block.rows

    @property
    def plane(self) -> int:
        """Stride between positions in scratch, in elements: one of few, as kernels contain it."""
        used = self.most * self.row
        return next(size for size in self._planes if size >= used) + self.block.width

    @property
    def _planes(self) -> tuple[int, ...]:
        """Elements of a plane, ascending; the largest suffices for all shapes."""
        width = self.block.width
        return tuple(
            ceil_div(nbytes // 4, (self.places + 1) * width) * width for nbytes in (SCRATCH_BYTES // 2, SCRATCH_BYTES)
        )

    def scratch_bytes(self, tiles: int) -> int:
        """Return the scratch bytes of ``tiles`` tiles."""
        return (self.places + 1) * tiles * self.row * 4

    def weight_bytes(self, panels: int) -> int:
        """Return the bytes of the weights of ``panels`` panels."""
        return self.places * self.inside * panels * self.block.columns * 4

    def seconds(self, blocks: int, parts: int, units: int) -> float:
        """Return the estimated time, in relative units, for a number of blocks, channel parts and compute units."""
        tiles, panels = ceil_div(self.tiles, blocks), ceil_div(self.panels, parts)
        share = panels * self.block.columns
        rows = ceil_div(tiles, self.block.rows) * self.block.rows
        spilling = _SPILLING if self.scratch_bytes(rows) > NEAR_BYTES else 0.0
        fetching = _FETCHING[self.weight_bytes(panels) > NEAR_BYTES]
        one = self.inside * share / 32 * (rows + fetching)
        one += tiles * (self.inside + share) * (_TRANSFORMING + spilling)
        return ceil_div(blocks * parts, units) * one


def cut(extents: tuple[int, int], m: int) -> tuple[int, int]:
    """Return the tiles of ``m`` rows and columns along the height and the width of an image."""
    return ceil_div(extents[0], m), ceil_div(extents[1], m)


def _products(extents: tuple[int, int], m: int, images: int) -> int:
    """Return the cost of the products of a pair of channels, weight fetches included."""
    down, across = cut(extents, m)
    return (m + TAPS - 1) ** 2 * (images * down * across + _FETCHING_AFRESH)


def is_profitable(extents: tuple[int, int], images: int = 1) -> bool:
    """Return whether images of such extents take less than the direct sums."""
    direct = TAPS**2 * (images * extents[0] * extents[1] + _FETCHING_AFRESH)
    return min(_products(extents, m, images) for m in POINTS) < direct


@cache
def _tiling(batch: int, extents: tuple[int, int], inside: int, outside: int, images: int) -> WinogradTiling:
    m = min(POINTS, key=lambda m: _products(extents, m, images))
    down, across = cut(extents, m)
    tiles, width = batch * down * across, RegisterBlock.widest("float32")
    if panels.has_small_registers():  # with many, columns of three vectors waste fewer than the usual blocks
        block = RegisterBlock.of_small_registers(tiles, outside, "float32")
        return WinogradTiling(m, down, across, tiles, inside, outside, block)
    vectors = ceil_div(outside, width)
    # The number of accumulators that leaves registers for the operands.
    wide = min((2, 3), key=lambda wide: ceil_div(vectors, wide) * wide) if vectors > 1 else 1
    tall = min(range(1, min(tiles, 28 // max(2, wide)) + 1), key=lambda r: (ceil_div(tiles, r) * (r + 3), -r))
    return WinogradTiling(m, down, across, tiles, inside, outside, RegisterBlock(tall, wide, width))


def tiling(signature: Signature) -> WinogradTiling:
    """Return the tiling of a convolution.

    By constant weights, an image's tiles do not depend on the batch, only the blocks do: an image must give the same
    bits alone and in a batch. By weights that change, tiles are those that suit the batch.
    """
    y = signature.shapes["y"]
    images = 1 if "w" in signature.constants else y[0]
    return _tiling(y[0], (y[1], y[2]), signature.shapes["x"][3], y[3], images)


@cache
def _partition(tiled: WinogradTiling, units: int) -> tuple[int, int]:
    """Return the number of blocks of tiles and of parts of the channels."""
    rows, most = tiled.block.rows, tiled.panels
    parts = sorted({ceil_div(most, share) for share in range(1, most + 1)})
    found: list[tuple[int, int]] = []
    for part in parts:
        for tiles in range(rows, tiled.most + 1, rows):
            blocks = ceil_div(tiled.tiles, tiles)
            # The natural number of blocks, or more so that all compute units are busy in the last round.
            full = ceil_div(blocks * part, units) * units // part
            found += [(each, part) for each in {blocks, min(max(blocks, full), tiled.tiles)}]
    return min(found, key=lambda each: (tiled.seconds(each[0], each[1], units), each))


def launch(signature: Signature, limits: DeviceLimits) -> Launch:
    """Return the index space: blocks of tiles by parts of the output channels."""
    return Launch(_partition(tiling(signature), limits.compute_units), (1, 1))
