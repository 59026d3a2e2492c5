# SPDX-License-Identifier: Apache-2.0
"""Restriction of a scheduling problem to some of its devices."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from syclsched.errors import CapabilityError, DeviceNotFoundError
from syclsched.scheduling.problem import Problem
from syclsched.scheduling.tables import frozen


def on_devices(problem: Problem, devices: Iterable[str]) -> Problem:
    """Return the problem with the named devices only; tasks, items and spaces keep their numbers."""
    names = set(devices)
    for name in names.difference(problem.devices):
        raise DeviceNotFoundError(f"no device {name!r}", where="problem", hint=f"It has {', '.join(problem.devices)}")
    kept = np.array([i for i, name in enumerate(problem.devices) if name in names], dtype=np.int64)
    tables = problem.tables
    seconds = tables.seconds[:, kept]
    nowhere = np.flatnonzero(np.isinf(seconds).all(axis=1))
    if len(nowhere):
        able = "none of the devices kept can run it"
        raise CapabilityError(able, where=f"task {problem.names[nowhere[0]]!r}", hint="Keep a device that can")
    lanes, reaches = np.diff(tables.device_start)[kept], np.diff(tables.reach_start)[kept]
    processors = np.flatnonzero(np.isin(tables.processor_device, kept))
    reached = np.flatnonzero(np.isin(np.repeat(np.arange(len(problem.devices)), np.diff(tables.reach_start)), kept))
    part = tables._replace(
        seconds=seconds,
        device_start=np.cumsum([0, *lanes]),
        processor_device=np.repeat(np.arange(len(kept)), lanes),
        reach_start=np.cumsum([0, *reaches]),
        reach_space=tables.reach_space[reached],
        busy_w=tables.busy_w[kept],
        idle_w=tables.idle_w[kept],
    )
    return replace(
        problem,
        devices=tuple([problem.devices[i] for i in kept]),
        lanes=tuple([problem.lanes[p] for p in processors]),
        implementation=problem.implementation[:, kept],
        tables=frozen(part),
    )
