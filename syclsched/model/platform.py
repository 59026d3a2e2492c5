# SPDX-License-Identifier: Apache-2.0
"""Platforms: devices, memory spaces and links as plain data, discovered or described."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Final, Literal

from annotated_types import Ge, Gt

from syclsched.errors import DeviceNotFoundError, EmptyPlatformError, PlatformError, did_you_mean
from syclsched.model.operation import DeviceLimits, Requirements
from syclsched.model.platform_parts.links import Link, LinkTable
from syclsched.model.platform_parts.machines import HOST, host_space
from syclsched.model.platform_parts.named_table import NamedTable
from syclsched.model.profile import Count, DeviceProfile, Name, NonNegative, SyclBackend, Text
from syclsched.model.text.json_serialisation import Serialisable
from syclsched.model.text.sections import sections_html, sections_text
from syclsched.model.text.units import plural
from syclsched.model.views.overviews import platform_sections

__all__ = [
    "HOST",
    "MOST_HOST_LANES",
    "SEPARATE",
    "BackendFacts",
    "BackendName",
    "Contention",
    "Device",
    "DeviceKind",
    "Interference",
    "Link",
    "MemorySpace",
    "Partition",
    "Platform",
    "backend_facts",
]

DeviceKind = Literal["cpu", "gpu", "accelerator", "host"]
Contention = Literal["none", "one-port", "fair"]
BackendName = Literal[SyclBackend, "host"]

#: Most lanes of the host that ``auto`` plans with: each costs planning time, and a thread in runs.
MOST_HOST_LANES: Final = 16

#: Two lanes of a device with a smaller interference factor use different cores.
SEPARATE: Final = 0.5


@dataclass(frozen=True, slots=True)
class BackendFacts:
    """Facts of a SYCL backend; the defaults are those of a backend that is reached through SYCL alone."""

    name: str
    rank: int = 0  # of the backends that show one device, the one of least rank is used
    #: Whether a kernel on an in-order queue waits for the events of other queues that it lists.
    kernels_wait: bool = True
    takes_source: bool = False  # whether its devices' compilers take OpenCL C
    #: Package that compiles OpenCL C to SPIR-V for its devices; empty if there is none.
    compiler: str = ""


#: By name. A vendor's own backend has more features and less overhead than OpenCL on the same hardware.
BACKEND_FACTS: Final[dict[str, BackendFacts]] = {
    each.name: each
    for each in (
        BackendFacts("opencl", rank=3, kernels_wait=False, takes_source=True),
        BackendFacts("level_zero", compiler="intel-opencl-rt"),
        BackendFacts("cuda", rank=1),
        BackendFacts("hip", rank=2),
    )
}

#: Requirements of OpenCL C: a backend that takes it, or a compiler that makes SPIR-V of it for the backend.
OPENCL_C: Final = Requirements(
    backends=tuple(each.name for each in BACKEND_FACTS.values() if each.takes_source or each.compiler),
    backend_packages=tuple((each.name, each.compiler) for each in BACKEND_FACTS.values() if each.compiler),
)


def backend_facts(name: str) -> BackendFacts:
    """Return the facts of a backend; the general ones if it is unknown or the host's."""
    return BACKEND_FACTS.get(name, BackendFacts(name))


@dataclass(frozen=True, slots=True)
class Partition(Serialisable):
    """Partition of a parent device that gives a sub-device.

    Parameters
    ----------
    method : str
        ``equally`` (compute units each), ``count`` (number of equal parts) or ``affinity`` (NUMA or cache domain).
    argument : str
        The number, or the affinity domain.
    index : int
        Index of the part.
    """

    method: Literal["equally", "count", "affinity"]
    argument: Text
    index: Count


