# SPDX-License-Identifier: Apache-2.0
"""oneDNN engines, one per device and context, and oneDNN streams, one per queue."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any, Final

from syclsched.kernels.onednn.handles import Cache, Handle
from syclsched.kernels.onednn.library import Library, load
from syclsched.kernels.onednn.scratch import Arena

_ENGINES: Final = 16
_STREAMS: Final = 64


@dataclass(frozen=True, slots=True)
class Engine:
    """A oneDNN engine on a device in a context."""

    library: Library
    handle: Handle
    context: Any
    device: Any


@dataclass(frozen=True, slots=True)
class Stream:
    """A oneDNN stream on a queue; its primitives share the scratchpad ``arena``, one after another."""

    engine: Engine
    handle: Handle
    queue: Any
    arena: Arena


_engines: Cache[Engine] = Cache(_ENGINES)
_streams: Cache[Stream] = Cache(_STREAMS)


def engine_of(queue: Any) -> Engine:
    """Return the engine of a queue's device and context."""

    def make() -> Engine:
        library = load()
        device, context = queue.sycl_device, queue.sycl_context
        handle = Handle(library, "engine").make(
            library.dnnl_sycl_interop_engine_create,
            ctypes.c_void_p(device.addressof_ref()),
            ctypes.c_void_p(context.addressof_ref()),
            what=f"engine on {device.name.strip()!r}",
        )
        return Engine(library, handle, context, device)

    return _engines.get((queue.sycl_context, queue.sycl_device), make)


def stream_of(queue: Any) -> Stream:
    """Return the stream of a queue."""

    def make() -> Stream:
        engine = engine_of(queue)
        handle = Handle(engine.library, "stream").make(
            engine.library.dnnl_sycl_interop_stream_create,
            engine.handle.pointer,
            ctypes.c_void_p(queue.addressof_ref()),
            what="stream",
        )
        return Stream(engine, handle, queue, Arena(queue, shared=queue.is_in_order))

    return _streams.get(queue, make)
