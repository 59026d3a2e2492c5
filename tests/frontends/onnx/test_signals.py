# SPDX-License-Identifier: Apache-2.0
"""Short-time Fourier transforms, compared with ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx", reason="the package onnx is not installed")
pytest.importorskip("onnxruntime", reason="the package onnxruntime is not installed")

from onnx import helper  # noqa: E402
from support.beside_runtime import array, same_as_runtime  # noqa: E402
from support.host_evaluation import evaluate  # noqa: E402
from support.small_models import imported, model_of  # noqa: E402

from syclsched.errors import ModelError  # noqa: E402


@pytest.mark.parametrize("one_sided", [0, 1])
@pytest.mark.parametrize("shape", [(2, 71), (2, 71, 1)])
@pytest.mark.parametrize(("window", "length"), [(16, 16), (16, None), (None, 16)])
def test_frames_are_transformed(one_sided: int, shape: Any, window: int | None, length: int | None) -> None:
    constants: dict[str, Any] = {"step": np.array(5)}
    names = ["x", "step", "", ""]
    if window is not None:
        names[2], constants["window"] = "window", np.hanning(window).astype(np.float32)
    if length is not None:
        names[3], constants["length"] = "length", np.array(length)
    made = helper.make_node("STFT", names, ["y"], onesided=one_sided)
    same_as_runtime([made], {"x": array(*shape)}, ["y"], 17, constants)


@pytest.mark.parametrize("size", [13, 15])
def test_frames_of_other_lengths_than_powers_of_two(size: int) -> None:
    # ONNX Runtime's results are off by 3e-5 there.
    x, window = array(2, 71), np.hanning(size).astype(np.float32)
    made = helper.make_node("STFT", ["x", "step", "window"], ["y"])
    network = imported(model_of([made], {"x": x.shape}, ["y"], {"step": np.array(5), "window": window}))
    frames = np.stack([x[:, at : at + size] for at in range(0, 71 - size + 1, 5)], axis=1)
    want = np.fft.rfft(frames.astype(np.float64) * window)
    assert np.allclose(evaluate(network, {"x": x})["y"], np.stack([want.real, want.imag], axis=-1), atol=1e-5)


def test_complex_signals() -> None:
    made = helper.make_node("STFT", ["x", "step", "", "length"], ["y"], onesided=0)
    constants = {"step": np.array(3), "length": np.array(8)}
    same_as_runtime([made], {"x": array(2, 20, 2)}, ["y"], 17, constants)


@pytest.mark.parametrize(("shape", "length"), [((1, 8, 1), 9), ((1, 8, 3), 4), ((1, 8, 1), 0)])
def test_frames_must_fit(shape: Any, length: int) -> None:
    made = helper.make_node("STFT", ["x", "step", "", "length"], ["y"])
    constants = {"step": np.array(3), "length": np.array(length)}
    with pytest.raises(ModelError, match=r"a signal of shape|frames of"):
        imported(model_of([made], {"x": shape}, ["y"], constants))
