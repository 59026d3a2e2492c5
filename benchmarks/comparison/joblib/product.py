# SPDX-License-Identifier: Apache-2.0
"""A product of two matrices in blocks of 256 rows."""

import numpy as np
from joblib import Parallel, delayed
from problems import product


def run(left, right):
    blocks = (left[row : row + 256] for row in range(0, 1024, 256))
    return np.vstack(Parallel(n_jobs=-1, prefer="threads")(delayed(np.matmul)(block, right) for block in blocks))


product.solve(run)
