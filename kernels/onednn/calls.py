# SPDX-License-Identifier: Apache-2.0
"""oneDNN primitives bound to arrays: submitted from Python, or exported as calls for compiled code."""

from __future__ import annotations

import contextlib
import ctypes
import sys
import threading
from collections import OrderedDict, deque
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from weakref import ref

from syclsched.devices.memory.usm_memory import allocate
from syclsched.devices.native.queue_release import on_release
from syclsched.devices.native.sycl_types import SyclEvent, SyclQueue
from syclsched.errors import ExecutionError
from syclsched.kernels.onednn import c_api
from syclsched.kernels.onednn.engines import DnnlStream, engine_of, stream_of
from syclsched.kernels.onednn.handles import Handle
from syclsched.kernels.onednn.primitive_descriptors import descriptor
from syclsched.kernels.onednn.primitives import Primitive, primitive_of, reorder_of
from syclsched.kernels.onednn.requests import PrimitiveArgument, PrimitiveRequest
from syclsched.kernels.onednn.status import check, explain
from syclsched.kernels.onednn.tensors import Tensor

if TYPE_CHECKING:
    from syclsched.model.operation import NativeCall

#: Primitives released while running: an event, and the objects that must live until it completes.
_released_in_flight: Final[list[tuple[Any, ...]]] = []
#: Bindings that a loaded primitive caches.
_MOST_BINDINGS: Final = 64


class _ExecutionArgument(ctypes.Structure):
    """oneDNN's ``dnnl_exec_arg_t``."""

    _fields_ = [("index", ctypes.c_int), ("memory", ctypes.c_void_p)]


def execution_arguments(memories: Mapping[int, Handle]) -> Any:
    """Return memory objects as oneDNN's argument array; the caller keeps the objects alive."""
    pairs = [_ExecutionArgument(index, memory.pointer) for index, memory in memories.items()]
    return (_ExecutionArgument * len(pairs))(*pairs)


def _drop_completed() -> None:
    """Drop the references whose events have completed."""
    import dpctl

    for each in list(_released_in_flight):
        if each[0].execution_status == dpctl.event_status_type.complete:
            with contextlib.suppress(ValueError):  # another thread removed it
                _released_in_flight.remove(each)


class BoundPrimitive:
    """A primitive with memory objects on its arrays and a stream to run on; ``held`` is kept as long as it may run."""

    def __init__(self, primitive: Primitive, stream: DnnlStream, pointers: Mapping[int, int], held: Any = None) -> None:
        self.primitive = primitive
        self.stream = stream
        scratch = stream.arena.piece(primitive.scratchpad_bytes)
        handles = {index: self._memory(index, pointer) for index, pointer in pointers.items()}
        if scratch is not None:
            handles[c_api.SCRATCHPAD] = self._memory(c_api.SCRATCHPAD, scratch._pointer)
        self._keep = (held, scratch, tuple(handles.values()))
        self.count = len(handles)
        self.arguments = execution_arguments(handles)
        self.event: SyclEvent | None = None

        _drop_completed()

    def _memory(self, index: int, pointer: int) -> Handle:
        engine = self.primitive.engine
        library = engine.library
        # Of scales and zero points the primitive has no descriptor.
        numbers = [each.tensor for each in self.primitive.request.quantisation if each.index == index]
        own = descriptor(engine, numbers[0]) if numbers else None
        return Handle(library, "memory").make(
            library.dnnl_sycl_interop_memory_create,
            self.primitive.descriptor(index) if own is None else own.pointer,
            engine.handle.pointer,
            c_api.IN_USM,
            ctypes.c_void_p(pointer),
            what="memory",
        )

    @property
    def words(self) -> tuple[int, ...]:
        """Arguments of ``dnnl_sycl_interop_primitive_execute``: no input events, and the output event last."""
        primitive, stream = self.primitive.handle.pointer.value, self.stream.handle.pointer.value
        assert primitive is not None and stream is not None
        return primitive, stream, self.count, ctypes.addressof(self.arguments), 0, 0

    def submit(self) -> SyclEvent:
        """Submit the primitive and return its event."""
        import dpctl

        event: SyclEvent = dpctl.SyclEvent()
        status = self.primitive.engine.library.dnnl_sycl_interop_primitive_execute(
            self.primitive.handle.pointer,
            self.stream.handle.pointer,
            self.count,
            self.arguments,
            None,
            ctypes.c_void_p(event.addressof_ref()),
        )
        check(status, self.primitive.request.kind)
        self.event = event
        return event

    @property
    def is_running(self) -> bool:
        """Whether the last submission may still use the memory objects."""
        import dpctl

        return self.event is not None and self.event.execution_status != dpctl.event_status_type.complete

    def __del__(self) -> None:
        if sys is None or sys.is_finalizing():  # None when the module is already torn down
            return
        if getattr(self, "event", None) is not None and self.is_running:
            _released_in_flight.append((self.event, self.primitive, self.stream, self._keep, self.arguments))


