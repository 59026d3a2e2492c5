# SPDX-License-Identifier: Apache-2.0
"""Planning for commands: calibrate and plan a graph with the given options, and open the devices if needed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from syclsched.cli.options import PlanOptions, PlatformOptions, parse_lanes, parse_memory_limit
from syclsched.cli.requests.local_platform import calibration_bar, find_platform, use_one_core_lanes
from syclsched.cli.terminal import detail, notices
from syclsched.cli.wait_notice import notice_if_slow, status_progress
from syclsched.errors import PlanError, SyclschedError
from syclsched.model.text.units import format_bytes, format_seconds, plural

if TYPE_CHECKING:
    from rich.console import Console

    from syclsched.cli.requests.onnx_models import ModelWithInputs
    from syclsched.cluster import Cluster
    from syclsched.costs.history import HistoryKey, RunKind
    from syclsched.devices import OpenDevices
    from syclsched.model.graph import TaskGraph
    from syclsched.model.plan import Plan
    from syclsched.model.platform import Platform
    from syclsched.planning_session import PlanningSession


@dataclass(frozen=True, slots=True)
class Planned:
    """A plan, with the open devices if it will be run."""

    plan: Plan
    live: OpenDevices | None
    makespan_key: Callable[[RunKind], HistoryKey] | None = None  # of the makespans of its runs, if they are kept
    cluster: Cluster | None = None  # whose machines it is for, instead of this one


@dataclass(frozen=True, slots=True)
class GivenPlan:
    """A plan from a file."""

    plan: Plan
    path: Path
    command: str  # the command that makes a plan for the graph that is to be run


@contextmanager
def plan_and_open(
    graph: TaskGraph,
    how: PlanOptions,
    where: PlatformOptions,
    console: Console,
    *,
    calibrate: bool,
    needs_devices: bool,
    given: GivenPlan | None = None,
    model: ModelWithInputs | None = None,
    without: Sequence[str] = (),
    recalibrate: bool = False,
    tries: bool = False,
    stay: Sequence[tuple[str, str]] = (),
) -> Iterator[Planned]:
    """Plan a graph, or use the given plan; a context manager that closes the devices at its end.

    ``stay`` has the devices of tasks that run on one only. With ``tries`` it may be a plan that has to be tried; see
    `PlanningSession.choose`.
    """
    from syclsched.api import verify
    from syclsched.devices import open_devices
    from syclsched.onnx.tuning.implementations import without_implementations
    from syclsched.planner.memory_limit import check_peak
    from syclsched.planning_session import PlanningSession
    from syclsched.profiling import HistoryStore
    from syclsched.profiling.storage.plan_store import PlanStore

    request, is_here, mixes = replace(how.request, stay=tuple(stay)), where.platform is None, False
    with ExitStack() as stack:
        if given is not None:
            made = given.plan
            graph = without_implementations(graph, without, made.platform)
            with naming_file(given.path, given.command):
                verify(made, graph)
                if where.memory_limit is not None:
                    check_peak(made.needed_bytes, made.platform, parse_memory_limit(where.memory_limit) or "")
                if needs_devices and where.one_core_lanes:
                    use_one_core_lanes()
                live = stack.enter_context(open_devices(made.platform)) if needs_devices else None
            yield Planned(made, live)
            return
        platform = target_platform(where, console, request.policy)
        whole = graph = without_implementations(graph, without, platform)
        _tell_platform(platform)
        tell_needless_limit(graph, platform, where.memory_limit)
        if model is not None:
            from syclsched.onnx.tuning.implementations import on_devices
            from syclsched.onnx.tuning.kernel_selection import default_rewrite, is_worth_mixing

            graph = on_devices(graph, platform)
            if is_here and request.rewrite == "auto":
                request = replace(request, rewrite=default_rewrite(platform, request.policy))
            # Under a dynamic policy the plan only serves for comparison with the run.
            mixes = is_here and calibrate and not request.policy.startswith("dynamic:")
            mixes = mixes and is_worth_mixing(platform, request)
        live = None
        calibrate = calibrate or recalibrate
        if is_here and (needs_devices or calibrate):
            with console.status("opening devices ..."):
                live = stack.enter_context(open_devices(platform))
        # One store for calibration and planning: if no file can be written, it keeps the times while it is open.
        # Times of a model's tasks are later measured in whole runs; only tasks with a choice are timed separately.
        session = PlanningSession(
            request, platform, stack.enter_context(HistoryStore()), choices_only=mixes, again=recalibrate,
            plans=PlanStore() if how.reuse else None, tell=lambda text: console.print(text),
        )  # fmt: skip
        if calibrate and live is not None:
            _calibrate(session, graph, live, console)
        with console.status("planning ...") as status, notice_if_slow(console):
            begun_s = time.perf_counter()
            session = replace(session, progress=status_progress(status, "planning"))
            chosen = session.choose(graph, tries=tries, live=live)
            detail(
                f"planned in {format_seconds(time.perf_counter() - begun_s)}: {chosen.plan.policy}, "
                f"{plural(len(chosen.plan.candidates), 'candidate')} considered, "
                f"rewrites: {chosen.plan.recipe or 'none'}"
            )
            if live is not None and request.policy.startswith("dynamic:"):
                session.check_choices(graph, live)
        planned = Planned(chosen.plan, live, chosen.makespan_key if tries else None)
        if model is not None and mixes and live is not None:
            is_limited = where.memory_limit is not None
            faster = _faster_plan(model, (whole, graph), chosen.plan, session, live, console, is_limited=is_limited)
            planned = Planned(faster, live)
        yield planned


@contextmanager
def naming_file(path: Path, command: str | None = None) -> Iterator[None]:
    """Name a plan's file, and the command that makes one for this graph, in errors that refuse the plan."""
    try:
        yield
    except SyclschedError as error:
        error.where = str(path) if error.where is None else f"{path}, {error.where}"
        if command is not None and isinstance(error, PlanError):
            error.hint = f"{error.hint}: {command}" if error.hint else command
        raise


