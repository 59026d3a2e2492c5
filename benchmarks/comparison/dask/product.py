# SPDX-License-Identifier: Apache-2.0
"""A product of two matrices in blocks of 256 rows."""

import dask.array
from problems import product

product.solve(lambda left, right: (dask.array.from_array(left, chunks=(256, 1024)) @ right).compute())
