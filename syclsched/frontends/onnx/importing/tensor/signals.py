# SPDX-License-Identifier: Apache-2.0
"""Importer of the short-time Fourier transform."""

from __future__ import annotations

from typing import Final

import numpy as np

from syclsched.frontends.onnx.importing.import_state import Array
from syclsched.frontends.onnx.importing.importer_registry import Inputs, Names, UnsupportedFormError, imports
from syclsched.frontends.onnx.importing.network_builder import NetworkBuilder
from syclsched.frontends.onnx.model_file.dtypes import FLOATS
from syclsched.frontends.onnx.model_file.onnx_model import ModelNode

#: Most elements of the transform's matrix: 2,048 by 2,049 are 32 MiB.
_LARGEST: Final = 1 << 23


@imports("STFT")
def _stft(b: NetworkBuilder, node: ModelNode, inputs: Inputs) -> Names:
    """Import STFT as a convolution with the windowed sines and cosines of the discrete Fourier transform."""
    x = inputs.required(0, "signal")
    step, window, length = (
        None if name is None else b.known(name)
        for name in (inputs.required(1, "frame_step"), inputs.optional(2), inputs.optional(3))
    )
    # PyTorch's exporter omits the last axis of a real signal.
    if len(b.shape(x)) == 2:
        x = b.reshape(x, (*b.shape(x), 1))
    if len(b.shape(x)) != 3 or b.shape(x)[2] not in (1, 2):
        raise b.wrong(f"a signal of shape {b.shape(x)}, expected (batch, length, 1 or 2)")
    unknown = [
        name for name, array in ((inputs.optional(2), window), (inputs.optional(3), length)) if name and array is None
    ]
    if step is None or unknown or b.dtype(x) not in FLOATS:
        raise UnsupportedFormError
    batch, samples, parts = b.shape(x)
    size = samples if window is None else len(window)
    if length is not None:
        size = int(length)
    hop = int(step)
    if size < 1 or hop < 1 or size > samples or (window is not None and window.shape != (size,)):
        under = "" if window is None else f", under a window of {window.shape}"
        raise b.wrong(f"frames of {size} every {hop} samples, of {samples}{under}")
    one_sided = node.integer("onesided", 1) and parts == 1
    bins = size // 2 + 1 if one_sided else size
    if 2 * bins * size * parts > _LARGEST:
        raise UnsupportedFormError
    kernel = b.constant(_transform(size, bins, parts, window), b.dtype(x))
    frames = b.conv(b.transpose(x, (0, 2, 1)), kernel, strides=(hop,), pads=(0, 0), dilations=(1,))
    count = b.shape(frames)[2]
    return [b.transpose(b.reshape(frames, (batch, bins, 2, count)), (0, 3, 1, 2))]


def _transform(size: int, bins: int, parts: int, window: Array | None) -> Array:
    """Return the weights for real and imaginary parts: an array (bins * 2, parts, size)."""
    # The remainder gives the same angle and keeps it accurate for long transforms.
    turns = np.outer(np.arange(bins), np.arange(size)) % size
    angle = 2 * np.pi / size * turns
    weights = np.ones(size) if window is None else np.asarray(window, np.float64)
    cosine, sine = np.cos(angle) * weights, np.sin(angle) * weights
    real = np.stack([cosine, sine], axis=1) if parts == 2 else cosine[:, None]
    imaginary = np.stack([-sine, cosine], axis=1) if parts == 2 else -sine[:, None]
    made: Array = np.stack([real, imaginary], axis=1).reshape(bins * 2, parts, size)
    return made
