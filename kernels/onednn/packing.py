# SPDX-License-Identifier: Apache-2.0
"""Packing of constants into the layouts that oneDNN primitives choose."""

from __future__ import annotations

import ctypes
from collections.abc import Hashable, Iterable, Mapping
from typing import Any

import numpy as np

from syclsched.devices.memory.usm_memory import allocate, as_bytes
from syclsched.devices.native.memory_range import MemoryRange
from syclsched.devices.native.sycl_types import SyclQueue
from syclsched.kernels.onednn import c_api
from syclsched.kernels.onednn.calls import execution_arguments
from syclsched.kernels.onednn.engines import stream_of
from syclsched.kernels.onednn.handles import Handle
from syclsched.kernels.onednn.primitive_descriptors import descriptor
from syclsched.kernels.onednn.primitives import primitive_of
from syclsched.kernels.onednn.requests import PrimitiveArgument, PrimitiveRequest
from syclsched.kernels.onednn.status import check
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
    engine, library = stream.engine, stream.engine.library
    primitive = primitive_of(engine, request)
    size = primitive.size(wanted)
    uploaded, packed = (allocate(queue, nbytes, "device") for nbytes in (values.nbytes, size))
    queue.memcpy(uploaded, as_bytes(values), values.nbytes)
    queue.memcpy(packed, np.zeros(size, np.uint8), size)  # the reorder need not write the padding
    given = descriptor(engine, source)
    target = primitive.descriptor(wanted.index)
    description = Handle(library, "primitive_desc").make(
        library.dnnl_reorder_primitive_desc_create,
        *(given.pointer, engine.handle.pointer, target, engine.handle.pointer, None),
        what=f"packing of {wanted.parameter!r}",
    )
    reorder = Handle(library, "primitive").make(library.dnnl_primitive_create, description.pointer, what="reorder")
    ends = []
    for md, array in ((given.pointer, uploaded), (target, packed)):
        memory = Handle(library, "memory")
        pointer = ctypes.c_void_p(int(array._pointer))
        create = library.dnnl_sycl_interop_memory_create
        ends.append(memory.make(create, md, engine.handle.pointer, c_api.IN_USM, pointer, what="memory"))
    arguments = execution_arguments({c_api.SRC: ends[0], c_api.DST: ends[1]})
    queue.wait()
    check(
        library.dnnl_primitive_execute(reorder.pointer, stream.handle.pointer, len(arguments), arguments),
        f"packing of {wanted.parameter!r}",
    )
    queue.wait()
    return MemoryRange.around(packed)
