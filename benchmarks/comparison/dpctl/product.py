# SPDX-License-Identifier: Apache-2.0
"""A product of two matrices in blocks of 256 rows."""

import dpctl.tensor as dpt
from problems import product


def run(left, right):
    a, b = dpt.asarray(left, device="cpu"), dpt.asarray(right, device="cpu")
    c = dpt.empty_like(a)
    for row in range(0, 1024, 256):
        dpt.matmul(a[row : row + 256], b, out=c[row : row + 256])
    return dpt.asnumpy(c)


product.solve(run)
