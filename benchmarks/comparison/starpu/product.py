# SPDX-License-Identifier: Apache-2.0
"""A product of two matrices in blocks of 256 rows."""

import numpy as np
import starpu
import starpu.joblib
from problems import product


def block(left, right):
    return left @ right


def run(left, right):
    parallel = starpu.joblib.Parallel(mode="normal")
    return np.vstack(
        parallel(starpu.joblib.delayed(block)(left[row : row + 256], right) for row in range(0, 1024, 256))
    )


starpu.init()
product.solve(run)
starpu.shutdown()
