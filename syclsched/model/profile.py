# SPDX-License-Identifier: Apache-2.0
"""Device profiles: the numbers of one device, measured or from a spec sheet, with units in the names.

`docs/profiling.md` defines every number. Field constraints (``annotated_types``) are enforced when a
profile is read from a file, by `syclsched.model.serial`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Final, Literal

from annotated_types import Ge, Gt, Le, MaxLen, MinLen

NonNegative = Annotated[float, Ge(0)]
Positive = Annotated[float, Gt(0)]
#: Counts are worked with as 64-bit numbers.
Count = Annotated[int, Ge(0), Le(2**63 - 1)]
#: Sizes of one piece of memory; small enough that many of them can be added up.
ByteCount = Annotated[int, Ge(0), Le(2**53)]
Text = Annotated[str, MaxLen(4096)]
#: Characters of a name in a file.
MAX_NAME: Final = 512
Name = Annotated[str, MinLen(1), MaxLen(MAX_NAME)]

_STRICT: dict[str, object] = {"extra": "forbid", "allow_inf_nan": False}

PROFILE_FORMAT: Final = "syclsched-device-profile/1"
PAIR_FORMAT: Final = "syclsched-pair-profile/1"


@dataclass(frozen=True, slots=True)
class Quantity:
    """One number and where it comes from; the unit is in the name of the field that holds it.

    Parameters
    ----------
    value : float
        The median of the samples, or the published number.
    mad : float, optional
        Median absolute deviation of the samples.
    samples : int, optional
        Number of samples kept; 0 if the number was not measured.
    spikes : int, optional
        Samples set aside as outliers.
    source : str or None, optional
        For a published or derived number: where it stands, or how it was derived.
    """

    __pydantic_config__: ClassVar[dict[str, object]] = _STRICT

    value: NonNegative
    mad: NonNegative = 0.0
    samples: Count = 0
    spikes: Count = 0
    source: Text | None = None


@dataclass(frozen=True, slots=True)
class LinkFit:
    """Time of a transfer as ``latency_s + bytes / bandwidth_bytes_per_s``.

    Parameters
    ----------
    latency_s : float
        Intercept alpha of the least-squares fit.
    bandwidth_bytes_per_s : float
        Reciprocal of its slope beta.
    residual : float, optional
        Root mean square of the relative errors of the fit.
    points : tuple of (int, float), optional
        The measured (bytes, seconds).
    source : str or None, optional
        For numbers that were not measured: where they stand.
    """

    __pydantic_config__: ClassVar[dict[str, object]] = _STRICT

    latency_s: NonNegative
    bandwidth_bytes_per_s: Positive
    residual: NonNegative = 0.0
    points: tuple[tuple[Count, NonNegative], ...] = ()
    source: Text | None = None

    def seconds(self, nbytes: float) -> float:
        """Return the time to move ``nbytes`` bytes."""
        return self.latency_s + nbytes / self.bandwidth_bytes_per_s


@dataclass(frozen=True, slots=True)
class DeviceIdentity:
    """What device a profile is of.

    Parameters
    ----------
    key : str
        Stable key of device, driver and sub-device partition; file name of the profile.
    name : str
        Product name.
    kind, backend, vendor, driver_version : str
        As SYCL gives them; ``driver_version`` is empty on a spec sheet.
    compute_units, max_work_group_size : int
        As SYCL gives them.
    global_memory_bytes, local_memory_bytes : int
        Capacity.
    aspects, dtypes : tuple of str
        SYCL aspects and NumPy dtype names the device supports.
    host_accessible : bool
        True if host and device share memory, so that no copies are needed between them.
    lanes : int, optional
        Kernels that run at once without slowing each other down, from the measured overlap.
    """

    __pydantic_config__: ClassVar[dict[str, object]] = _STRICT

    key: Name
    name: Name
    kind: Literal["cpu", "gpu", "accelerator"]
    backend: Literal["opencl", "level_zero", "cuda", "hip"]
    vendor: Text
    driver_version: Text
    compute_units: Annotated[int, Gt(0)]
    max_work_group_size: Annotated[int, Gt(0)]
    global_memory_bytes: Annotated[int, Gt(0)]
    local_memory_bytes: Count
    aspects: tuple[Name, ...]
    dtypes: tuple[Name, ...]
    host_accessible: bool
    lanes: Annotated[int, Gt(0)] = 1


@dataclass(frozen=True, slots=True)
class Provenance:
    """Where, when and how a profile came about.

    Parameters
    ----------
    date : str
        ISO date.
    duration_s : float, optional
        How long the measurement took; 0 for a spec sheet.
    host : str, optional
        Name of the machine's processor and operating system; no personal data.
    versions : dict of str to str, optional
        Versions of the packages that matter.
    boot_environment : dict of str to str, optional
        Variables that change generated code or the device's behaviour.
    busy : bool, optional
        True if other processes took a noticeable share of the machine meanwhile.
    complete : bool, optional
        False if the measurement was interrupted; what is there is valid.
    sources : tuple of str, optional
        Documents a spec sheet was taken from.
    notes : tuple of str, optional
        Anything a reader should know.
    """

    __pydantic_config__: ClassVar[dict[str, object]] = _STRICT

    date: Annotated[str, MinLen(10), MaxLen(40)]
    duration_s: NonNegative = 0.0
    host: Text = ""
    versions: dict[str, str] = field(default_factory=dict)
    boot_environment: dict[str, str] = field(default_factory=dict)
    busy: bool = False
    complete: bool = True
    sources: tuple[Text, ...] = ()
    notes: tuple[Text, ...] = ()


@dataclass(frozen=True, slots=True)
class LaunchCosts:
    """What it costs to get a kernel going, seconds; see `docs/profiling.md`.

    Parameters
    ----------
    submission_s : Quantity
        Host time of one asynchronous submission.
    latency_s : Quantity
        From submission of an empty kernel on an idle queue to its observed completion.
    chain_task_s : Quantity or None, optional
        Time per kernel of a long chain of dependent empty kernels on one in-order queue.
    cross_queue_s : Quantity or None, optional
        Time per kernel of a chain that alternates between two queues of the device.
    jit_first_launch_s : Quantity or None, optional
        First launch of a numba-dpex kernel in a process: compile and submit.
    dispatch_s : Quantity or None, optional
        Processor time of this package's submitting thread for one instruction of a run, submission included.
    handoff_s : Quantity or None, optional
        From the end of a kernel to the start of a host function that waits for it, or back.
    """

    __pydantic_config__: ClassVar[dict[str, object]] = _STRICT

    submission_s: Quantity
    latency_s: Quantity
    chain_task_s: Quantity | None = None
    cross_queue_s: Quantity | None = None
    jit_first_launch_s: Quantity | None = None
    dispatch_s: Quantity | None = None
    handoff_s: Quantity | None = None


@dataclass(frozen=True, slots=True)
class UsmCosts:
    """USM allocations of one kind (``device``, ``shared`` or ``host``).

    Parameters
    ----------
    allocation_s : Quantity
        Allocate and free 1 MiB.
    bandwidth_bytes_per_s : Quantity or None, optional
        Triad bandwidth of a kernel on memory of this kind.
    read_bandwidth_bytes_per_s : Quantity or None, optional
        What a triad reads a second of memory of this kind, while it writes to memory of kind ``device``.
    """

    __pydantic_config__: ClassVar[dict[str, object]] = _STRICT

    allocation_s: Quantity
    bandwidth_bytes_per_s: Quantity | None = None
    read_bandwidth_bytes_per_s: Quantity | None = None


@dataclass(frozen=True, slots=True)
class Overlap:
    """What runs at once, as a slow-down: 0 if two run as if alone, 1 if they take turns.

    Parameters
    ----------
    kernel_kernel : Quantity or None, optional
        Two large kernels on two queues of the device.
    copy_kernel : Quantity or None, optional
        A host-to-device copy beside a kernel.
    """

    __pydantic_config__: ClassVar[dict[str, object]] = _STRICT

    kernel_kernel: Quantity | None = None
    copy_kernel: Quantity | None = None


@dataclass(frozen=True, slots=True)
class Power:
    """Power of the device, watts, where the operating system or a spec sheet gives it."""

    __pydantic_config__: ClassVar[dict[str, object]] = _STRICT

    idle_w: Quantity | None = None
    busy_w: Quantity | None = None


@dataclass(frozen=True, slots=True)
class DeviceProfile:
    """The numbers of one device.

    Parameters
    ----------
    identity : DeviceIdentity
        What device.
    provenance : Provenance
        Where the numbers come from.
    launch : LaunchCosts
        Costs per kernel.
    peak_flops : dict of str to Quantity
        FLOP/s by dtype (operations a second for integers); a fused multiply-add counts two.
    triad_bandwidth_bytes_per_s : Quantity
        STREAM triad over arrays that do not fit the caches.
    bandwidth_curve : tuple of (int, float), optional
        (working set in bytes, bytes/s) of the triad over sizes.
    transfers : dict of str to LinkFit, optional
        ``h2d``, ``d2h`` and ``d2d`` (within the device).
    usm : dict of str to UsmCosts, optional
        By kind: ``device``, ``shared``, ``host``.
    overlap : Overlap, optional
        What runs at once.
    power : Power, optional
        Watts, where known.
    origin : str, optional
        ``measured`` or ``spec-sheet``.
    format : str, optional
        The format's name and version.
    """

    __pydantic_config__: ClassVar[dict[str, object]] = _STRICT

    identity: DeviceIdentity
    provenance: Provenance
    launch: LaunchCosts
    peak_flops: Annotated[dict[Name, Quantity], MinLen(1)]
    triad_bandwidth_bytes_per_s: Quantity
    bandwidth_curve: tuple[tuple[Count, Positive], ...] = ()
    transfers: dict[Literal["h2d", "d2h", "d2d"], LinkFit] = field(default_factory=dict)
    usm: dict[Literal["device", "shared", "host"], UsmCosts] = field(default_factory=dict)
    overlap: Overlap = field(default_factory=Overlap)
    power: Power = field(default_factory=Power)
    origin: Literal["measured", "spec-sheet"] = "measured"
    format: Literal["syclsched-device-profile/1"] = PROFILE_FORMAT

    @property
    def key(self) -> str:
        """The device's key."""
        return self.identity.key


@dataclass(frozen=True, slots=True)
class PairProfile:
    """What was measured between two devices (or between two queues of one).

    Parameters
    ----------
    first, second : str
        Device keys.
    provenance : Provenance
        Where the numbers come from.
    event_latency_s : Quantity or None, optional
        From the end of a kernel on the first to the start of one on the second that waits for it.
    link : LinkFit or None, optional
        Copy from the first's memory to the second's; None if they share memory.
    interference : Quantity or None, optional
        Slow-down of a large kernel on the first while one runs on the second: 0 as if alone, 1 taking turns.
    format : str, optional
        The format's name and version.
    """

    __pydantic_config__: ClassVar[dict[str, object]] = _STRICT

    first: Name
    second: Name
    provenance: Provenance
    event_latency_s: Quantity | None = None
    link: LinkFit | None = None
    interference: Quantity | None = None
    format: Literal["syclsched-pair-profile/1"] = PAIR_FORMAT