def _bound(
    primitive: Primitive, stream: DnnlStream, pointers: Mapping[int, int], plain: Mapping[str, Tensor]
) -> tuple[BoundPrimitive, ...]:
    """Bind a primitive, and the conversions before and after it of arrays whose layout the library chose.

    The converted arrays are not in the stream's scratchpad: between the primitives, other runs may use it.
    """
    inside, before, after = dict(pointers), [], []
    for argument in primitive.request.arguments:
        given, index = plain.get(argument.parameter), argument.index
        reorder = None if given is None else reorder_of(primitive, argument, given)
        if reorder is None:
            continue
        converted = allocate(stream.queue, primitive.size(argument), "device")
        inside[index] = converted._pointer
        if index in c_api.RESULTS:
            ends = {c_api.SRC: inside[index], c_api.DST: pointers[index]}
            after.append(BoundPrimitive(reorder, stream, ends, converted))
        else:
            ends = {c_api.SRC: pointers[index], c_api.DST: inside[index]}
            before.append(BoundPrimitive(reorder, stream, ends, converted))
    return *before, BoundPrimitive(primitive, stream, inside, (*before, *after)), *after


def submit_empty(queue: SyclQueue, arguments: Mapping[str, Any], depends: list[SyclEvent]) -> SyclEvent:
    """Submit a fence in place of a primitive whose result has no elements; see `LoadedPrimitive.submit`."""
    from syclsched.devices.native.fences import submit_fence

    return submit_fence(queue, depends)


