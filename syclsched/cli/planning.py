# SPDX-License-Identifier: Apache-2.0
"""From a ready graph and options to a plan, with the devices opened where they are needed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from syclsched.cli.prepare import calibration_bar, find_platform, use_one_core_lanes

if TYPE_CHECKING:
    from rich.console import Console

    from syclsched.devices import LiveDevices
    from syclsched.model.plan import Plan
    from syclsched.model.platform import Platform
    from syclsched.profiling import HistoryStore
    from syclsched.workloads import Workload


@dataclass(frozen=True, slots=True)
class Planned:
    """A plan, and the open devices if it is to be run."""

    plan: Plan
    live: LiveDevices | None


@contextmanager
def plan_workload(
    workload: Workload,
    *,
    policy: str,
    devices: str | None,
    sub_devices: str | None,
    lanes: str | None,
    one_core_lanes: bool,
    described: str | None,
    given: Plan | None,
    calibrate: bool,
    needs_devices: bool,
    console: Console,
) -> Iterator[Planned]:
    """Plan a ready graph, or take the plan that is given; devices are closed at the end.

    Parameters
    ----------
    workload : Workload
        The graph.
    policy, devices, sub_devices, lanes, one_core_lanes
        As typed.
    described : str or None
        Profiles of hardware to plan for instead of this machine's.
    given : Plan or None
        A plan from a file.
    calibrate : bool
        Whether to time unknown work first.
    needs_devices : bool
        Whether the plan is to be run.
    console : rich.console.Console
        For progress.

    Yields
    ------
    Planned
        A verified plan.
    """
    from syclsched.api import describe, plan, verify
    from syclsched.profiling import HistoryStore

    with ExitStack() as stack:
        if given is not None:
            verify(given, workload.graph)
            if not needs_devices:
                yield Planned(given, None)
                return
            if one_core_lanes:
                use_one_core_lanes()
            yield Planned(given, stack.enter_context(_open(given.platform)))
            return
        if described is not None:
            platform = describe([name.strip() for name in described.split(",") if name.strip()], described)
            if lanes is not None:
                from syclsched.api import with_lanes
                from syclsched.cli.options import parse_lanes

                counts = parse_lanes(lanes)
                assert counts is not None
                platform = with_lanes(platform, counts)
            yield Planned(plan(workload.graph, platform, policy=policy), None)
            return
        platform = find_platform(
            devices=devices, sub_devices=sub_devices, lanes=lanes, one_core_lanes=one_core_lanes, console=console
        )
        live = stack.enter_context(_open(platform)) if needs_devices or calibrate else None
        # One store for both: where nothing can be written, it remembers for as long as it is open.
        history = stack.enter_context(HistoryStore())
        if calibrate and live is not None:
            _calibrate(workload, platform, live, history, console)
        yield Planned(plan(workload.graph, platform, policy=policy, history=history), live)


def _open(platform: Platform) -> LiveDevices:
    from syclsched.devices import open_devices

    return open_devices(platform)


def _calibrate(
    workload: Workload, platform: Platform, live: LiveDevices, history: HistoryStore, console: Console
) -> None:
    from syclsched.profiling import calibrate

    with calibration_bar(console) as progress:
        done = calibrate(workload.graph, platform, live, history, progress=progress)
    for what, why in done.failures:
        console.print(f"[yellow]not timed:[/yellow] {what}: {why}", soft_wrap=True)
