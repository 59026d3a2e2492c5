# SPDX-License-Identifier: Apache-2.0
"""Device profiles: measured or published numbers of one device, with units in the field names.

`docs/reference/profiling.md` defines every number. Field constraints (``annotated_types``) are enforced by
`syclsched.model.text.json_serialisation` when a profile is read from a file.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Final, Literal

from annotated_types import Ge, Gt, Le, MaxLen, MinLen

from syclsched.model.text.json_serialisation import Serialisable
from syclsched.model.text.sections import sections_html, sections_text
from syclsched.model.views.overviews import profile_sections

NonNegative = Annotated[float, Ge(0)]
Positive = Annotated[float, Gt(0)]
SyclBackend = Literal["opencl", "level_zero", "cuda", "hip"]
#: Counts fit into signed 64-bit integers.
Count = Annotated[int, Ge(0), Le(2**63 - 1)]
#: Size of one allocation; small enough that sums of many of them do not overflow.
ByteCount = Annotated[int, Ge(0), Le(2**53)]
Text = Annotated[str, MaxLen(4096)]
#: Maximum length of a name in a file, in characters.
MAX_NAME: Final = 512
Name = Annotated[str, MinLen(1), MaxLen(MAX_NAME)]


PROFILE_FORMAT: Final = "syclsched-device-profile/1"
PAIR_FORMAT: Final = "syclsched-pair-profile/1"


@dataclass(frozen=True, slots=True)
class Quantity(Serialisable):
    """One number with its provenance; the unit is in the name of the field that holds it.

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
        For a published or derived number: its reference, or its derivation.
    uncertainty : float or None, optional
        Relative uncertainty of the value, if more is known about it than the spread of the samples: how many there
        are, and under what load they were taken.
    """

    value: NonNegative
    mad: NonNegative = 0.0
    samples: Count = 0
    spikes: Count = 0
    source: Text | None = None
    uncertainty: NonNegative | None = None


@dataclass(frozen=True, slots=True)
class LinkFit(Serialisable):
    """Linear model of transfer time: ``latency_s + bytes / bandwidth_bytes_per_s``.

    Parameters
    ----------
    latency_s : float
        Intercept alpha of the least-squares fit.
    bandwidth_bytes_per_s : float
        Reciprocal of its slope beta.
    residual : float, optional
        Root mean square of the relative errors of the fit.
    points : tuple of (int, float), optional
        The measured (bytes, seconds) pairs.
    source : str or None, optional
        Reference of numbers that were not measured.
    """

    latency_s: NonNegative
    bandwidth_bytes_per_s: Positive
    residual: NonNegative = 0.0
    points: tuple[tuple[Count, NonNegative], ...] = ()
    source: Text | None = None

    def seconds(self, nbytes: float) -> float:
        """Return the time to move ``nbytes`` bytes."""
        return self.latency_s + nbytes / self.bandwidth_bytes_per_s


@dataclass(frozen=True, slots=True)
class DeviceIdentity(Serialisable):
    """Identity and capabilities of a profiled device.

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
        Number of kernels that run concurrently without slow-down, by the measured overlap.
    """

    key: Name
    name: Name
    kind: Literal["cpu", "gpu", "accelerator"]
    backend: SyclBackend
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

    def __repr__(self) -> str:
        return f"<DeviceIdentity {self.key!r}: {self.name} ({self.kind}, {self.backend})>"


@dataclass(frozen=True, slots=True)
class Provenance(Serialisable):
    """Origin of a profile's numbers: date, machine, versions and conditions.

    Parameters
    ----------
    date : str
        ISO date.
    duration_s : float, optional
        Duration of the measurement in seconds; 0 for a spec sheet.
    host : str, optional
        Name of the machine's processor and operating system; no personal data.
    versions : dict of str to str, optional
        Versions of the relevant packages.
    generation : str, optional
        Generation of the SYCL packages; empty for a spec sheet.
    boot_environment : dict of str to str, optional
        Environment variables that change generated code or the device's behaviour.
    busy : bool, optional
        True if other processes used a noticeable share of the machine during the measurement.
    complete : bool, optional
        False if the measurement was interrupted; the numbers present are valid.
    sources : tuple of str, optional
        Documents that a spec sheet's numbers come from.
    notes : tuple of str, optional
        Remarks.
    """

    date: Annotated[str, MinLen(10), MaxLen(40)]
    duration_s: NonNegative = 0.0
    host: Text = ""
    versions: dict[str, str] = field(default_factory=dict)
    boot_environment: dict[str, str] = field(default_factory=dict)
    busy: bool = False
    complete: bool = True
    sources: tuple[Text, ...] = ()
    notes: tuple[Text, ...] = ()
    generation: Text = ""

    def __repr__(self) -> str:
        states = [*(["on a busy machine"] if self.busy else []), *([] if self.complete else ["incomplete"])]
        return f"<Provenance: {', '.join([self.date, *states])}>"


@dataclass(frozen=True, slots=True)
class LaunchCosts(Serialisable):
    """Launch overheads of kernels, in seconds; see `docs/reference/profiling.md`.

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
        First launch of a kernel that was never compiled before: compilation and submission.
    dispatch_s : Quantity or None, optional
        CPU time of the submitting thread per instruction of a run, submission included.
    handoff_s : Quantity or None, optional
        From the end of a kernel to the start of a host function that waits for it, or the reverse.
    """

    submission_s: Quantity
    latency_s: Quantity
    chain_task_s: Quantity | None = None
    cross_queue_s: Quantity | None = None
    jit_first_launch_s: Quantity | None = None
    dispatch_s: Quantity | None = None
    handoff_s: Quantity | None = None


@dataclass(frozen=True, slots=True)
class UsmCosts(Serialisable):
    """USM allocations of one kind (``device``, ``shared`` or ``host``).

    Parameters
    ----------
    allocation_s : Quantity
        Time to allocate and free 1 MiB.
    bandwidth_bytes_per_s : Quantity or None, optional
        Triad bandwidth of a kernel on memory of this kind.
    read_bandwidth_bytes_per_s : Quantity or None, optional
        Bytes per second that a triad reads from memory of this kind while it writes to ``device`` memory.
    """

    allocation_s: Quantity
    bandwidth_bytes_per_s: Quantity | None = None
    read_bandwidth_bytes_per_s: Quantity | None = None


@dataclass(frozen=True, slots=True)
class Overlap(Serialisable):
    """Slow-down of concurrent work: 0 if both run at full speed, 1 if they are serialised.

    Parameters
    ----------
    kernel_kernel : Quantity or None, optional
        Two large kernels on two queues of the device.
    copy_kernel : Quantity or None, optional
        A host-to-device copy during a kernel.
    """

    kernel_kernel: Quantity | None = None
    copy_kernel: Quantity | None = None


@dataclass(frozen=True, slots=True)
class Power(Serialisable):
    """Power of the device in watts, if the operating system or a spec sheet gives it."""

    idle_w: Quantity | None = None
    busy_w: Quantity | None = None


@dataclass(frozen=True, slots=True)
class DeviceProfile(Serialisable):
    """The profile of one device.

    Parameters
    ----------
    identity : DeviceIdentity
        The profiled device.
    provenance : Provenance
        Origin of the numbers.
    launch : LaunchCosts
        Costs per kernel.
    peak_flops : dict of str to Quantity
        FLOP/s by dtype (operations per second for integers); a fused multiply-add counts as two.
    triad_bandwidth_bytes_per_s : Quantity
        STREAM triad bandwidth with arrays larger than the caches.
    bandwidth_curve : tuple of (int, float), optional
        (working set in bytes, bytes/s) of the triad for several sizes.
    transfers : dict of str to LinkFit, optional
        ``h2d``, ``d2h`` and ``d2d`` (within the device).
    usm : dict of str to UsmCosts, optional
        By kind: ``device``, ``shared``, ``host``.
    overlap : Overlap, optional
        Slow-down of concurrent work.
    power : Power, optional
        Power in watts, if known.
    origin : str, optional
        ``measured`` or ``spec-sheet``.
    format : str, optional
        The format's name and version.

    Examples
    --------
    >>> import syclsched
    >>> profile = syclsched.describe("max1550").device("max1550").profile
    >>> f"{profile.peak_flops['float32'].value:.3g}"
    '5.24e+13'
    """

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

    def __repr__(self) -> str:
        made = "measured" if self.origin == "measured" else "specification sheet of"
        return f"<DeviceProfile {self.key!r}: {self.identity.name}, {made} {self.provenance.date}>"

    def __str__(self) -> str:
        return sections_text(profile_sections(self))

    def _repr_html_(self) -> str:
        return sections_html(profile_sections(self))


@dataclass(frozen=True, slots=True)
class PairProfile(Serialisable):
    """Measurements between two devices, or between two queues of one device.

    Parameters
    ----------
    first, second : str
        Device keys.
    provenance : Provenance
        Origin of the numbers.
    event_latency_s : Quantity or None, optional
        From the end of a kernel on the first to the start of one on the second that waits for it.
    link : LinkFit or None, optional
        Copy from the first's memory to the second's; None if they share memory.
    interference : Quantity or None, optional
        Slow-down of a large kernel on the first while one runs on the second: 0 for none, 1 if they are serialised.
    format : str, optional
        The format's name and version.
    """

    first: Name
    second: Name
    provenance: Provenance
    event_latency_s: Quantity | None = None
    link: LinkFit | None = None
    interference: Quantity | None = None
    format: Literal["syclsched-pair-profile/1"] = PAIR_FORMAT