class LoadedPrimitive:
    """A request's loaded primitive: the result of a oneDNN implementation's ``load``."""

    #: It reads nothing of its arrays but their addresses and types.
    takes_addresses: Final = True

    def __init__(self, request: PrimitiveRequest, plain: Mapping[str, Tensor] | None = None) -> None:
        self.request = request
        #: Parameter -> the layout of its array, if the library chooses that of the primitive: converted in each call.
        self.plain = plain or {}
        self._lock = threading.Lock()
        self._bound: OrderedDict[Any, tuple[BoundPrimitive, ...]] = OrderedDict()

    def __call__(self, queue: SyclQueue, arguments: Mapping[str, Any], depends: list[SyclEvent]) -> SyclEvent:
        """Submit to a queue; see `submit`."""
        return self.submit(queue, arguments, depends)

    def submit(self, queue: SyclQueue, arguments: Mapping[str, Any], depends: list[SyclEvent]) -> SyclEvent:
        """Submit to a queue after the events ``depends``; return the last event."""
        from syclsched.devices.native.fences import submit_fence

        if depends:
            submit_fence(queue, depends)
        with self._lock:
            *before, last = self._bind_cached(queue, arguments)
            for each in before:
                event = each.submit()
                if not queue.is_in_order:
                    event.wait()
            return last.submit()

    def check(self, queue: SyclQueue) -> None:
        """Create the primitive for a queue's device, or raise `CapabilityError`."""
        primitive_of(engine_of(queue), self.request)

    def native(self, queue: SyclQueue, arguments: Mapping[str, Any]) -> Any:
        """Return the submission as a call that compiled code can make, or as a tuple of several calls."""
        calls = self._native(queue, self._pointers(arguments))
        return calls[0] if len(calls) == 1 else calls

    def _native(self, queue: SyclQueue, pointers: Mapping[int, int]) -> tuple[NativeCall, ...]:
        from syclsched.model.operation import NativeCall

        bound = self._bind(queue, pointers)
        function = bound[0].primitive.engine.library.address("dnnl_sycl_interop_primitive_execute")
        # On a GPU oneDNN submits kernels to the queue; on a CPU a thread of the SYCL runtime computes.
        on_queue = not queue.sycl_device.is_cpu
        movable = not on_queue and len(bound) == 1
        return tuple(
            NativeCall(
                function,
                each.words,
                (self, each),
                explain,
                event=5,
                on_queue=on_queue,
                reading_elsewhere=partial(self._reading_elsewhere, queue, pointers) if movable else None,
            )
            for each in bound
        )

    def _reading_elsewhere(self, queue: SyclQueue, pointers: Mapping[int, int], address: int) -> Any:
        """Return a call that reads its source from another address; see `NativeCall`. None if impossible."""
        from syclsched.model.operation import ReadingElsewhere

        at = [index for index, pointer in pointers.items() if pointer == address]
        if at != [c_api.SRC]:  # an array that is written, or passed twice, cannot move
            return None
        (call,) = self._native(queue, pointers)
        bound: BoundPrimitive = call.keep[1]
        moved = next(each.memory for each in bound.arguments if each.index == c_api.SRC)
        library = bound.primitive.engine.library
        return ReadingElsewhere(call, library.address("dnnl_memory_set_data_handle"), moved)

    def _bind(self, queue: SyclQueue, pointers: Mapping[int, int]) -> tuple[BoundPrimitive, ...]:
        stream = stream_of(queue)
        return _bound(primitive_of(stream.engine, self.request), stream, pointers, self.plain)

    def _bind_cached(self, queue: SyclQueue, arguments: Mapping[str, Any]) -> tuple[BoundPrimitive, ...]:
        """Return the primitive bound to these arrays, from the cache if possible."""
        pointers = self._pointers(arguments)
        key = (queue, tuple(pointers.values()))
        bound = self._bound.get(key)
        # On an out-of-order queue, two submissions in flight would share the scratchpad.
        if bound is None or not (queue.is_in_order or not bound[-1].is_running):
            bound = self._bind(queue, pointers)
            if not self._bound:
                _with_bindings.append(ref(self))
            self._bound[key] = bound
            while len(self._bound) > _MOST_BINDINGS:
                self._bound.popitem(last=False)
        self._bound.move_to_end(key)
        return bound

    def forget_bindings(self) -> bool:
        """Drop the cached bindings, with their memory and streams; one that runs is kept until it has completed.

        Returns False, and keeps them, while a thread submits: it may be this one, interrupted by the garbage collector.
        """
        if not self._lock.acquire(blocking=False):
            return False
        try:
            self._bound.clear()
        finally:
            self._lock.release()
        return True

    def _pointers(self, arguments: Mapping[str, Any]) -> dict[int, int]:
        return {a.index: _pointer_of(arguments[a.parameter], a) for a in self.request.all_arguments()}


#: Primitives that cache bindings: kept with their implementations, they outlive the queues. Without a lock, because the
#: garbage collector may close devices while a primitive is added.
_with_bindings: Final[deque[ref[LoadedPrimitive]]] = deque()


@on_release
def _forget_bindings() -> None:
    """Drop the bindings of all primitives but those that are being submitted; others bind again when they are used."""
    for _ in range(len(_with_bindings)):
        try:
            primitive = _with_bindings.popleft()()
        except IndexError:  # another thread has done the rest
            return
        if primitive is not None and not primitive.forget_bindings():
            _with_bindings.append(ref(primitive))


def _pointer_of(array: Any, argument: PrimitiveArgument) -> int:
    """Return the USM pointer of an array passed to a primitive."""
    if argument.tensor.strides is not None and str(array.dtype) != argument.tensor.dtype:
        raise ExecutionError(f"array {argument.parameter!r} is {array.dtype}, not {argument.tensor.dtype}")
    return int(array._pointer)


def implementation_of(queue: SyclQueue, request: PrimitiveRequest) -> str:
    """Return the name of the implementation oneDNN chooses for a request on a queue's device."""
    return primitive_of(engine_of(queue), request).implementation
