# SPDX-License-Identifier: Apache-2.0
"""From a graph and options to a plan, with the devices opened where they are needed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from syclsched.cli.options import parse_memory_limit
from syclsched.cli.patience import patience
from syclsched.cli.prepare import calibration_bar, find_platform, use_one_core_lanes
from syclsched.cli.racing import is_mixed, with_kernels

if TYPE_CHECKING:
    from rich.console import Console

    from syclsched.cli.models import GivenModel
    from syclsched.devices import LiveDevices
    from syclsched.model.graph import TaskGraph
    from syclsched.model.plan import Plan
    from syclsched.model.platform import Platform
    from syclsched.profiling import HistoryStore


@dataclass(frozen=True, slots=True)
class Planned:
    """A plan, and the open devices if it is to be run."""

    plan: Plan
    live: LiveDevices | None


@contextmanager
def plan_for(
    graph: TaskGraph,
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
    minimize: str = "makespan",
    subject_to: Sequence[str] = (),
    rewrite: str = "auto",
    budget_s: float | None = None,
    memory_limit: str | None = None,
    model: GivenModel | None = None,
    without: Sequence[str] = (),
) -> Iterator[Planned]:
    """Plan a graph, or take the plan that is given; devices are closed at the end."""
    from syclsched.api import plan, verify
    from syclsched.model.memory_limit import check_planned
    from syclsched.planner import graph_to_time
    from syclsched.profiling import HistoryStore

    asked: dict[str, Any] = {
        "minimize": minimize, "subject_to": tuple(subject_to), "rewrite": rewrite, "budget_s": budget_s,
    }  # fmt: skip

    if without:
        from syclsched.onnx.offering import without_implementations

        graph = without_implementations(graph, without)
    with ExitStack() as stack:
        if given is not None:
            verify(given, graph)
            if memory_limit is not None:
                check_planned(given.needed_bytes, given.platform, parse_memory_limit(memory_limit) or "")
            if not needs_devices:
                yield Planned(given, None)
                return
            if one_core_lanes:
                use_one_core_lanes()
            yield Planned(given, stack.enter_context(_open(given.platform)))
            return
        if described is not None:
            with console.status("planning ..."), patience(console):
                where = limited(described_platform(described, lanes), memory_limit)
                if model is not None:
                    from syclsched.onnx.offering import on_devices

                    graph = on_devices(graph, where)
                planned = plan(graph, where, policy=policy, **asked)
            yield Planned(planned, None)
            return
        platform = find_platform(
            devices=devices, sub_devices=sub_devices, lanes=lanes, one_core_lanes=one_core_lanes, console=console
        )
        platform = limited(platform, memory_limit)
        whole = graph
        if model is not None:
            from syclsched.onnx.making import without_emulators
            from syclsched.onnx.mixing import usual_rewrite
            from syclsched.onnx.offering import on_devices

            platform = without_emulators(platform) if devices is None else platform
            graph = on_devices(graph, platform)
            if rewrite == "auto":
                rewrite = asked["rewrite"] = usual_rewrite(platform, policy)
        # Of a model whose tasks' times runs tell, only what there is a choice of need be timed alone.
        mixes = model is not None and calibrate and not policy.startswith("dynamic:")
        mixes = mixes and is_mixed(platform, asked, is_limited=memory_limit is not None)
        with console.status("opening devices ..."):
            live = stack.enter_context(_open(platform)) if needs_devices or calibrate else None
        # One store for both: where nothing can be written, it remembers for as long as it is open.
        history = stack.enter_context(HistoryStore())
        if calibrate and live is not None:
            _calibrate(graph, platform, live, history, console, choices_only=mixes)
            chunks = graph_to_time(graph, platform, policy=policy, rewrite=rewrite, history=history)
            if chunks is not None:
                _calibrate(chunks, platform, live, history, console)
        with console.status("planning ..."), patience(console):
            planned = plan(graph, platform, policy=policy, history=history, **asked)
        # Under a dynamic policy the plan is only what the run is compared with.
        if model is not None and mixes and live is not None:
            asked["policy"] = policy
            planned = with_kernels(model, whole, graph, planned, platform, live, history, asked, console)
        yield Planned(planned, live)


def described_platform(names: str, lanes: str | None, *, of_many: bool = False) -> Platform:
    """Return the platform of some profiles."""
    from syclsched.api import describe, with_lanes
    from syclsched.cli.options import parse_lanes

    platform = describe([name.strip() for name in names.split(",") if name.strip()], names)
    counts = parse_lanes(lanes)
    if of_many and isinstance(counts, dict):
        here = {device.name for device in platform.devices}
        counts = {name: count for name, count in counts.items() if name in here}
    return platform if counts is None else with_lanes(platform, counts)


def platform_to_plan_for(
    described: str | None,
    *,
    devices: str | None,
    sub_devices: str | None,
    lanes: str | None,
    one_core_lanes: bool,
    memory_limit: str | None,
    console: Console,
) -> Platform:
    """Return the platform of some profiles or, if none are asked for, this machine's."""
    if described is not None:
        platform = described_platform(described, lanes)
    else:
        platform = find_platform(
            devices=devices, sub_devices=sub_devices, lanes=lanes, one_core_lanes=one_core_lanes, console=console
        )
    return limited(platform, memory_limit)


def limited(platform: Platform, memory_limit: str | None, *, of_many: bool = False) -> Platform:
    """Return a platform with no more memory than was typed."""
    from syclsched.model.memory_limit import with_memory_limit

    sizes = parse_memory_limit(memory_limit)
    if of_many and isinstance(sizes, dict):
        here = {d.name for d in platform.devices} | {s.name for s in platform.spaces}
        sizes = {name: size for name, size in sizes.items() if name in here}
    return platform if sizes is None else with_memory_limit(platform, sizes)


def _open(platform: Platform) -> LiveDevices:
    from syclsched.devices import open_devices

    return open_devices(platform)


def _calibrate(
    graph: TaskGraph,
    platform: Platform,
    live: LiveDevices,
    history: HistoryStore,
    console: Console,
    *,
    choices_only: bool = False,
) -> None:
    from syclsched.profiling import calibrate

    with calibration_bar(console) as progress:
        done = calibrate(graph, platform, live, history, progress=progress, choices_only=choices_only)
    for what, why in done.failures:
        console.print(f"[yellow]not timed:[/yellow] {what}: {why}", soft_wrap=True)
