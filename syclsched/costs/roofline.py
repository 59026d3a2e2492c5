# SPDX-License-Identifier: Apache-2.0
"""Roofline model: predicted seconds of a task that has not been measured."""

from __future__ import annotations

import math

from syclsched.costs.rates import Rates
from syclsched.errors import ArgumentError
from syclsched.model.operation import Implementation, Operation, Signature, Work


def roofline_seconds(work: Work, working_set_bytes: float, efficiency: float, rates: Rates) -> float:
    """Return the seconds of one task, by the roofline model of Williams, Waterman and Patterson (2009)."""
    if not work.flops and not work.bytes:
        return rates.launch_s  # for example an array without elements, whose parallelism may be 0
    share = min(1.0, work.parallelism / rates.compute_units)
    computing_s = work.flops / (rates.peak(work.dtype) * share)
    moving_s = work.bytes / (rates.bandwidth(working_set_bytes) * share)
    return rates.launch_s + max(computing_s, moving_s) / efficiency


def checked_work(operation: Operation, signature: Signature, where: str) -> Work:
    """Return the work that an operation states for a task."""
    work = operation.work(signature)
    parallel = work.parallelism > 0.0 or (work.parallelism == work.flops == work.bytes == 0.0)
    if not (0.0 <= work.flops < math.inf and 0.0 <= work.bytes < math.inf and parallel):
        raise ArgumentError(
            f"operation {operation.name!r} states impossible work: {work.flops!r} flops, {work.bytes!r} bytes, "
            f"parallelism {work.parallelism!r}",
            where=where,
            hint="Its work function must return finite numbers, zero or more, and for work a parallelism above zero",
        )
    return work


def working_set(signature: Signature, work: Work) -> float:
    """Return the bytes of a task's arrays, or the bytes that it moves if it has none."""
    return float(signature.nbytes) or work.bytes


def checked_efficiency(implementation: Implementation, where: str) -> float:
    """Return the efficiency that an implementation states."""
    if not 0.0 < implementation.efficiency < math.inf:
        raise ArgumentError(
            f"implementation {implementation.name!r} states an impossible efficiency: {implementation.efficiency!r}",
            where=where,
            hint="It is the fraction of the device's peak it reaches: above zero",
        )
    return implementation.efficiency
