# SPDX-License-Identifier: Apache-2.0
"""Device speed for the roofline model: from the device's profile, or assumed and marked as such."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from syclsched.model.platform import Device, Platform
from syclsched.model.profile import DeviceProfile

RateOrigin = Literal["modelled", "spec-sheet", "assumed"]


@dataclass(frozen=True, slots=True)
class Rates:
    """Peak rates of a device, for the roofline model."""

    origin: RateOrigin  # ``modelled`` (from a measured profile), ``spec-sheet`` or ``assumed``
    launch_s: float  # time that a launch adds to a stream of kernels
    peak_flops: Mapping[str, float]  # operations a second by dtype
    bandwidth_bytes_per_s: float  # of its memory, for working sets larger than the caches
    bandwidth_curve: tuple[tuple[int, float], ...]  # (working set in bytes, bytes/s), by rising working set
    compute_units: int  # least number of work-items that keeps the device busy
    busy: bool = False  # whether other processes used the machine when the rates were measured

    def peak(self, dtype: str) -> float:
        """Return the peak for a dtype, in operations per second."""
        for name in (dtype, _FALLBACK_DTYPES.get(dtype, "int32")):
            if name in self.peak_flops:
                return self.peak_flops[name]
        return min(self.peak_flops.values())

    def bandwidth(self, working_set_bytes: float) -> float:
        """Return the bandwidth for a working set, in bytes per second."""
        curve = self.bandwidth_curve
        if not curve:
            return self.bandwidth_bytes_per_s
        above = bisect_left(curve, working_set_bytes, key=lambda point: point[0])
        if above == 0:
            return curve[0][1]
        if above == len(curve):
            return curve[-1][1]
        (left, low), (right, high) = curve[above - 1], curve[above]
        if left < 1:
            return high
        share = math.log(working_set_bytes / left) / math.log(right / left)
        return low + share * (high - low)


#: The dtype whose peak is used where a profile lacks the dtype's own; all other dtypes fall back to int32.
_FALLBACK_DTYPES = {"complex64": "float32", "complex128": "float64", "float16": "float32"}

#: Assumed rates of a device without a profile: round numbers of the order of one core of a current processor.
#: Estimates made from them have the origin ``assumed``; `syclsched profile` replaces them.
ASSUMED_FLOPS_PER_UNIT = 1e10
ASSUMED_BANDWIDTH_BYTES_PER_S = 1e10
ASSUMED_LAUNCH_S = 1e-5


def rates_of(device: Device, platform: Platform) -> Rates:
    """Return the peak rates of a device."""
    if device.profile is not None:
        return _profiled(device.profile, "modelled" if device.profile.origin == "measured" else "spec-sheet")
    if device.is_host and device.library_threads < device.compute_units:
        whole = rates_of(replace(device, lanes=1, most_threads=0), platform)
        share = device.library_threads / device.compute_units
        return replace(
            whole,
            peak_flops={dtype: peak * share for dtype, peak in whole.peak_flops.items()},
            bandwidth_bytes_per_s=whole.bandwidth_bytes_per_s * share,
            bandwidth_curve=tuple((size, rate * share) for size, rate in whole.bandwidth_curve),
            compute_units=max(1, int(whole.compute_units * share)),
        )
    if device.is_host:
        for other in platform.compute_devices:
            if other.kind == "cpu" and other.partition is None and other.profile is not None:
                return _profiled(other.profile, "assumed")
    return Rates(
        origin="assumed",
        launch_s=ASSUMED_LAUNCH_S,
        peak_flops={"float64": ASSUMED_FLOPS_PER_UNIT * device.compute_units},
        bandwidth_bytes_per_s=ASSUMED_BANDWIDTH_BYTES_PER_S,
        bandwidth_curve=(),
        compute_units=device.compute_units,
    )


def _profiled(profile: DeviceProfile, origin: RateOrigin) -> Rates:
    launch = profile.launch
    return Rates(
        origin=origin,
        # In a stream of kernels most of the latency is hidden behind the preceding kernel; a chain shows the rest.
        launch_s=(launch.chain_task_s or launch.latency_s).value,
        peak_flops={dtype: q.value for dtype, q in profile.peak_flops.items() if q.value > 0.0}
        or {"float64": ASSUMED_FLOPS_PER_UNIT * profile.identity.compute_units},
        bandwidth_bytes_per_s=profile.triad_bandwidth_bytes_per_s.value or ASSUMED_BANDWIDTH_BYTES_PER_S,
        bandwidth_curve=tuple(sorted(profile.bandwidth_curve)),
        compute_units=profile.identity.compute_units,
        busy=profile.provenance.busy,
    )
