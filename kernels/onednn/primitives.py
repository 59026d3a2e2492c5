# SPDX-License-Identifier: Apache-2.0
"""LRU cache of oneDNN primitives, one for equal requests on an engine."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Final

from syclsched.errors import CapabilityError
from syclsched.kernels.onednn import c_api
from syclsched.kernels.onednn.engines import DnnlEngine
from syclsched.kernels.onednn.handles import DnnlCache, Handle
from syclsched.kernels.onednn.post_ops import Sum
from syclsched.kernels.onednn.primitive_descriptors import attributes, create, descriptor
from syclsched.kernels.onednn.requests import PrimitiveArgument, PrimitiveRequest, note_refusal
from syclsched.kernels.onednn.status import check
from syclsched.kernels.onednn.tensors import Tensor

#: Cached primitives: enough for several large models. One takes some 10 to 100 kB of generated code.
CAPACITY: Final = 1024


@dataclass(frozen=True, slots=True)
class Primitive:
    """A compiled oneDNN primitive."""

    engine: DnnlEngine
    request: PrimitiveRequest
    description: Handle  # oneDNN's primitive descriptor
    handle: Handle  # the primitive
    implementation: str  # oneDNN's choice, such as ``brg_conv_fwd:avx512_core``

    def descriptor(self, index: int) -> ctypes.c_void_p:
        """Return an argument's memory descriptor, in the layout the library chose; owned by the primitive."""
        pointer = self.description.pointer
        query = self.engine.library.dnnl_primitive_desc_query_md
        return ctypes.c_void_p(query(pointer, c_api.QUERY_ARGUMENT, index))

    def size(self, argument: PrimitiveArgument) -> int:
        """Return an argument's size in bytes, in the layout the library chose."""
        return int(self.engine.library.dnnl_memory_desc_get_size(self.descriptor(argument.index)))

    def layout(self, argument: PrimitiveArgument) -> bytes:
        """Return the layout the library chose for an argument; equal bytes mean equal layouts."""
        library, described, length = self.engine.library, self.descriptor(argument.index), ctypes.c_size_t()
        what = f"layout of {argument.parameter!r}"
        check(library.dnnl_memory_desc_get_blob(None, ctypes.byref(length), described), what)
        found = ctypes.create_string_buffer(length.value)
        check(library.dnnl_memory_desc_get_blob(found, ctypes.byref(length), described), what)
        return found.raw

    @property
    def scratchpad_bytes(self) -> int:
        """Bytes of the scratchpad the caller must provide."""
        query = self.engine.library.dnnl_primitive_desc_query_md
        md = ctypes.c_void_p(query(self.description.pointer, c_api.QUERY_SCRATCHPAD, 0))
        return int(self.engine.library.dnnl_memory_desc_get_size(md)) if md.value is not None else 0


_primitives: DnnlCache[Primitive] = DnnlCache(CAPACITY)
_reorders: DnnlCache[Primitive | None] = DnnlCache(CAPACITY)


def primitive_of(engine: DnnlEngine, request: PrimitiveRequest) -> Primitive:
    """Return the primitive of a request on an engine."""

    def make() -> Primitive:
        library = engine.library
        try:
            description = create(engine, request)
            implementation = _implementation(engine, description)
            _check_known_defects(request, implementation)
            handle = Handle(library, "primitive").make(
                library.dnnl_primitive_create, description.pointer, what=f"primitive {request.kind}"
            )
        except CapabilityError as error:
            if engine.device.is_cpu:  # it may have implementations that others lack, whose refusals go into histories
                note_refusal(request, error.what)
            raise
        return Primitive(engine, request, description, handle, implementation)

    return _primitives.get((engine.context, engine.device, request), make)


def reorder_of(primitive: Primitive, argument: PrimitiveArgument, plain: Tensor) -> Primitive | None:
    """Return the primitive that converts an argument from, or a result to, a layout of the caller; None if not needed.

    ``plain`` describes the caller's array.
    """
    engine = primitive.engine
    library, chosen = engine.library, primitive.descriptor(argument.index)

    def make() -> Primitive | None:
        given = descriptor(engine, plain)
        if library.dnnl_memory_desc_equal(given.pointer, chosen):
            return None
        source, target = given.pointer, chosen
        if argument.index in c_api.RESULTS:
            source, target = target, source
        request = PrimitiveRequest("reorder", ())
        attr = attributes(engine, request)
        description = Handle(library, "primitive_desc").make(
            library.dnnl_reorder_primitive_desc_create,
            *(source, engine.handle.pointer, target, engine.handle.pointer, attr.pointer),
            what=f"reorder of {argument.parameter!r}",
        )
        handle = Handle(library, "primitive").make(library.dnnl_primitive_create, description.pointer, what="reorder")
        return Primitive(engine, request, description, handle, _implementation(engine, description))

    return _reorders.get((engine.context, engine.device, primitive.request, argument.index, plain), make)


def _implementation(engine: DnnlEngine, description: Handle) -> str:
    """Return the name of the implementation that the library chose."""
    name = ctypes.c_char_p()
    query = engine.library.dnnl_primitive_desc_query
    queried = query(description.pointer, c_api.QUERY_IMPLEMENTATION, 0, ctypes.byref(name))
    check(queried, "implementation's name")
    return (name.value or b"").decode()


def _check_known_defects(request: PrimitiveRequest, implementation: str) -> None:
    """Raise `CapabilityError` for a primitive that oneDNN 2024.2 creates, and that crashes the process when it runs."""
    if implementation != "jit_dw:sse41" or not any(isinstance(each, Sum) for each in request.post_ops):
        return
    result = request.tensor(c_api.DST)
    channels = 0 if result is None else result.dims[1]
    # Its vectors of four channels read a residual in place beyond the last channel.
    if channels % 4:
        raise CapabilityError(
            f"{implementation} crashes with a residual in place of {channels} channels, not a multiple of 4",
            where="oneDNN",
        )
