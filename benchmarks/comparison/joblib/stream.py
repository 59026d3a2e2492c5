# SPDX-License-Identifier: Apache-2.0
"""Frames, each through a kernel and a function, a few at once. A generator: joblib has no coroutines."""

import numba
import numpy as np
from joblib import Parallel, delayed
from problems import stream


@numba.njit(nogil=True)
def soften(frame):
    soft = np.empty_like(frame)
    for y in range(frame.shape[0]):
        for x in range(frame.shape[1]):
            value = frame[y, x]
            for _ in range(50):
                value = np.sqrt(value + frame[y, x])
            soft[y, x] = value
    return soft


def means(frame):
    return soften(frame).mean(axis=1)


def run(frames):
    return list(
        Parallel(n_jobs=-1, prefer="threads", return_as="generator")(delayed(means)(frame) for frame in frames())
    )


stream.solve(run)
