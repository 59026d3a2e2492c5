# SPDX-License-Identifier: Apache-2.0
"""Open devices: the SYCL devices of a platform found on this machine, with their contexts and queues.

A platform is data, may come from a file, and is not trusted: every device is looked up by its filter string, compared
by product and driver, and must pass the known-answer test of this machine.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from typing import Literal

from syclsched.devices.discovery.device_facts import DeviceFacts, FoundDevice, find_devices
from syclsched.devices.discovery.platform_discovery import distrust
from syclsched.devices.discovery.subdevices import SubDevices, sycl_sub_devices
from syclsched.devices.memory.constant_uploads import ConstantUploader
from syclsched.devices.memory.memory_pool import MemoryInfo
from syclsched.devices.memory.space_pools import SpacePools
from syclsched.devices.native.host_tasks import wait_for_queue
from syclsched.devices.native.queue_release import tell_released
from syclsched.devices.native.submission_library import load_library
from syclsched.devices.native.sycl_types import SyclContext, SyclDevice, SyclQueue
from syclsched.errors import DeviceNotFoundError, PlatformError, SelectionError, UntrustedDeviceError
from syclsched.model.platform import Device, Partition, Platform
from syclsched.oneapi import stack_generation
from syclsched.oneapi.fork_check import check_not_forked, is_forked

#: Aspects that decide which implementations and memory a plan uses; names of others differ between versions of dpctl.
_PLANNED_ASPECTS = frozenset(
    ("fp16", "fp64", "atomic64", "usm_device_allocations", "usm_host_allocations", "usm_shared_allocations")
)

LaneKind = Literal["compute", "copy"]

#: In-order lanes are cheaper than event lists, and traces need every instruction's times.
_LANE_PROPERTIES = ["in_order", "enable_profiling"]


def find_root(device: Device, found: Iterable[DeviceFacts], *, any_driver: bool = False) -> DeviceFacts:
    """Return the root device of this machine that a described device is, or is a part of.

    With `any_driver` its driver may be another one, if the device then has the aspects that plans rely on.
    """
    roots = tuple(found)
    same = [facts for facts in roots if _describes(device, facts, any_driver)]
    if device.filter_string is not None and same:
        return next((facts for facts in same if facts.filter_string == device.filter_string), same[0])
    here = ", ".join(f"{f.filter_string} ({f.name}, driver {f.driver_version})" for f in roots) or "no device"
    what = f"{device.description}, driver {device.driver_version or 'unknown'}"
    raise DeviceNotFoundError(
        f"{what}: not on this machine" if device.filter_string is not None else f"{what}: described, not discovered",
        where=f"device {device.name!r}",
        hint=f"This machine has {here}; plan again with `discover()`",
    )


def match_roots(
    devices: Iterable[Device], found: Sequence[DeviceFacts], *, any_driver: bool = False
) -> dict[str, DeviceFacts]:
    """Return the root devices of all described devices, by name; different hardware stays different."""
    owners: dict[DeviceFacts, str | None] = {}
    matched: dict[str, DeviceFacts] = {}
    for device in devices:
        free = [facts for facts in found if owners.get(facts, device.filter_string) == device.filter_string]
        known = [facts for facts in free if facts in owners]
        root = find_root(device, known or free, any_driver=any_driver)
        owners[root] = device.filter_string
        matched[device.name] = root
    return matched


def _describes(device: Device, facts: DeviceFacts, any_driver: bool) -> bool:
    product = (device.backend, device.kind, device.description) == (facts.backend, facts.kind, facts.name)
    has_planned = _PLANNED_ASPECTS.intersection(device.aspects) <= set(facts.aspects)
    return product and (device.driver_version == facts.driver_version or (any_driver and has_planned))


class OpenDevices:
    """The contexts and queues of a platform's devices; made by `open_devices`.

    One SYCL context holds all devices of a memory space. It is the SYCL platform's default context where that contains
    them, so that arrays made elsewhere on default queues (dpnp's, say) belong to it.
    """

    def __init__(self, platform: Platform, sycl_devices: dict[str, SyclDevice], roots: dict[str, SyclDevice]) -> None:
        self.platform = platform
        self._devices = sycl_devices
        self._roots = roots
        self._lock = threading.RLock()
        self._contexts: dict[str, SyclContext] = {}
        self._queues: dict[tuple[str, str, int], SyclQueue] = {}
        self._allocators: dict[str, SyclQueue] = {}
        self._closed = self._left_behind = False
        #: The memory pools of all memory spaces.
        self.pools = SpacePools(platform, self.allocator_queue)
        #: Uploads constants to these memory spaces.
        self.uploads = ConstantUploader(self.allocator_queue, self.pools.kind)

    def sycl_device(self, name: str) -> SyclDevice:
        """Return the ``dpctl.SyclDevice`` of a device."""
        with self._lock:
            self._check_open()
            device = self.platform.device(name)
            if device.is_host:
                raise PlatformError("the host has no SYCL device and no queues", where=f"device {name!r}")
            return self._devices[name]

    def context(self, name: str) -> SyclContext:
        """Return the ``dpctl.SyclContext`` of a device's memory space."""
        with self._lock:
            self.sycl_device(name)
            space = self.platform.device(name).space
            if space not in self._contexts:
                self._contexts[space] = self._make_context(space)
            return self._contexts[space]

    def queue(self, device: str, kind: LaneKind = "compute", index: int = 0) -> SyclQueue:
        """Return an in-order queue of a device, with profiling; the same one at every call."""
        if kind not in ("compute", "copy") or index < 0:
            raise PlatformError(f"no lane {kind}:{index}", where=f"device {device!r}")
        with self._lock:
            lane = (device, kind, index)
            if lane not in self._queues:
                self._queues[lane] = self._make_queue(self.context(device), self.sycl_device(device))
            self._check_open()
            return self._queues[lane]

    def allocator_queue(self, space: str) -> SyclQueue:
        """Return the queue on which USM memory of a space is allocated.

        For the host's own space it is a queue of the first device with memory of its own, whose copies need no staging
        from memory of kind ``host`` allocated in its context; else of the first device.
        """
        with self._lock:
            self._check_open()
            if space not in self._allocators:
                self.platform.space(space)
                devices = self.platform.compute_devices
                apart = (d for d in devices if not self.platform.space(d.space).host_accessible)
                members = self._members(space) or self._members(next(apart, devices[0]).space)
                owner = self._owner(members)
                self._allocators[space] = self._make_queue(self.context(members[0].name), owner)
            return self._allocators[space]

    def memory(self) -> dict[str, MemoryInfo]:
        """Return the memory use of each space in use: in use, reserved for later, and peaks."""
        return self.pools.info()

    def trim_memory(self) -> int:
        """Free pooled memory that is not in use, and return how many bytes were freed.

        Otherwise it is kept for later runs until the devices are closed.
        """
        return self.pools.trim()

    def queues(self) -> tuple[SyclQueue, ...]:
        """Return all queues made so far."""
        with self._lock:
            return (*self._queues.values(), *self._allocators.values())

    def wait(self) -> None:
        """Wait until all queues are empty."""
        for queue in self.queues():
            wait_for_queue(queue)

    def abandon(self) -> None:
        """Note that a command hangs: `close` then neither waits nor frees memory that may still be written to."""
        self._left_behind = True

    def close(self) -> None:
        """Wait for all queues and release them; closing twice does nothing."""
        if self._left_behind or is_forked():
            return
        try:
            self.wait()
        finally:
            self.pools.close()
            with self._lock:
                self._closed = True
                for table in (self._queues, self._allocators, self._contexts, self._devices, self._roots):
                    table.clear()
            tell_released()

    def __enter__(self) -> OpenDevices:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "closed" if self._closed else f"{len(self.queues())} queues"
        return f"OpenDevices({', '.join(d.name for d in self.platform.compute_devices)}; {state})"

    def _check_open(self) -> None:
        check_not_forked("devices")
        if self._closed:
            raise PlatformError("the devices are closed", hint="Open them again with `open_devices(platform)`")

    def _members(self, space: str) -> tuple[Device, ...]:
        return tuple(d for d in self.platform.compute_devices if d.space == space)

    def _owner(self, members: Sequence[Device]) -> SyclDevice:
        """Return the device whose memory all members reach: the root, except for accelerators."""
        first = members[0]
        return (self._devices if first.kind == "accelerator" else self._roots)[first.name]

    def _make_context(self, space: str) -> SyclContext:
        import dpctl

        members = self._members(space)
        devices = [self._owner(members)]
        for member in members:
            for each in (self._devices[member.name], self._roots[member.name]):
                # an accelerator's sub-devices share no memory with their root, which stays out of their context
                if each not in devices and (each.parent_device is not None or member.kind != "accelerator"):
                    devices.append(each)
        default = devices[0].sycl_platform.default_context
        if all(device in default.get_devices() for device in devices):
            return default
        made: SyclContext = dpctl.SyclContext(devices)
        return made

    @staticmethod
    def _make_queue(context: SyclContext, device: SyclDevice) -> SyclQueue:
        import dpctl

        made: SyclQueue = dpctl.SyclQueue(context, device, property=_LANE_PROPERTIES)
        return made


def open_devices(platform: Platform) -> OpenDevices:
    """Find a platform's devices on this machine, check that they are trusted, and open them."""
    for device in platform.compute_devices:
        if device.distrust is not None:
            raise _untrusted(device, device.distrust)
    found = {each.facts: each for each in find_devices()}
    load_library()  # raises if it is missing: nothing can be submitted without it
    # A plan made with one generation of SYCL packages runs on the other: its kernels are compiled and checked there.
    other = platform.generation not in ("", stack_generation.installed().name)
    matched = match_roots(platform.compute_devices, tuple(found), any_driver=other)
    reasons = {facts: distrust(found[facts]) for facts in set(matched.values())}
    for device in platform.compute_devices:
        reason = reasons[matched[device.name]]
        if reason is not None:
            raise _untrusted(device, reason)
    roots = {name: found[facts] for name, facts in matched.items()}
    return OpenDevices(
        platform,
        _sycl_devices_of(platform.compute_devices, roots),
        {name: root.sycl_device for name, root in roots.items()},
    )


def _sycl_devices_of(devices: Iterable[Device], roots: dict[str, FoundDevice]) -> dict[str, SyclDevice]:
    """Return the SYCL devices by name; the parts of one partition come from one split, as in discovery."""
    cuts: dict[tuple[DeviceFacts, str, str], Sequence[SyclDevice]] = {}
    opened: dict[str, SyclDevice] = {}
    for device in devices:
        root, partition = roots[device.name], device.partition
        if partition is None:
            opened[device.name] = root.sycl_device
            continue
        key = (root.facts, partition.method, partition.argument)
        if key not in cuts:
            cuts[key] = _cut(device, root, partition)
        if partition.index >= len(cuts[key]):
            raise DeviceNotFoundError(
                f"no part {partition.index}: there are {len(cuts[key])}", where=f"device {device.name!r}"
            )
        opened[device.name] = cuts[key][partition.index]
    return opened


def _cut(device: Device, root: FoundDevice, partition: Partition) -> Sequence[SyclDevice]:
    try:
        return sycl_sub_devices(root.sycl_device, root.facts, SubDevices(partition.method, partition.argument))
    except SelectionError as error:
        raise DeviceNotFoundError(
            f"no such sub-device on this machine: {error}",
            where=f"device {device.name!r}",
            hint="Plan again with `discover()`",
        ) from error


def _untrusted(device: Device, reason: str) -> UntrustedDeviceError:
    return UntrustedDeviceError(
        f"not trusted: {reason}",
        where=f"device {device.name!r} ({device.description})",
        hint="Leave it out, or see what `python -m syclsched doctor` says of it",
    )
