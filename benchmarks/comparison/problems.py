# SPDX-License-Identifier: Apache-2.0
"""Problems for the programs of several libraries: inputs, NumPy's answer, and the measurement of a program.

A program ends with ``NAME.solve(run)``: it calls the function with the problem's inputs and refuses a wrong result.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Problem:
    """Inputs, and the expected result with its tolerance."""

    inputs: Callable[[], tuple[Any, ...]]
    answer: Callable[..., Any]
    tolerance: float

    def solve(self, run: Callable[..., Any]) -> None:
        """Check a first run; as part of a comparison, time more runs and print all times as JSON.

        The variable COMPARISON has the time at which this process was started and the number of further runs.
        """
        started, runs = os.environ.get("COMPARISON", f"{time.time()} 0").split()
        inputs = self.inputs()
        result = run(*inputs)
        first_s = time.time() - float(started)
        expected = self.answer(*inputs)
        if not np.allclose(np.asarray(result), expected, rtol=self.tolerance, atol=0):
            sys.exit(f"wrong: {result}, expected {expected}")
        times_s = []
        for _ in range(int(runs)):
            begun = time.perf_counter()
            run(*inputs)
            times_s.append(time.perf_counter() - begun)
        print(json.dumps({"first_s": first_s, "times_s": times_s}) if times_s else f"right, after {first_s:.2f} s")


def _images() -> list[np.ndarray]:
    """Return noise of growing contrast."""
    return [np.random.default_rng(i).random((600, 800), np.float32) * np.float32(0.5 + 0.1 * i) for i in range(8)]


def _edges(images: Sequence[np.ndarray]) -> list[int]:
    """Return the numbers of edge pixels, and the image with most of them."""
    counts = []
    for image in images:
        wide = np.pad(image, 1, mode="edge")
        height, width = image.shape
        smooth = sum(wide[y : y + height, x : x + width] for y in range(3) for x in range(3)) / np.float32(9)
        gradient = np.abs(np.diff(smooth, axis=0, append=smooth[-1:]))
        gradient += np.abs(np.diff(smooth, axis=1, append=smooth[:, -1:]))
        counts.append(int(np.count_nonzero(gradient > 0.1)))
    return [*counts, int(np.argmax(counts))]


def _amplitudes(dampings: np.ndarray) -> np.ndarray:
    """Return the largest late elongation of a driven oscillator for each damping, by Euler's method."""
    x, v, most = np.zeros_like(dampings), np.zeros_like(dampings), np.zeros_like(dampings)
    for step in range(STEPS):
        v = v + 1e-3 * (np.sin(1e-3 * step) - x - dampings * v)
        x = x + 1e-3 * v
        if step > STEPS // 2:
            most = np.maximum(most, np.abs(x))
    return most


def _profiles(frames: Callable[[], Any]) -> list[np.ndarray]:
    """Return each frame's means of rows after fifty steps of v = sqrt(v + x) for each pixel."""
    found = []
    for frame in frames():
        values = frame
        for _ in range(50):
            values = np.sqrt(values + frame)
        found.append(values.mean(axis=1))
    return found


def _frames() -> Any:
    """Make one frame after another, like a camera."""
    for i in range(40):
        yield np.random.default_rng(i).random((256, 256), np.float32)


#: Steps of a simulated oscillator.
STEPS = 20000

#: Images to the numbers of pixels at edges, and the image with most: two kernels and two functions.
pipeline = Problem(lambda: (_images(),), _edges, 1e-3)
#: Two matrices to their product, in blocks of 256 rows.
product = Problem(lambda: tuple(np.random.default_rng(i).random((1024, 1024)) for i in range(2)), np.matmul, 1e-9)
#: Dampings of an oscillator to amplitudes.
sweep = Problem(lambda: (np.linspace(0.05, 2, 256),), _amplitudes, 1e-6)
#: A function that makes frames, one after another, to the means of rows of each; a few frames are in flight at once.
stream = Problem(lambda: (_frames,), _profiles, 1e-4)
#: Chains of two products and their size to whether two described devices are predicted to be no slower than either.
described = Problem(lambda: (8, 1024), lambda chains, size: True, 0.0)
