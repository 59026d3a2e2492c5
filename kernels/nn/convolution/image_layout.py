# SPDX-License-Identifier: Apache-2.0
"""Extents and strides of arrays with a batch, channels and spatial axes, in kernels of a `KernelWriter`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from syclsched.kernels.tensor.writing.kernel_writer import KernelWriter
from syclsched.kernels.tensor.writing.lines import product


@dataclass(frozen=True, slots=True)
class ImageLayout:
    """An array (N, *spatial, C) or (N, C, *spatial) of a kernel."""

    #: Extents.
    images: str
    channels: str
    extents: tuple[str, ...]  # along the spatial axes
    #: Strides in elements.
    image: str
    channel: str
    strides: tuple[str, ...]  # along the spatial axes

    @classmethod
    def of(
        cls, w: KernelWriter, array: str, last: bool, *, merged: bool = False, contained: bool = False
    ) -> ImageLayout:
        """Emit the layout of an array; ``merged`` makes the spatial axes one, with the batch if channels are last.

        The kernel contains the number of channels if it is ``contained``, and does not take it as an argument.
        """
        channel_axis = len(w.signature.shapes[array]) - 1 if last else 1
        images, *extents = w.extents(array, (channel_axis,) if contained else ())
        channels = extents.pop(-1 if last else 0)
        if merged and last:
            images, extents = "1", [images, *extents]
        if merged:
            extents = [product(w, extents)]
        strides, step = [], channels if last else "1"
        for extent in reversed(extents):
            strides.append(step)
            step = extent if step == "1" else w.index(f"{step} * {extent}")
        image, channel = (step, "1") if last else (w.index(f"{step} * {channels}"), step)
        return cls(images, channels, tuple(extents), image, channel, tuple(reversed(strides)))

    def offset(self, image: str, places: Sequence[str], channel: str) -> str:
        """Return the text of an element's offset; ``places`` may be along the first axes only."""
        terms = [f"{place} * {stride}" for place, stride in zip(places, self.strides, strict=False)]
        return " + ".join([f"{image} * {self.image}", *terms, f"({channel}) * {self.channel}"])
