# SPDX-License-Identifier: Apache-2.0
"""Random values of tests that are independent of earlier tests."""

from __future__ import annotations

from zlib import crc32

import numpy as np

_generators: list[np.random.Generator] = []


def generator(seed: int) -> np.random.Generator:
    """Return a generator for a module of tests, which has a state for every test."""
    made = np.random.default_rng(seed)
    _generators.append(made)
    return made


def restart(test: str) -> None:
    """Set all generators to the state of a test."""
    if _generators:
        state = np.random.default_rng(crc32(test.encode())).bit_generator.state
        for each in _generators:
            each.bit_generator.state = state
