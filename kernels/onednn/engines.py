# SPDX-License-Identifier: Apache-2.0
"""oneDNN engines, one per device and context, and oneDNN streams, one per queue."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Final

from syclsched.devices.native.sycl_types import SyclContext, SyclDevice, SyclQueue
from syclsched.kernels.onednn.handles import DnnlCache, Handle
from syclsched.kernels.onednn.library import DnnlLibrary, load
from syclsched.kernels.onednn.scratch import Arena

_ENGINES: Final = 16
_STREAMS: Final = 64


@dataclass(frozen=True, slots=True)
class DnnlEngine:
    """A oneDNN engine on a device in a context."""

    library: DnnlLibrary
    handle: Handle
    context: SyclContext
    device: SyclDevice


@dataclass(frozen=True, slots=True)
class DnnlStream:
    """A oneDNN stream on a queue; its primitives share the scratchpad ``arena``, one after another."""

    engine: DnnlEngine
    handle: Handle
    queue: SyclQueue
    arena: Arena


_engines: DnnlCache[DnnlEngine] = DnnlCache(_ENGINES)
_streams: DnnlCache[DnnlStream] = DnnlCache(_STREAMS)


def engine_of(queue: SyclQueue) -> DnnlEngine:
    """Return the engine of a queue's device and context."""

    def make() -> DnnlEngine:
        library = load()
        device, context = queue.sycl_device, queue.sycl_context
        handle = Handle(library, "engine").make(
            library.dnnl_sycl_interop_engine_create,
            ctypes.c_void_p(device.addressof_ref()),
            ctypes.c_void_p(context.addressof_ref()),
            what=f"engine on {device.name.strip()!r}",
        )
        return DnnlEngine(library, handle, context, device)

    return _engines.get((queue.sycl_context, queue.sycl_device), make)


def stream_of(queue: SyclQueue) -> DnnlStream:
    """Return the stream of a queue."""

    def make() -> DnnlStream:
        engine = engine_of(queue)
        handle = Handle(engine.library, "stream").make(
            engine.library.dnnl_sycl_interop_stream_create,
            engine.handle.pointer,
            ctypes.c_void_p(queue.addressof_ref()),
            what="stream",
        )
        return DnnlStream(engine, handle, queue, Arena(queue, shared=queue.is_in_order))

    return _streams.get(queue, make)
