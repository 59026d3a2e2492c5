# SPDX-License-Identifier: Apache-2.0
"""Degraded plans: planning again without lost or excluded devices."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import TYPE_CHECKING

from syclsched.errors import EmptyPlatformError
from syclsched.execution.dispatch.prepared import PreparedPlan, prepare
from syclsched.execution.recovery.subgraphs import SubgraphBuilder
from syclsched.model.plan import Plan
from syclsched.model.platform import HOST, Platform

if TYPE_CHECKING:
    from syclsched.devices.opened_devices import OpenDevices


def replan_without(prepared: PreparedPlan, devices: OpenDevices, excluded: Collection[str]) -> PreparedPlan:
    """Return a plan of the same graph without some devices."""
    from syclsched.planner import plan_graph

    remains = SubgraphBuilder(prepared.graph, prepared.plan)
    platform = platform_without(prepared.plan.platform, devices, excluded)
    graph = remains.all(platform)
    return prepare(plan_graph(graph, platform, policy="heft", history=remains.times, rewrite="none"), graph)


def devices_in(plan: Plan, space: str | None) -> tuple[str, ...]:
    """Return the devices on which a plan's lanes work in a memory space."""
    used = {lane.device for lane in plan.lanes}
    return tuple(d.name for d in plan.platform.compute_devices if d.name in used and d.space == space)


def platform_without(platform: Platform, devices: OpenDevices, excluded: Collection[str]) -> Platform:
    """Return a plan's platform without some devices, with current profiles; if none is left, with the host alone."""
    profiles = {device.name: device.profile for device in devices.platform.devices}
    # The limit on a library's threads may be due to lost devices.
    threads = {device.name: device.most_threads for device in devices.platform.devices}
    whole = replace(
        platform,
        devices=tuple(
            replace(d, profile=profiles.get(d.name), most_threads=threads.get(d.name, d.most_threads))
            for d in platform.devices
        ),
    )
    kept = [device.name for device in whole.compute_devices if device.name not in excluded]
    if kept:
        return whole.select(kept)
    hosts = tuple(replace(d, reaches=(HOST,)) for d in whole.devices if d.is_host)
    if not hosts:
        raise EmptyPlatformError("no device is left", where=f"platform {platform.name!r}")
    spaces = tuple(s for s in whole.spaces if s.name == HOST)
    return replace(whole, devices=hosts, spaces=spaces, links=(), interferences=())
