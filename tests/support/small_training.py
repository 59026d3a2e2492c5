# SPDX-License-Identifier: Apache-2.0
"""A small perceptron that is trained on the CPU device, and batches for it."""

from __future__ import annotations

from typing import Any

import numpy as np

import syclsched
from syclsched.testing.training_models import perceptron
from syclsched.training import Trainer

SIZES = (8, 16, 4)


def trainer(model: Any = None, loss: Any = "cross_entropy", optimizer: Any = "adam", **more: Any) -> Trainer:
    """Return a trainer on the CPU device that compiles no Python kernels."""
    given = perceptron(SIZES).onnx if model is None else model
    options = {"without": ["python"], **more}
    return syclsched.train(given, loss, optimizer, devices="cpu", autotune=False, **options)


def blobs(samples: int, seed: int = 0) -> tuple[Any, Any]:
    """Return samples around a centre for each class."""
    random = np.random.default_rng(seed)
    labels = random.integers(0, SIZES[-1], samples)
    centres = np.random.default_rng(99).standard_normal((SIZES[-1], SIZES[0])) * 2
    return (centres[labels] + random.standard_normal((samples, SIZES[0]))).astype("float32"), labels


def bits(found: dict[str, Any]) -> dict[str, bytes]:
    """Return the bits of arrays."""
    return {name: value.tobytes() for name, value in found.items()}
