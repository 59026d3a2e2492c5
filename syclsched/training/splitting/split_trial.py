# SPDX-License-Identifier: Apache-2.0
"""Measured comparison of steps that are divided among devices with steps on the best single device."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from syclsched.errors import SyclschedError
from syclsched.model.graph import TaskGraph
from syclsched.model.platform import Platform
from syclsched.onnx.tuning.plan_comparison import (
    comparison_key,
    is_known_faster,
    measure_is_faster,
    stored_ratio,
    time_alternating,
)
from syclsched.training.splitting.splits import SplitChoice

if TYPE_CHECKING:
    from syclsched.profiling.calibration import RecordingHistory

_LOGGER: Final = logging.getLogger("syclsched")

Run = Callable[[], object]


def trial_key(single: TaskGraph, divided: TaskGraph, stay: Mapping[str, str], platform: Platform) -> str:
    """Return the key of the stored ratio of a divided step to one on a single device."""
    devices = [device.key for device in platform.compute_devices]
    content = comparison_key(single), comparison_key(divided), sorted(stay.items()), devices
    return hashlib.sha256(repr(content).encode()).hexdigest()[:32]


def tried(
    choice: SplitChoice, platform: Platform, history: RecordingHistory, runs: Callable[[], tuple[Run, Run]]
) -> SplitChoice:
    """Return a choice of divided steps, or one device if steps there are measured to be as fast.

    ``runs`` makes a step on the single device and a divided one; it is called if no earlier process has compared them
    with certainty. If the comparison fails, or others use the machine meanwhile, the prediction counts.
    """
    single = next((each for each in choice.splits if each.kind == "single"), None)
    if choice.trial is None or single is None:
        return choice
    device = platform.compute_devices[0]
    if is_known_faster(device, history, choice.trial) is None:
        try:
            measure_is_faster(device, history, choice.trial, lambda: time_alternating(runs()))
        except SyclschedError as error:  # such as too little memory for both
            _LOGGER.info("division of steps: it is not compared with one device: %s", error)
            return choice
    found = stored_ratio(device, history, choice.trial)
    if found is None:
        return choice
    measured = f"measured: {found.ratio:.2f} times the time on {single.details}"
    if found.is_kept:
        return replace(choice, why=measured)
    return replace(choice, best=single, why=f"as {choice.best.kind} was {measured}")
