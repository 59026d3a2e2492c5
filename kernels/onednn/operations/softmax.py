# SPDX-License-Identifier: Apache-2.0
"""oneDNN softmax and log-softmax over any axis."""

from __future__ import annotations

from functools import partial
from math import prod

from syclsched.kernels.onednn import c_api
from syclsched.kernels.onednn.primitive_spec import PrimitiveSpec, implementation
from syclsched.kernels.onednn.requests import PrimitiveArgument, PrimitiveRequest
from syclsched.kernels.onednn.tensors import plain
from syclsched.model.operation import Implementation, Signature


def softmax(*, axis: int, log: bool) -> Implementation:
    """Return oneDNN's softmax: parameters y and x."""
    return implementation(partial(_softmax, axis=axis, log=log), efficiency=0.4)


def _softmax(signature: Signature, *, axis: int, log: bool) -> PrimitiveSpec:
    shape = signature.shapes["x"]
    axis %= len(shape)
    before, along, behind = prod(shape[:axis]), shape[axis], prod(shape[axis + 1 :])
    x = plain((before, along) if behind == 1 else (before, along, behind), signature.dtypes["x"])
    arguments = PrimitiveArgument("x", c_api.SRC, x), PrimitiveArgument("y", c_api.DST, x)
    return PrimitiveSpec(PrimitiveRequest("softmax", arguments, (c_api.SOFTMAX[log], 1)))
