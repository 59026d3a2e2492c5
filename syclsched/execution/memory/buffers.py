# SPDX-License-Identifier: Apache-2.0
"""Buffers of one run: allocation, views for devices and host, accounting, and release."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from syclsched.devices.memory import usm_memory
from syclsched.devices.memory.constant_uploads import ConstantUploader
from syclsched.devices.memory.memory_pool import MemoryBlock, padded
from syclsched.devices.memory.resident_array import InputValue, ResidentArray, address_of, host_value
from syclsched.devices.native.memory_range import MemoryRange
from syclsched.devices.native.sycl_types import SyclQueue
from syclsched.devices.programs.arguments import BoundArray
from syclsched.devices.submission import faultpoints
from syclsched.errors import MemoryLimitError
from syclsched.execution.core.program import Buffer
from syclsched.execution.memory.memory_layout import MemoryLayout
from syclsched.model.access import RowRange, row_range_name
from syclsched.model.plan import Instruction, Plan, PlannedArray, PlannedRows
from syclsched.model.platform import HOST, Platform
from syclsched.model.usm import ArrayMemory, PoolKey, PoolKeys

if TYPE_CHECKING:
    from syclsched.devices.opened_devices import OpenDevices

NumpyArray = np.ndarray[Any, np.dtype[Any]]


class AllocatedBuffer:
    """Memory of one array, or of some of its rows, in one memory space."""

    __slots__ = ("__weakref__", "_parts", "_shared", "_views", "_whole", "array", "block", "held", "on_host", "owned")

    def __init__(
        self,
        array: PlannedArray,
        held: NumpyArray | MemoryRange,
        *,
        on_host: bool,
        owned: bool,
        block: MemoryBlock | None = None,
    ) -> None:
        self.array = array
        #: The memory, as the compiled loop takes it.
        self.held = held
        self.on_host = on_host
        self.owned = owned
        self.block = block
        #: Whether a result array shares the memory, or that of the whole buffer of which this is a part.
        self._shared = False
        self._whole: AllocatedBuffer | None = None
        # Made on first use, as most buffers have one kind of view at most.
        self._views: dict[int | tuple[int, tuple[int, ...]], BoundArray] | None = None
        self._parts: dict[RowRange, AllocatedBuffer] | None = None

    def part(self, start: int, stop: int) -> AllocatedBuffer:
        """Return a view of some rows; the same object for the same rows."""
        if self._parts is None:
            self._parts = {}
        found = self._parts.get((start, stop))
        if found is None:
            whole = self.array
            row_bytes = whole.nbytes // whole.shape[0]
            nbytes = row_bytes * (stop - start)
            array = PlannedArray(
                row_range_name(whole.name, (start, stop)), (stop - start, *whole.shape[1:]), whole.dtype, nbytes
            )
            held = self.held
            part = held[start:stop] if isinstance(held, np.ndarray) else held.part(start * row_bytes, nbytes)
            found = AllocatedBuffer(array, part, on_host=self.on_host, owned=self.owned)
            found._whole = self._whole or self
            self._parts[start, stop] = found
        return found

    @property
    def storage(self) -> Any:
        """The memory as NumPy array or dpctl memory object."""
        return self.held if isinstance(self.held, np.ndarray) else self.held.memory

    @property
    def is_usm(self) -> bool:
        """Whether the memory is USM."""
        return not isinstance(self.held, np.ndarray)

    @property
    def address(self) -> int:
        """Address of the first byte."""
        return int(self.held.ctypes.data if isinstance(self.held, np.ndarray) else self.held._pointer)

    def mark_shared(self) -> None:
        """Mark the memory as shared with a result array: it is then released with that array."""
        (self._whole or self)._shared = True

    def give_back(self) -> None:
        """Return the memory to its pool, unless it is shared; it must no longer be in use."""
        if self.block is not None and not self._shared:
            self.block.give_back()

    def bound(self, lane: int, queue: SyclQueue, shape: tuple[int, ...] | None = None) -> BoundArray:
        """Return the buffer as a kernel argument for a lane's queue, without a copy."""
        key = lane if shape is None else (lane, shape)
        if self._views is None:
            self._views = {}
        view = self._views.get(key)
        if view is None:
            assert isinstance(self.held, MemoryRange), self.array.name
            shape = self.array.shape if shape is None else shape
            view = self._views[key] = BoundArray(self.held, shape, self.array.dtype, queue)
        return view

    def usm_array(self, queue: SyclQueue) -> Any:
        """Return the buffer as `usm_ndarray` on a queue, without a copy."""
        assert isinstance(self.held, MemoryRange), self.array.name
        return self.held.usm_array(self.array.shape, self.array.dtype, queue)

    def numpy(self, *, writable: bool) -> NumpyArray:
        """Return the buffer as a NumPy array, without a copy."""
        held = self.held
        if isinstance(held, np.ndarray):
            view: NumpyArray = held.view()
        else:
            view = usm_memory.as_numpy(held, self.array.shape, self.array.dtype)
        if not writable:
            view.flags.writeable = False
        return view

    def copy_operand(self, queue: SyclQueue) -> Any:
        """Return the buffer as an operand of ``SyclQueue.memcpy_async`` on a queue."""
        if not self.is_usm:
            return usm_memory.as_bytes(self.storage)
        if self.on_host and self.storage.sycl_context != queue.sycl_context:
            return np.asarray(self.storage)  # to this queue, memory of another context is a plain host pointer
        return self.storage