@dataclass(frozen=True, slots=True)
class Device(Serialisable):
    """A SYCL device, a sub-device, or the host.

    Parameters
    ----------
    name : str
        Short and unique on its platform: ``cpu``, ``gpu``, ``gpu1``, ``accelerator``, ``cpu.0`` for a sub-device.
    key : str
        Identity of device, driver and partition, stable across processes.
    kind, backend : str
        As SYCL gives them.
    description : str
        Product name.
    space : str
        Memory space in which its kernels' arrays are allocated.
    reaches : tuple of str
        All memory spaces its kernels (or the host's functions) can address, ``space`` first.
    lanes : int
        Number of in-order compute queues to use: the kernels that make progress at once.
    vendor, driver_version : str
        As SYCL gives them.
    aspects, dtypes : tuple of str
        SYCL aspects and NumPy dtype names, sorted.
    compute_units, max_work_group_size, local_memory_bytes, global_memory_bytes : int
        As SYCL gives them.
    sub_group_sizes : tuple of int
        As SYCL gives them, ascending; empty if unknown.
    filter_string : str or None
        dpctl's filter string of the device, or of a sub-device's parent; None if it is not on this machine.
    partition : Partition or None
        For a sub-device.
    distrust : str or None
        Why the device must not be used; None if it passed its known-answer test.
    refusals : tuple of (str, str)
        Libraries that do not compute on the device, though they are installed, each with the reason.
    copy_lane : bool
        Whether to use a separate queue for copies.
    profile : DeviceProfile or None
        Its profile; None before profiling.
    processor : str or None
        Processor whose cores it computes on; devices with the same one share its cores. None if it has cores of its
        own, or if it is unknown.
    most_lanes : int
        Of the host: number of lanes, each with its share of the cores, that the policy ``auto`` may plan with instead
        of ``lanes``; 0 if it may not.
    most_threads : int
        Of the host: most threads that a library called by a host function may use on one lane; 0 for all cores that
        the lane has.
    message_lanes : int
        Of the host: number of its lanes that only exchange data with other machines, and use no cores.
    """

    name: Name
    key: Name
    kind: DeviceKind
    backend: BackendName
    description: Text
    space: Name
    reaches: tuple[Name, ...]
    lanes: Annotated[int, Gt(0)] = 1
    vendor: Text = ""
    driver_version: Text = ""
    aspects: tuple[Name, ...] = ()
    dtypes: tuple[Name, ...] = ()
    compute_units: Annotated[int, Gt(0)] = 1
    max_work_group_size: Annotated[int, Gt(0)] = 1
    local_memory_bytes: Count = 0
    global_memory_bytes: Count = 0
    sub_group_sizes: tuple[Annotated[int, Gt(0)], ...] = ()
    filter_string: Text | None = None
    partition: Partition | None = None
    distrust: Text | None = None
    refusals: tuple[tuple[Name, Text], ...] = ()
    copy_lane: bool = True
    profile: DeviceProfile | None = None
    processor: Name | None = None
    most_lanes: Count = 0
    most_threads: Count = 0
    message_lanes: Count = 0

    def __repr__(self) -> str:
        kind = HOST if self.is_host else f"{self.kind}, {self.backend}"
        size = f"{plural(self.compute_units, 'compute unit')}, {plural(self.lanes, 'lane')}"
        return f"<Device {self.name!r} ({kind}): {self.description}; {size}>"

    @property
    def is_host(self) -> bool:
        """Whether it is the host, which runs Python functions."""
        return self.kind == "host"

    @property
    def library_threads(self) -> int:
        """Of the host: the number of threads that a library called by a host function may use on one lane."""
        threads = max(1, self.compute_units // max(1, self.lanes - self.message_lanes))
        return min(threads, self.most_threads or threads)

    @property
    def timing_key(self) -> str:
        """Its key for measured times: of the host, those with fewer threads than cores have a key of their own."""
        whole = not self.is_host or self.library_threads == self.compute_units
        return self.key if whole else f"{self.key}, {plural(self.library_threads, 'thread')}"

    @property
    def limits(self) -> DeviceLimits:
        """The limits that launches need."""
        return DeviceLimits(self.max_work_group_size, self.compute_units, self.local_memory_bytes, self.sub_group_sizes)


@dataclass(frozen=True, slots=True)
class MemorySpace(Serialisable):
    """Memory that has the same addresses on every device that can access it.

    Parameters
    ----------
    name : str
        Unique on the platform.
    capacity_bytes : int
        Allocatable bytes; 0 if unknown.
    host_accessible : bool
        Whether the host can address it directly.
    """

    name: Name
    capacity_bytes: Count
    host_accessible: bool = False


@dataclass(frozen=True, slots=True)
class Interference(Serialisable):
    """Slow-down of work on one device by work on another, or on a second lane of the same device.

    Parameters
    ----------
    first, second : str
        Device names; equal for two lanes of one device.
    factor : float
        0 if both run at full speed, 1 if they share the same cores, so that each takes twice as long.
    origin : str
        ``measured`` or ``assumed``.
    """

    first: Name
    second: Name
    factor: Annotated[float, Ge(0)]
    origin: Literal["measured", "spec-sheet", "assumed"] = "assumed"


@dataclass(frozen=True, slots=True)
class Platform(Serialisable):
    """The target of a plan: devices, memory spaces and links.

    Parameters
    ----------
    name : str
        Name for reports.
    devices : tuple of Device
        The host included, last.
    spaces : tuple of MemorySpace
        The host's memory included.
    links : tuple of Link
        Direct links between spaces; other copies go through host memory.
    interferences : tuple of Interference, optional
        Pairs of devices that slow each other down; others do not.
    submission_s : float, optional
        Host time of one submission.
    dispatch_s : float or None, optional
        Measured host time of one instruction of a run, submission included; None if not measured.
    handoff_s : float or None, optional
        Latency between device work and a dependent host function, or the reverse; None if not measured.
    contention : str, optional
        Model of concurrent copies on one channel: ``none`` (independent, the textbook model), ``one-port`` (serialised)
        or ``fair`` (max-min fair shares of the bandwidth).
    generation : str, optional
        Generation of the SYCL packages that showed the devices: ``numba-dpex`` or ``current``; empty if unknown.

    Examples
    --------
    >>> import syclsched
    >>> platform = syclsched.describe("xeon-8480,max1550")
    >>> [device.name for device in platform.compute_devices], platform.host.name
    (['xeon-8480', 'max1550'], 'host')
    >>> platform.select(["max1550"])
    <Platform 'described': max1550, host; 2 memory spaces>
    """

    name: Text
    devices: tuple[Device, ...]
    spaces: tuple[MemorySpace, ...]
    links: tuple[Link, ...] = ()
    interferences: tuple[Interference, ...] = ()
    submission_s: NonNegative = 0.0
    dispatch_s: NonNegative | None = None
    handoff_s: NonNegative | None = None
    contention: Contention = "none"
    generation: Text = ""

    def __post_init__(self) -> None:
        for name in ("devices", "spaces"):
            if not isinstance(getattr(self, name), NamedTable):
                object.__setattr__(self, name, NamedTable(getattr(self, name)))
        if not isinstance(self.links, LinkTable):
            object.__setattr__(self, "links", LinkTable(self.links))

    def __repr__(self) -> str:
        devices = ", ".join(device.name for device in self.devices)
        return f"<Platform {self.name!r}: {devices}; {plural(len(self.spaces), 'memory space')}>"

    def __str__(self) -> str:
        return sections_text(platform_sections(self))

    def _repr_html_(self) -> str:
        return sections_html(platform_sections(self))

    @property
    def compute_devices(self) -> tuple[Device, ...]:
        """The SYCL devices: all but the host."""
        return tuple(d for d in self.devices if not d.is_host)

    @property
    def host(self) -> Device:
        """The host.

        Raises
        ------
        PlatformError
            If the platform has no host.
        """
        for device in self.devices:
            if device.is_host:
                return device
        raise PlatformError("the platform has no host device", where=f"platform {self.name!r}")

    @property
    def host_threads(self) -> int:
        """The number of threads that a library called by a host function may use; 1 without a host."""
        return next((device.library_threads for device in self.devices if device.is_host), 1)

    def device(self, name: str) -> Device:
        """Return a device by name.

        Raises
        ------
        DeviceNotFoundError
            If the platform has no such device.
        """
        devices = self.devices
        assert isinstance(devices, NamedTable)
        found: Device | None = devices.by_name.get(name)
        if found is not None:
            return found
        raise DeviceNotFoundError(
            f"no device {name!r}",
            where=f"platform {self.name!r}",
            hint=f"{did_you_mean(name, (d.name for d in self.devices))}"
            f"It has {', '.join(d.name for d in self.devices) or 'none'}",
        )

    def space(self, name: str) -> MemorySpace:
        """Return a memory space by name.

        Raises
        ------
        PlatformError
            If the platform has no such space.
        """
        spaces = self.spaces
        assert isinstance(spaces, NamedTable)
        found: MemorySpace | None = spaces.by_name.get(name)
        if found is not None:
            return found
        raise PlatformError(
            f"no memory space {name!r}",
            where=f"platform {self.name!r}",
            hint=did_you_mean(name, (s.name for s in self.spaces)) + f"It has {', '.join(s.name for s in self.spaces)}",
        )

    def link(self, source: str, destination: str) -> Link | None:
        """Return the direct link between two spaces, or None."""
        links = self.links
        assert isinstance(links, LinkTable)
        return links.between(source, destination)

    def route(self, source: str, destination: str) -> tuple[Link, ...]:
        """Return the links of a copy: none, one, or two through the memory of the machine's host.

        Raises
        ------
        PlatformError
            If the spaces are not connected.
        """
        if source == destination:
            return ()
        direct = self.link(source, destination)
        if direct is not None:
            return (direct,)
        host = host_space(source)
        if host not in {space.name for space in self.spaces}:  # a name with a slash, but of no machine
            host = HOST
        up, down = self.link(source, host), self.link(host, destination)
        if up is None or down is None:
            raise PlatformError(f"no link from {source!r} to {destination!r}", where=f"platform {self.name!r}")
        return (up, down)

    def interference(self, first: str, second: str) -> float:
        """Return the slow-down of work on ``first`` by work on ``second``: 0 for none."""
        for pair in self.interferences:
            if {pair.first, pair.second} == {first, second}:
                return pair.factor
        return 0.0

    @property
    def processor_cores(self) -> dict[str, int]:
        """The number of cores of each processor that devices compute on; of the host's, those that it may use."""
        found: dict[str, int] = {}
        for device in sorted(self.devices, key=lambda each: each.is_host):
            if device.processor is not None:
                most = 0 if device.is_host else found.get(device.processor, 0)
                found[device.processor] = max(device.compute_units, most)
        return found

    def lane_cores(self, device: Device) -> int:
        """Return how many cores of its processor one lane of a device uses while it computes; 0 without processor."""
        if device.processor is None:
            return 0
        if device.is_host:
            used = device.library_threads
        else:  # lanes that do not slow each other down use one core each
            apart = device.lanes > 1 and self.interference(device.name, device.name) < SEPARATE
            used = 1 if apart else device.compute_units
        return min(used, self.processor_cores[device.processor])

    def with_host_lanes(self, lanes: int) -> Platform:
        """Return the platform with this number of lanes of the host."""
        host = self.host
        if host.lanes == lanes:
            return self
        return self._with({host.name: replace(host, lanes=lanes)})

    def with_most_host_lanes(self) -> Platform | None:
        """Return the platform with the hosts as the most lanes they may have; None if they have as many already."""
        changed = {d.name: replace(d, lanes=d.most_lanes) for d in self.devices if d.is_host and d.most_lanes > d.lanes}
        return self._with(changed) if changed else None

    def with_single_threads(self, used: Collection[str] | None = None) -> Platform:
        """Return the platform with libraries on the host that use one thread a lane, if devices share its cores.

        The threads of a library wait for each other: beside a device that computes on the same cores, one of them is
        without a core and holds up all.

        Parameters
        ----------
        used : collection of str, optional
            The devices that are used together; all by default.

        Returns
        -------
        Platform
            Itself if none of these devices computes on the host's cores.
        """
        considered = [device for device in self.devices if used is None or device.name in used]
        busy = {device.processor for device in considered if not device.is_host}
        changed = {
            host.name: replace(host, most_threads=1)
            for host in considered
            if host.is_host and host.processor is not None and host.processor in busy and host.library_threads > 1
        }
        return self._with(changed) if changed else self

    def select(self, keep: Callable[[Device], bool] | Iterable[str]) -> Platform:
        """Return the platform with a subset of its devices, and the host.

        Parameters
        ----------
        keep : callable or iterable of str
            A predicate on devices, or device names.

        Returns
        -------
        Platform
            With the spaces and links of the remaining devices.

        Raises
        ------
        EmptyPlatformError
            If no device is left.
        DeviceNotFoundError
            If a name is not on the platform.

        Examples
        --------
        >>> import syclsched
        >>> platform = syclsched.describe("xeon-8480,max1550,a770")
        >>> [device.name for device in platform.select(lambda device: device.kind == "gpu").compute_devices]
        ['max1550', 'a770']
        """
        if callable(keep):
            kept = tuple(d for d in self.devices if d.is_host or keep(d))
        else:
            names = {self.device(name).name for name in keep}
            kept = tuple(d for d in self.devices if d.is_host or d.name in names)
        if all(d.is_host for d in kept):
            raise EmptyPlatformError(
                "no device is left after selection",
                where=f"platform {self.name!r}",
                hint=f"It has {', '.join(d.name for d in self.compute_devices) or 'no devices'}",
            )
        return self.restricted_to(kept)

    def restricted_to(self, devices: Collection[Device]) -> Platform:
        """Return the platform with only these of its devices, and the spaces, links and interferences they need.

        Parameters
        ----------
        devices : collection of Device
            Devices of the platform, hosts included.

        Returns
        -------
        Platform
            Its space ``host`` is kept.
        """
        spaces = {d.space for d in devices} | {host_space(d.space) for d in devices} | {HOST}
        left = {d.name for d in devices}
        return replace(
            self,
            devices=tuple(replace(d, reaches=tuple(s for s in d.reaches if s in spaces)) for d in devices),
            spaces=tuple(s for s in self.spaces if s.name in spaces),
            links=tuple(n for n in self.links if n.source in spaces and n.destination in spaces),
            interferences=tuple(i for i in self.interferences if i.first in left and i.second in left),
        )

    def without_profiles(self) -> Platform:
        """Return the platform without device profiles, as embedded in plans."""
        return replace(self, devices=tuple(replace(d, profile=None) for d in self.devices))

    def _with(self, changed: Mapping[str, Device]) -> Platform:
        """Return the platform with other devices in place of those of the same names."""
        return replace(self, devices=tuple(changed.get(device.name, device) for device in self.devices))
