# SPDX-License-Identifier: Apache-2.0
"""oneDNN engines, one per device and context, and oneDNN streams, one per queue."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Final
from weakref import WeakValueDictionary

from syclsched.devices.native.queue_release import on_release
from syclsched.devices.native.sycl_types import SyclContext, SyclDevice, SyclQueue
from syclsched.kernels.onednn.handles import DnnlCache, Handle
from syclsched.kernels.onednn.library import DnnlLibrary, load
from syclsched.kernels.onednn.scratch import Arena

_ENGINES: Final = 16
_STREAMS: Final = 64


@dataclass(frozen=True)  # without slots, which take no weak references in Python 3.10
class DnnlEngine:
    """A oneDNN engine on a device in a context."""

    library: DnnlLibrary
    handle: Handle
    context: SyclContext
    device: SyclDevice


@dataclass(frozen=True)  # without slots, as above
class DnnlStream:
    """A oneDNN stream on a queue; its primitives share the scratchpad ``arena``, one after another."""

    engine: DnnlEngine
    handle: Handle
    queue: SyclQueue
    arena: Arena


_engines: DnnlCache[DnnlEngine] = DnnlCache(_ENGINES)
#: Engines that streams and primitives hold: oneDNN refuses a stream with a primitive of another engine, even of the
#: same device.
_held: WeakValueDictionary[tuple[SyclContext, SyclDevice], DnnlEngine] = WeakValueDictionary()
_streams: DnnlCache[DnnlStream] = DnnlCache(_STREAMS)
#: Streams that bound primitives hold.
_held_streams: WeakValueDictionary[SyclQueue, DnnlStream] = WeakValueDictionary()
on_release(_streams.clear)  # with the scratchpads of those that nothing else holds


def engine_of(queue: SyclQueue) -> DnnlEngine:
    """Return the engine of a queue's device and context: the same one as long as it is used."""

    def make() -> DnnlEngine:
        held = _held.get((queue.sycl_context, queue.sycl_device))
        if held is not None:
            return held
        library = load()
        device, context = queue.sycl_device, queue.sycl_context
        handle = Handle(library, "engine").make(
            library.dnnl_sycl_interop_engine_create,
            ctypes.c_void_p(device.addressof_ref()),
            ctypes.c_void_p(context.addressof_ref()),
            what=f"engine on {device.name.strip()!r}",
        )
        made = _held[context, device] = DnnlEngine(library, handle, context, device)
        return made

    return _engines.get((queue.sycl_context, queue.sycl_device), make)


def stream_of(queue: SyclQueue) -> DnnlStream:
    """Return the stream of a queue: the same one as long as it is used."""

    def make() -> DnnlStream:
        held = _held_streams.get(queue)
        if held is not None:
            return held
        engine = engine_of(queue)
        handle = Handle(engine.library, "stream").make(
            engine.library.dnnl_sycl_interop_stream_create,
            engine.handle.pointer,
            ctypes.c_void_p(queue.addressof_ref()),
            what="stream",
        )
        made = DnnlStream(engine, handle, queue, Arena(queue, shared=queue.is_in_order))
        _held_streams[queue] = made
        return made

    return _streams.get(queue, make)
