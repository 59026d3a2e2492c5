# SPDX-License-Identifier: Apache-2.0
"""The amplitude of an oscillator for many dampings."""

import dask
import numba
import numpy as np
from problems import STEPS, sweep


@dask.delayed
@numba.njit(nogil=True)
def amplitude(damping):
    x, v, most = 0.0, 0.0, 0.0
    for step in range(STEPS):
        v += 1e-3 * (np.sin(1e-3 * step) - x - damping * v)
        x += 1e-3 * v
        if step > STEPS // 2:
            most = max(most, abs(x))
    return most


def run(values):
    return dask.compute(*[amplitude(damping) for damping in values])


sweep.solve(run)
