# SPDX-License-Identifier: Apache-2.0
"""Seconds of cost-only tasks on a device: as stated, or scaled from the reference core."""

from __future__ import annotations

import math

from syclsched.costs.rates import Rates
from syclsched.model.cost_only import ANY_DEVICE, REFERENCE_CORE_FLOPS, StatedCost, stated_cost
from syclsched.model.operation import Signature
from syclsched.model.platform import Device

#: The dtype whose peak measures the speed of a core.
_DTYPE = "float64"


def missing_costs(signature: Signature, device: Device) -> str | None:
    """Return why a cost-only task cannot be planned on a device, or None if it can."""
    if device.is_host:
        return "runs host implementations only"
    cost = stated_cost(signature)
    if cost.seconds is None and _named(cost, device) is None:
        return f"costs are stated for {', '.join(cost.on)} only"
    return None


def stated_seconds(signature: Signature, device: Device, rates: Rates) -> tuple[float, str]:
    """Return the seconds of a cost-only task on a device."""
    cost = stated_cost(signature)
    named = _named(cost, device)
    if named is not None:
        return named, "stated"
    if cost.seconds is None:
        return math.inf, "stated"
    unit_flops = rates.peak(_DTYPE) / rates.compute_units
    cores = min(cost.cores, rates.compute_units)
    return cost.seconds * (REFERENCE_CORE_FLOPS / unit_flops) * (cost.cores / cores), "scaled"


def _named(cost: StatedCost, device: Device) -> float | None:
    """Return the seconds stated for a device: by name, by name without its number, by kind, or for any device."""
    names = [device.name]
    if device.partition is None and "." in device.name:
        names.append(device.name.rpartition(".")[0])
    for name in (*names, device.kind, ANY_DEVICE):
        if name in cost.on:
            return cost.on[name]
    return None
