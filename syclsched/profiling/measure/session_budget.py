# SPDX-License-Identifier: Apache-2.0
"""Time budgets and problem sizes of profiling sessions."""

from __future__ import annotations

from dataclasses import dataclass

KIB, MIB = 1 << 10, 1 << 20


@dataclass(frozen=True, slots=True)
class SessionBudget:
    """Limits of a profiling session."""

    name: str  # ``quick`` or ``default``
    total_s: float  # after this time, each remaining number gets one sample
    number_s: float  # longest time spent sampling one number
    point_s: float  # longest time spent sampling one point of a curve or fit
    relative: float  # target half-width of the median's confidence interval, relative to the median
    kernel_s: float  # target duration of a throughput kernel
    first_launches: int  # number of first launches, each with a new kernel
    curve_bytes: tuple[int, ...]  # working sets of the bandwidth curve
    transfer_bytes: tuple[int, ...]  # sizes of copies
    watch_s: float  # observation time before the session, to detect a busy machine
    power_s: float  # interval of a power measurement


QUICK = SessionBudget(
    name="quick",
    total_s=10.0,
    number_s=0.04,
    point_s=0.01,
    relative=0.02,
    kernel_s=0.003,
    first_launches=1,
    curve_bytes=(96 * KIB, 768 * KIB, 6 * MIB, 48 * MIB),
    transfer_bytes=(4 * KIB, 64 * KIB, MIB, 16 * MIB),
    watch_s=0.2,
    power_s=0.1,
)

DEFAULT = SessionBudget(
    name="default",
    total_s=40.0,
    number_s=0.15,
    point_s=0.04,
    relative=0.02,
    kernel_s=0.01,
    first_launches=3,
    curve_bytes=tuple(24 * KIB << shift for shift in range(13)),
    transfer_bytes=tuple(KIB << shift for shift in range(0, 17, 2)),
    watch_s=0.5,
    power_s=0.5,
)