def _tell_platform(platform: Platform) -> None:
    """Print the platform under --verbose, with the origin of its profiles."""
    for device in platform.devices:
        profile = device.profile
        made = "no profile" if profile is None else f"profile of {profile.provenance.date}"
        detail(f"device {device.name}: {plural(device.lanes, 'lane')}, {made}")


def tell_needless_limit(graph: TaskGraph, platform: Platform, memory_limit: str | None) -> None:
    """Print a note for limits that all arrays of a graph together do not reach."""
    from syclsched.planner.memory_limit import limits_by_space

    sizes = parse_memory_limit(memory_limit)
    if sizes is None:
        return
    total = sum(array.nbytes for array in graph.arrays.values())
    names = sorted(name for name, nbytes in limits_by_space(platform, sizes).items() if nbytes >= total)
    if names:
        notices().print(
            f"note: --memory-limit has no effect on {' and '.join(names)}: all arrays together need "
            f"{format_bytes(total)}",
            markup=False,
        )


def described_platform(names: str, lanes: str | None, *, of_many: bool = False) -> Platform:
    """Return the platform of the named profiles."""
    from syclsched.api import describe, with_lanes

    platform = describe([name.strip() for name in names.split(",") if name.strip()], names)
    counts = parse_lanes(lanes)
    if of_many and isinstance(counts, dict):
        here = {device.name for device in platform.devices}
        counts = {name: count for name, count in counts.items() if name in here}
    return platform if counts is None else with_lanes(platform, counts)


def target_platform(where: PlatformOptions, console: Console, policies: str = "") -> Platform:
    """Return the platform of the named profiles, or this machine's if none are named, for the given policies."""
    if where.platform is not None:
        platform = described_platform(where.platform, where.lanes)
    else:
        platform = find_platform(where, console, policies)
    return apply_memory_limit(platform, where.memory_limit)


def apply_memory_limit(platform: Platform, memory_limit: str | None, *, of_many: bool = False) -> Platform:
    """Return a platform with memory limited as typed by the user."""
    from syclsched.planner.memory_limit import with_memory_limit

    sizes = parse_memory_limit(memory_limit)
    if of_many and isinstance(sizes, dict):
        here = {d.name for d in platform.devices} | {s.name for s in platform.spaces}
        sizes = {name: size for name, size in sizes.items() if name in here}
    return platform if sizes is None else with_memory_limit(platform, sizes)


def _calibrate(session: PlanningSession, graph: TaskGraph, live: OpenDevices, console: Console) -> None:
    from rich.markup import escape

    with calibration_bar(console) as progress:
        found = replace(session, progress=progress).calibrate(graph, live)
    for failure in (failure for each in found for failure in each.failures):
        if not failure.is_compilation:  # of these the session has warned
            state = "refused, so not planned" if failure.is_refusal else "not timed"
            console.print(f"[yellow]{state}:[/yellow] {escape(f'{failure.label}: {failure.reason}')}")


def _faster_plan(
    model: ModelWithInputs,
    graphs: tuple[TaskGraph, TaskGraph],
    planned: Plan,
    session: PlanningSession,
    live: OpenDevices,
    console: Console,
    *,
    is_limited: bool,
) -> Plan:
    """Return a model's plan with kernels for some of the library's tasks if it runs faster, else the library plan."""
    from rich.markup import escape

    from syclsched.onnx.tuning.autotune import VariantBuilder, faster_plan

    graph, offered = graphs

    def show_status(text: str) -> None:
        status.update(escape(f"{text} ..."))

    def show_timing(done: int, total: int, label: str) -> None:
        show_status(f"timing {done} of {total}: {label}")

    with console.status("building kernels ...") as status:
        session = replace(session, progress=show_timing)
        variants = VariantBuilder(session, live, model.specialised, show_status, is_limited=is_limited)
        first = variants.unbound(offered, planned) if is_limited else variants.bind(offered, planned)
        best = faster_plan(first, graph, model.values, variants)
        best.close()
    return best.plan
