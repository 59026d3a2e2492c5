# SPDX-License-Identifier: Apache-2.0
"""oneDNN softmax and log-softmax over any axis."""

from __future__ import annotations

from functools import partial
from math import prod

from syclsched.kernels.onednn import names
from syclsched.kernels.onednn.implementing import Described, implementation
from syclsched.kernels.onednn.requests import Argument, Request
from syclsched.kernels.onednn.tensors import plain
from syclsched.model.operation import Implementation, Signature


def softmax(*, axis: int, log: bool) -> Implementation:
    """Return oneDNN's softmax: parameters y and x."""
    return implementation(partial(_softmax, axis=axis, log=log), efficiency=0.4)


def _softmax(signature: Signature, *, axis: int, log: bool) -> Described:
    shape = signature.shapes["x"]
    axis %= len(shape)
    before, along, behind = prod(shape[:axis]), shape[axis], prod(shape[axis + 1 :])
    x = plain((before, along) if behind == 1 else (before, along, behind), signature.dtypes["x"])
    arguments = Argument("x", names.SRC, x), Argument("y", names.DST, x)
    return Described(Request("softmax", arguments, (names.SOFTMAX[log], 1)))