class BufferLookup(Protocol):
    """Read access to a set of buffers."""

    def get(self, buffer: Buffer) -> AllocatedBuffer | None:
        """Return a buffer, or None if it is not allocated."""

    def __getitem__(self, buffer: Buffer) -> AllocatedBuffer:
        found = self.get(buffer)
        if found is None:
            raise KeyError(buffer)
        return found

    def __contains__(self, buffer: Buffer) -> bool:
        return self.get(buffer) is not None

    def clear(self) -> None:
        """Release all buffers."""


class BufferTable(BufferLookup):
    """All buffers of one run, by array and memory space."""

    def __init__(
        self,
        platform: Platform,
        devices: OpenDevices,
        arrays: Mapping[str, PlannedArray],
        ranges: Mapping[str, PlannedRows] | None = None,
        memory: Iterable[ArrayMemory] = (),
    ) -> None:
        self._host_accessible = {s.name for s in platform.spaces if s.host_accessible} | {HOST}
        self._keys = PoolKeys(platform, memory)
        #: Inputs that kernels use in place, and their memory space.
        self.residents = {chosen.array: chosen.space for chosen in memory if chosen.resident}
        self._devices = devices
        self._arrays = arrays
        self._rows = {name: array.rows for name, array in arrays.items() if array.rows is not None} | dict(ranges or {})
        self._buffers: dict[Buffer, AllocatedBuffer] = {}
        self._held_bytes: dict[str, int] = {}
        #: Peak bytes of arrays, by memory space.
        self.peak_bytes: dict[str, int] = {}
        #: Peak bytes of allocated memory, by memory space: includes early allocations and padding.
        self.held_bytes: dict[str, int] = {}
        self._taken: dict[str, int] = {}
        self._own: dict[str, AllocatedBuffer] = {}
        # With a static layout: its blocks, its buffers by number of the `alloc`, and each buffer's last `alloc`.
        self._blocks: list[MemoryBlock] = []
        self._laid_out: dict[int, AllocatedBuffer] = {}
        self._last: dict[Buffer, int] = {}

    @property
    def uploads(self) -> ConstantUploader:
        """Uploader of constants to device memory."""
        return self._devices.uploads

    def add_input(self, name: str, data: InputValue, *, private: bool) -> None:
        """Add an input in host memory; a resident input in its own space."""
        if name in self.residents:
            self.set_resident(name, data)
            return
        data = host_value(data)
        storage = data.copy() if private else data
        self._buffers[name, HOST] = AllocatedBuffer(self._arrays[name], storage, on_host=True, owned=private)

    def set_resident(self, name: str, data: InputValue) -> bool:
        """Set a resident input: in place if kernels can read it there, else by a copy. Return whether it moved.

        No kernel may still be reading the previous value.
        """
        buffer = name, self.residents[name]
        before, array = self._buffers.get(buffer), self._arrays[name]
        if before is not None and address_of(data) == before.address:
            return False
        key = self._keys[buffer]
        if isinstance(data, ResidentArray):
            if key.kind == "device" and data.is_reachable_by(self._devices.allocator_queue(key.space)):
                self._buffers[buffer] = AllocatedBuffer(array, data.memory, on_host=False, owned=False)
                return True
            data = data.read()
        if key.kind == "device":
            own = self._own_resident(name)
            usm_memory.write_from(data, own.storage)
            self._buffers[buffer] = own
            return own is not before
        if key.kind == "plain":
            self._buffers[buffer] = AllocatedBuffer(array, data, on_host=True, owned=False)
            return True
        found = usm_memory.usm_memory_of(data, self._devices.allocator_queue(key.context or key.space))
        if found is not None:
            self._buffers[buffer] = AllocatedBuffer(array, MemoryRange.around(found), on_host=True, owned=False)
            return True
        own = self._own_resident(name)
        np.copyto(own.numpy(writable=True), data)
        self._buffers[buffer] = own
        return own is not before

    def _own_resident(self, name: str) -> AllocatedBuffer:
        """Return memory for an input that kernels cannot use where it is; allocate it on first use."""
        own = self._own.get(name)
        if own is None:
            buffer = name, self.residents[name]
            own = self._own[name] = self._make(buffer, touch=True)
            self._note_taken(padded(own.array.nbytes), buffer[1])
        return own

    def prepare(self, buffers: Iterable[Buffer]) -> None:
        """Allocate buffers and touch their memory, before the plan starts."""
        pools: dict[PoolKey, list[Buffer]] = {}
        for buffer in buffers:
            pools.setdefault(self._keys[buffer], []).append(buffer)
        for key, wanted in pools.items():
            made = self._make_all(key, wanted)
            self._buffers.update(zip(wanted, made, strict=True))
            sizes = [live.array.nbytes for live in made]
            self._note_allocated(sum(sizes), sum(map(padded, sizes)), key.space)

    def place_in_layout(self, layout: MemoryLayout, plan: Plan) -> None:
        """Allocate and touch all the memory of a static layout, and place the plan's buffers in it."""
        held = []
        for key, nbytes in layout.blocks:
            block, storage = self._take(key, nbytes, f"{nbytes} bytes for arrays of {plan.name!r}", touch=True)
            self._blocks.append(block)
            held.append(storage)
        for _, instruction in plan.instructions():
            if instruction.kind == "alloc":
                use, place = instruction.uses[0], layout.places[instruction.id]
                buffer = self.memory_of((use.array, use.space))
                array = self._arrays[buffer[0]]
                key = layout.blocks[place.block][0]
                part = _cut(held[place.block], place.offset, array.nbytes)
                live = _live_buffer(array, part, on_host=self._on_host(key), block=None)
                self._laid_out[instruction.id] = self._buffers[buffer] = live
                self._last[buffer] = instruction.id
        self.peak_bytes = dict(layout.peak_bytes)
        self.held_bytes = dict(layout.nbytes)
        self._taken = dict(layout.nbytes)

    def use(self, buffer: Buffer, allocation: int | None) -> None:
        """Select which allocation of a buffer that is allocated several times is current; by default the last."""
        self._buffers[buffer] = self._laid_out[self._last[buffer] if allocation is None else allocation]

    def replace(self, buffer: Buffer, memory: MemoryRange) -> None:
        """Use other memory on a device for a buffer, until `use` selects its own again."""
        self._buffers[buffer] = AllocatedBuffer(self._arrays[buffer[0]], memory, on_host=False, owned=False)

    def can_use(self, buffer: Buffer, value: ResidentArray) -> bool:
        """Return whether kernels that use a buffer could use an array in its place."""
        return value.is_reachable_by(self._devices.allocator_queue(self._keys[buffer].space))

    def allocate(self, buffer: Buffer) -> None:
        """Allocate a buffer; free its previous allocation."""
        self.free(buffer)
        self._buffers[buffer] = made = self._make(buffer)
        self._note_allocated(made.array.nbytes, padded(made.array.nbytes), buffer[1])

    def _note_allocated(self, nbytes: int, padded_bytes: int, space: str) -> None:
        self._note_taken(padded_bytes, space)
        held = self._held_bytes[space] = self._held_bytes.get(space, 0) + nbytes
        self.peak_bytes[space] = max(held, self.peak_bytes.get(space, 0))

    def _note_taken(self, padded_bytes: int, space: str) -> None:
        self._taken[space] = self._taken.get(space, 0) + padded_bytes
        self.held_bytes[space] = max(self._taken[space], self.held_bytes.get(space, 0))

    def _make(self, buffer: Buffer, *, touch: bool = False) -> AllocatedBuffer:
        name, key = buffer[0], self._keys[buffer]
        array = self._arrays[name]
        block, storage = self._take(key, array.nbytes, f"{array.nbytes} bytes for array {name!r}", touch=touch)
        return _live_buffer(array, storage, on_host=self._on_host(key), block=block)

    def _make_all(self, key: PoolKey, buffers: Sequence[Buffer]) -> list[AllocatedBuffer]:
        """Allocate and touch buffers of one pool together; one by one if they do not all fit, to name the culprit."""
        arrays = [self._arrays[name] for name, _ in buffers]
        if faultpoints.active is None:  # faults are injected in single allocations
            with suppress(MemoryError, MemoryLimitError):
                found = self._devices.pools.take_all(key, [array.nbytes for array in arrays], touch=True)
                on_host = self._on_host(key)
                return [
                    _live_buffer(a, held, on_host=on_host, block=block)
                    for a, (block, held) in zip(arrays, found, strict=True)
                ]
        return [self._make(buffer, touch=True) for buffer in buffers]

    def _take(
        self, key: PoolKey, nbytes: int, purpose: str, *, touch: bool
    ) -> tuple[MemoryBlock, NumpyArray | MemoryRange]:
        try:
            found = self._devices.pools.take(key, nbytes, touch=touch)
        except (MemoryError, MemoryLimitError) as error:
            raise MemoryLimitError(
                f"{purpose} could not be allocated",
                where=f"memory space {key.space!r}",
                hint="Give memory back, or use smaller arrays (tiles, batches)",
                space=key.space,
            ) from error
        return found

    def _on_host(self, key: PoolKey) -> bool:
        """Return whether the host can access memory of a pool."""
        return key.kind != "device" and key.space in self._host_accessible

    def free(self, buffer: Buffer) -> int:
        """Free a buffer if it is allocated; return its bytes."""
        found = self._buffers.pop(buffer, None)
        if found is None:
            return 0
        self._held_bytes[buffer[1]] -= found.array.nbytes
        self._taken[buffer[1]] -= padded(found.array.nbytes)
        found.give_back()
        return found.array.nbytes

    def memory_of(self, buffer: Buffer) -> Buffer:
        """Return the buffer whose memory a buffer uses: that of the whole array for rows, else itself."""
        rows = self._rows.get(buffer[0])
        return buffer if rows is None else (rows.array, buffer[1])

    def ends(self, copy: Instruction) -> tuple[AllocatedBuffer, AllocatedBuffer]:
        """Return the source and target of a copy: an array, or the rows of several adjacent segments."""
        (first, _), (last, _) = copy.uses[:2], copy.uses[-2:]
        found = []
        for use in copy.uses[:2]:
            buffer: Buffer = (use.array, use.space)
            live = self.get(buffer if len(copy.uses) == 2 else self.memory_of(buffer))
            assert live is not None, buffer
            found.append(live)
        if len(copy.uses) > 2:
            start, stop = self._rows[first.array].start, self._rows[last.array].stop
            found = [live.part(start, stop) for live in found]
        return found[0], found[1]

    def get(self, buffer: Buffer) -> AllocatedBuffer | None:
        """Return a buffer, or None if it is not allocated."""
        rows = self._rows.get(buffer[0]) if self._rows else None
        if rows is None:
            return self._buffers.get(buffer)
        whole = self._buffers.get((rows.array, buffer[1]))
        return None if whole is None else whole.part(rows.start, rows.stop)

    def __contains__(self, buffer: Buffer) -> bool:
        return self.memory_of(buffer) in self._buffers

    def __len__(self) -> int:
        return len(self._buffers)

    def clear(self) -> None:
        """Release all memory, except memory shared with result arrays."""
        for live in (*self._buffers.values(), *self._own.values()):
            live.give_back()
        for block in self._blocks:
            block.give_back()
        self._blocks.clear()
        self._laid_out.clear()
        self._own.clear()
        self._buffers.clear()
        self._held_bytes.clear()


def _live_buffer(
    array: PlannedArray, held: NumpyArray | MemoryRange, *, on_host: bool, block: MemoryBlock | None
) -> AllocatedBuffer:
    if isinstance(held, np.ndarray):
        held = held.view(array.dtype).reshape(array.shape)
    return AllocatedBuffer(array, held, on_host=on_host, owned=True, block=block)


def _cut(held: NumpyArray | MemoryRange, start: int, nbytes: int) -> NumpyArray | MemoryRange:
    """Return a slice of memory, without a copy."""
    return held[start : start + nbytes] if isinstance(held, np.ndarray) else held.part(start, nbytes)
