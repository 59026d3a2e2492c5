# SPDX-License-Identifier: Apache-2.0
"""Packing of constants into the layouts that oneDNN primitives choose."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import Any

import numpy as np

from syclsched.devices.memory.usm_memory import allocate, as_bytes
from syclsched.devices.native.memory_range import MemoryRange
from syclsched.devices.native.sycl_types import SyclQueue
from syclsched.kernels.onednn import c_api
from syclsched.kernels.onednn.calls import BoundPrimitive
from syclsched.kernels.onednn.engines import stream_of
from syclsched.kernels.onednn.primitives import primitive_of, reorder_of
from syclsched.kernels.onednn.requests import PrimitiveArgument, PrimitiveRequest
from syclsched.kernels.onednn.tensors import Tensor


def prepare(
    request: PrimitiveRequest | None,
    sources: Mapping[str, Tensor],
    queue: SyclQueue,
    constants: Mapping[str, np.ndarray[Any, Any]],
) -> dict[str, Any]:
    """Return the constants, those that the primitive takes in a layout of its own in device memory."""
    found: dict[str, Any] = {}
    for name, given in constants.items():
        values, wanted = np.ascontiguousarray(given), _packed(request, name)
        if request is None or wanted is None:
            found[name] = values
        else:
            found[name] = _pack(request, wanted, sources[name], values, queue)
    return found


def form(
    request: PrimitiveRequest | None, sources: Mapping[str, Tensor], queue: SyclQueue, parameters: Iterable[str]
) -> Hashable:
    """Return a key of the layouts that `prepare` produces; equal keys mean equal bytes for equal constants."""
    found: list[Hashable] = []
    for name in parameters:
        wanted = _packed(request, name)
        if request is None or wanted is None:
            found.append((name, None))
        else:
            primitive = primitive_of(stream_of(queue).engine, request)
            found.append((name, sources[name], primitive.layout(wanted)))
    return tuple(found)


def _packed(request: PrimitiveRequest | None, name: str) -> PrimitiveArgument | None:
    """Return the argument that a constant is packed for; None if it is passed unchanged."""
    if request is None:
        return None
    wanted = next((a for a in request.arguments if a.parameter == name), None)
    return None if wanted is None or wanted.tensor.strides is not None else wanted


def _pack(
    request: PrimitiveRequest,
    wanted: PrimitiveArgument,
    source: Tensor,
    values: np.ndarray[Any, Any],
    queue: SyclQueue,
) -> MemoryRange:
    """Reorder an array into the layout the primitive chose; block until done."""
    stream = stream_of(queue)
    primitive = primitive_of(stream.engine, request)
    size = primitive.size(wanted)
    uploaded, packed = (allocate(queue, nbytes, "device") for nbytes in (values.nbytes, size))
    queue.memcpy(uploaded, as_bytes(values), values.nbytes)
    queue.memcpy(packed, np.zeros(size, np.uint8), size)  # the reorder need not write the padding
    reorder = reorder_of(primitive, wanted, source)
    queue.wait()
    if reorder is None:
        return MemoryRange.around(uploaded)
    BoundPrimitive(reorder, stream, {c_api.SRC: uploaded._pointer, c_api.DST: packed._pointer}).submit()
    queue.wait()
    return MemoryRange.around(packed)
