# SPDX-License-Identifier: Apache-2.0
"""Planning for commands: calibrate and plan a graph with the given options, and open the devices if needed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from syclsched.cli.options import PlanOptions, PlatformOptions, parse_memory_limit
from syclsched.cli.requests.kernel_choice import faster_plan
from syclsched.cli.requests.local_platform import calibration_bar, find_platform, use_one_core_lanes
from syclsched.cli.wait_notice import notice_if_slow

if TYPE_CHECKING:
    from rich.console import Console

    from syclsched.cli.requests.onnx_models import ModelWithInputs
    from syclsched.devices import OpenDevices
    from syclsched.model.graph import TaskGraph
    from syclsched.model.plan import Plan
    from syclsched.model.platform import Platform
    from syclsched.profiling import HistoryStore


@dataclass(frozen=True, slots=True)
class Planned:
    """A plan, with the open devices if it will be run."""

    plan: Plan
    live: OpenDevices | None


@contextmanager
def plan_and_open(
    graph: TaskGraph,
    how: PlanOptions,
    where: PlatformOptions,
    console: Console,
    *,
    calibrate: bool,
    needs_devices: bool,
    given: Plan | None = None,
    model: ModelWithInputs | None = None,
    without: Sequence[str] = (),
) -> Iterator[Planned]:
    """Plan a graph, or use the given plan; a context manager that closes the devices at its end."""
    from syclsched.api import plan, verify
    from syclsched.model.memory_limit import check_peak
    from syclsched.profiling import HistoryStore

    request, memory_limit = how.request, where.memory_limit
    if without:
        from syclsched.onnx.implementations import without_implementations

        graph = without_implementations(graph, without)
    with ExitStack() as stack:
        if given is not None:
            verify(given, graph)
            if memory_limit is not None:
                check_peak(given.needed_bytes, given.platform, parse_memory_limit(memory_limit) or "")
            if not needs_devices:
                yield Planned(given, None)
                return
            if where.one_core_lanes:
                use_one_core_lanes()
            yield Planned(given, stack.enter_context(_open(given.platform)))
            return
        if where.platform is not None:
            with console.status("planning ..."), notice_if_slow(console):
                platform = apply_memory_limit(described_platform(where.platform, where.lanes), memory_limit)
                if model is not None:
                    from syclsched.onnx.implementations import on_devices

                    graph = on_devices(graph, platform)
                planned = plan(graph, platform, **request.options())
            yield Planned(planned, None)
            return
        platform = apply_memory_limit(find_platform(where, console), memory_limit)
        whole = graph
        if model is not None:
            from syclsched.onnx.implementations import on_devices
            from syclsched.onnx.kernel_selection import default_rewrite
            from syclsched.onnx.model_build import without_emulators

            platform = without_emulators(platform) if where.devices is None else platform
            graph = on_devices(graph, platform)
            if request.rewrite == "auto":
                request = replace(request, rewrite=default_rewrite(platform, request.policy))
        from syclsched.onnx.kernel_selection import is_worth_mixing

        # Times of a model's tasks are later measured in whole runs; only tasks with a choice are timed separately.
        mixes = model is not None and calibrate and not request.policy.startswith("dynamic:")
        mixes = mixes and is_worth_mixing(platform, request, is_limited=memory_limit is not None)
        with console.status("opening devices ..."):
            live = stack.enter_context(_open(platform)) if needs_devices or calibrate else None
        # One store for calibration and planning: if no file can be written, it keeps the times while it is open.
        history = stack.enter_context(HistoryStore())
        if calibrate and live is not None:
            request.calibrate(graph, platform, history, partial(_calibrate, platform, live, history, console, mixes))
        with console.status("planning ..."), notice_if_slow(console):
            planned = plan(graph, platform, history=history, **request.options())
        # Under a dynamic policy the plan only serves for comparison with the run.
        if model is not None and mixes and live is not None:
            planned = faster_plan(model, (whole, graph), planned, platform, live, history, request, console)
        yield Planned(planned, live)


def described_platform(names: str, lanes: str | None, *, of_many: bool = False) -> Platform:
    """Return the platform of the named profiles."""
    from syclsched.api import describe, with_lanes
    from syclsched.cli.options import parse_lanes

    platform = describe([name.strip() for name in names.split(",") if name.strip()], names)
    counts = parse_lanes(lanes)
    if of_many and isinstance(counts, dict):
        here = {device.name for device in platform.devices}
        counts = {name: count for name, count in counts.items() if name in here}
    return platform if counts is None else with_lanes(platform, counts)


def target_platform(where: PlatformOptions, console: Console) -> Platform:
    """Return the platform of the named profiles, or this machine's if none are named."""
    if where.platform is not None:
        platform = described_platform(where.platform, where.lanes)
    else:
        platform = find_platform(where, console)
    return apply_memory_limit(platform, where.memory_limit)


def apply_memory_limit(platform: Platform, memory_limit: str | None, *, of_many: bool = False) -> Platform:
    """Return a platform with memory limited as typed by the user."""
    from syclsched.model.memory_limit import with_memory_limit

    sizes = parse_memory_limit(memory_limit)
    if of_many and isinstance(sizes, dict):
        here = {d.name for d in platform.devices} | {s.name for s in platform.spaces}
        sizes = {name: size for name, size in sizes.items() if name in here}
    return platform if sizes is None else with_memory_limit(platform, sizes)


def _open(platform: Platform) -> OpenDevices:
    from syclsched.devices import open_devices

    return open_devices(platform)


def _calibrate(
    platform: Platform,
    live: OpenDevices,
    history: HistoryStore,
    console: Console,
    choices_only: bool,
    graph: TaskGraph,
) -> None:
    from syclsched.profiling import calibrate

    with calibration_bar(console) as progress:
        done = calibrate(graph, platform, live, history, progress=progress, choices_only=choices_only)
    for what, why in done.failures:
        console.print(f"[yellow]not timed:[/yellow] {what}: {why}", soft_wrap=True)
