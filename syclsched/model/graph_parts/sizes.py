# SPDX-License-Identifier: Apache-2.0
"""Array sizes in bytes, from shapes and dtypes."""

from __future__ import annotations

import math

import numpy as np

from syclsched.model.operation import Signature


def signature_bytes(signature: Signature) -> int:
    """Return the bytes of all arrays of a signature, each counted once."""
    return sum(math.prod(shape) * np.dtype(signature.dtypes[name]).itemsize for name, shape in signature.shapes.items())
