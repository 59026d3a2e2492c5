# SPDX-License-Identifier: Apache-2.0
"""Sliding windows over the spatial axes of an array, shared by convolution and pooling."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from syclsched.errors import ArgumentError
from syclsched.kernels.common import Activation, Ints


def spread(values: int | Sequence[int], ndim: int, default: int, name: str) -> Ints:
    """Return one integer per axis: ``values``, a single value repeated, or ``default`` if there are none."""
    if isinstance(values, int):
        return (values,) * ndim
    if len(values) not in (0, ndim):
        raise ArgumentError(f"{name} are {ndim} numbers, not {len(values)}", where=name)
    return tuple(map(int, values)) or (default,) * ndim


def times(values: Sequence[int]) -> str:
    """Return numbers as written in an operation's name: ``3x3``."""
    return "x".join(map(str, values))


@dataclass(frozen=True, slots=True)
class Window:
    """Strides, pads and dilations of a sliding window."""

    #: One number per spatial axis; pads: the beginnings of all axes, then the ends.
    strides: Ints
    pads: Ints
    dilations: Ints

    @classmethod
    def of(cls, ndim: int, strides: Sequence[int], pads: Sequence[int], dilations: Sequence[int]) -> Window:
        """Return a window from user arguments; () means strides and dilations of 1 and no pads."""
        window = cls(
            spread(strides, ndim, 1, "strides"),
            spread(pads, 2 * ndim, 0, "pads"),
            spread(dilations, ndim, 1, "dilations"),
        )
        if min((*window.strides, *window.dilations), default=1) < 1:
            raise ArgumentError(f"strides and dilations are at least 1, not {window.strides} and {window.dilations}")
        return window

    @property
    def ndim(self) -> int:
        """Number of spatial axes."""
        return len(self.strides)

    @property
    def begins(self) -> Ints:
        """Pads at the beginnings."""
        return self.pads[: self.ndim]

    @property
    def ends(self) -> Ints:
        """Pads at the ends."""
        return self.pads[self.ndim :]

    def reach(self, kernel: Ints) -> Ints:
        """Return the extent that a kernel spans along each axis, dilation included."""
        return tuple((k - 1) * d + 1 for k, d in zip(kernel, self.dilations, strict=True))

    def extents(self, spatial: Ints, kernel: Ints, *, ceil: bool = False) -> Ints:
        """Return the number of windows along each axis."""
        found = []
        for size, begin, end, span, stride in zip(
            spatial, self.begins, self.ends, self.reach(kernel), self.strides, strict=True
        ):
            last = size + begin + end - span
            found.append(max(0, (-(-last // stride) if ceil else last // stride) + 1))
        return tuple(found)

    def label(self) -> str:
        """Return the window's part of an operation's name."""
        parts = []
        if any(each != 1 for each in self.strides):
            parts.append(f"s{times(self.strides)}")
        if any(self.pads):
            parts.append(f"p{times(self.pads)}")
        if any(each != 1 for each in self.dilations):
            parts.append(f"d{times(self.dilations)}")
        return " ".join(parts)

    def places(self, kernel: Ints, outputs: Ints) -> Iterator[tuple[Ints, tuple[slice, ...]]]:
        """Yield each kernel index, with the slices of a *padded* array that all windows see there."""
        for place in itertools.product(*map(range, kernel)):
            yield (
                place,
                tuple(
                    slice(p * d, p * d + (count - 1) * s + 1, s)
                    for p, d, s, count in zip(place, self.dilations, self.strides, outputs, strict=True)
                ),
            )

    def padded(self, x: Any, kernel: Ints, outputs: Ints, value: Any) -> Any:
        """Return an array (N, *spatial, C) with its pads and the elements that the last windows need beyond them."""
        import numpy as np

        widths = [(0, 0)]
        for size, begin, end, span, stride, count in zip(
            x.shape[1:-1], self.begins, self.ends, self.reach(kernel), self.strides, outputs, strict=True
        ):
            widths.append((begin, max(end, (count - 1) * stride + span - size - begin)))
        # Negative pads crop.
        cut = tuple(slice(max(0, -a), None if b >= 0 else b) for a, b in [*widths, (0, 0)])
        return np.pad(x[cut], [(max(0, a), max(0, b)) for a, b in [*widths, (0, 0)]], constant_values=value)


@dataclass(frozen=True, slots=True)
class Convolution:
    """Attributes shared by convolutions and transposed convolutions."""

    window: Window
    groups: int  # groups of channels
    channels_last: bool  # arrays are (N, *spatial, C), not (N, C, *spatial)
    activation: Activation  # applied to every element of the result
