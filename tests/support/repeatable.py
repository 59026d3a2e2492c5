# SPDX-License-Identifier: Apache-2.0
"""Random values of tests that do not depend on the tests that ran before."""

from __future__ import annotations

from zlib import crc32

import numpy as np

_generators: list[np.random.Generator] = []


def generator(seed: int) -> np.random.Generator:
    """Return a generator for a module of tests, which every test begins with a state of its own."""
    made = np.random.default_rng(seed)
    _generators.append(made)
    return made


def restart(test: str) -> None:
    """Give all generators the state that belongs to a test."""
    if _generators:
        state = np.random.default_rng(crc32(test.encode())).bit_generator.state
        for each in _generators:
            each.bit_generator.state = state
