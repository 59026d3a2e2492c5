# SPDX-License-Identifier: Apache-2.0
"""The amplitude of an oscillator for many dampings."""

import numba
import numpy as np
import starpu
import starpu.joblib
from problems import STEPS, sweep


@numba.njit(nogil=True)
def amplitude(damping):
    x, v, most = 0.0, 0.0, 0.0
    for step in range(STEPS):
        v += 1e-3 * (np.sin(1e-3 * step) - x - damping * v)
        x += 1e-3 * v
        if step > STEPS // 2:
            most = max(most, abs(x))
    return most


starpu.init()


def run(values):
    return starpu.joblib.Parallel(mode="normal")(starpu.joblib.delayed(amplitude)(damping) for damping in values)


sweep.solve(run)
starpu.shutdown()
