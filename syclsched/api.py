# SPDX-License-Identifier: Apache-2.0
"""The library in a few verbs: discover, describe, calibrate, plan, verify, simulate, run, bind.

Each takes and returns the frozen data of `syclsched.model`; the rooms below can be used directly for more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from syclsched.errors import ArgumentError
from syclsched.model.graph import TaskGraph
from syclsched.model.memory_limit import MemoryLimit, check_planned, with_memory_limit
from syclsched.model.plan import Plan
from syclsched.model.platform import Device, Platform
from syclsched.model.trace import Trace

if TYPE_CHECKING:
    from syclsched.costs import History
    from syclsched.devices import LiveDevices
    from syclsched.execution import Run, Runner, Safeguards
    from syclsched.simulation import Event, Noise


def discover(
    select: str | None = None,
    *,
    where: Callable[[Device], bool] | None = None,
    sub_devices: int | None = None,
    lanes: Mapping[str, int] | int | None = None,
) -> Platform:
    """Find the SYCL devices of this machine, with the profiles stored for them.

    Parameters
    ----------
    select : str, optional
        Which devices: ``cpu,accelerator``, device names, or the syntax of ONEAPI_DEVICE_SELECTOR
        (``opencl:cpu;level_zero:gpu``).
    where : callable, optional
        Keeps the devices for which it returns true.
    sub_devices : int, optional
        Replace every CPU device by this many equal sub-devices.
    lanes : int or Mapping[str, int], optional
        In-order compute queues per device, for all or by device name; by default what the profile found
        to run at once.

    Returns
    -------
    Platform
        Plain data; devices that failed their known-answer test are left out.

    Raises
    ------
    RuntimeMissingError
        If the SYCL runtime cannot be loaded.
    EmptyPlatformError
        If no usable device is left.
    """
    from syclsched import devices
    from syclsched.profiling import ProfileStore, attach

    platform = attach(devices.discover(selector=select, where=where, sub_devices=sub_devices), ProfileStore())
    return platform if lanes is None else with_lanes(platform, lanes)


def with_lanes(platform: Platform, lanes: Mapping[str, int] | int) -> Platform:
    """Return the platform with another number of compute lanes.

    Parameters
    ----------
    platform : Platform
        The platform.
    lanes : int or Mapping[str, int]
        For all SYCL devices, or by device name.

    Returns
    -------
    Platform
        A changed copy.
    """
    by_name = dict.fromkeys((d.name for d in platform.compute_devices), lanes) if isinstance(lanes, int) else lanes
    for name in by_name:
        platform.device(name)
    return replace(
        platform,
        devices=tuple(replace(d, lanes=by_name[d.name]) if d.name in by_name else d for d in platform.devices),
    )


def describe(profiles: Iterable[str], name: str = "described") -> Platform:
    """Make a platform of hardware that is not here, from profiles.

    Parameters
    ----------
    profiles : iterable of str
        Names of shipped profiles (``cpu``, ``max1550``, ``a770``, ...) or paths of profile files.
    name : str, optional
        The platform's name.

    Returns
    -------
    Platform
        To plan for and to simulate on; its devices have the names given.

    Raises
    ------
    FormatError, StorageError
        If a file is not a profile or cannot be read.
    """
    from syclsched.profiling import load_platform

    return load_platform(profiles, name)


def calibrate(
    graph: TaskGraph,
    platform: Platform,
    *,
    live: LiveDevices | None = None,
    progress: Callable[..., None] | None = None,
    policy: str = "auto",
    rewrite: str = "auto",
) -> int:
    """Time every distinct piece of work of a graph on every device that can do it, and remember it.

    Parameters
    ----------
    graph : TaskGraph
        Its operations, with the shapes its tasks have.
    platform : Platform
        Devices of this machine.
    live : LiveDevices, optional
        Opened if not given.
    progress : callable, optional
        Called as measurements are made.
    policy, rewrite : str, optional
        As they will be given to `plan`: where tasks may be cut, their chunks are timed, too.

    Returns
    -------
    int
        How many measurements were made; those remembered from earlier are not repeated.
    """
    from contextlib import ExitStack

    from syclsched.devices import open_devices
    from syclsched.planner import graph_to_time
    from syclsched.profiling import HistoryStore
    from syclsched.profiling import calibrate as measure

    with ExitStack() as stack:
        history = stack.enter_context(HistoryStore())
        opened = live if live is not None else stack.enter_context(open_devices(platform))
        measured = measure(graph, platform, opened, history, progress=progress).measured
        chunks = graph_to_time(graph, platform, policy=policy, rewrite=rewrite, history=history)
        if chunks is not None:
            measured += measure(chunks, platform, opened, history, progress=progress).measured
    return measured


def plan(
    graph: TaskGraph,
    platform: Platform,
    *,
    policy: str = "auto",
    history: History | None = None,
    minimize: str = "makespan",
    subject_to: Iterable[str] = (),
    rewrite: str = "auto",
    budget_s: float | None = None,
    seed: int = 0,
    memory_limit: MemoryLimit | None = None,
) -> Plan:
    """Plan a graph for a platform; see `syclsched.planner.plan_graph`.

    Parameters
    ----------
    graph : TaskGraph
        What to run.
    platform : Platform
        Live or described.
    policy : str, optional
        ``auto``, ``heft``, ``single:DEVICE`` or another registered policy.
    history : History, optional
        Measured task times; by default those remembered on this machine.
    minimize : str, optional
        What ``auto`` makes as small as it can: ``makespan``, ``throughput`` (the interval between runs), ``energy`` or
        ``memory``.
    subject_to : iterable of str, optional
        What the plan must keep to, such as ``memory[gpu] <= 1GiB``.
    rewrite : str, optional
        ``none`` plans the graph as it is; ``coarsen`` merges tiny tasks first, ``split`` cuts large ones, ``both`` does
        both. ``auto`` plans as it is and with both, and keeps the better; with a named policy it is ``none``. The plan
        runs with the graph given here, whatever was done.
    budget_s : float, optional
        Seconds that the search of ``auto`` may take; by default it makes a number of moves that depends on the graph,
        so that the same plan comes out every time.
    seed : int, optional
        Of the search's random numbers.
    memory_limit : int, str or Mapping[str, int or str], optional
        The most memory that arrays may take at once: ``{"cpu": "64MiB"}`` by memory space or device, or one size for
        every SYCL device's. What does not fit is evicted to the host's memory and brought back, or made again.

    Returns
    -------
    Plan
        Verified, with predicted times.

    Raises
    ------
    MemoryLimitError
        If nothing can be planned within that; says what is needed at least.
    """
    from contextlib import ExitStack
    from time import perf_counter

    from syclsched.planner import plan_graph
    from syclsched.profiling import HistoryStore

    limits = tuple(subject_to)
    if memory_limit is not None:
        platform = with_memory_limit(platform, memory_limit)
    with ExitStack() as stack:
        known = history if history is not None else stack.enter_context(HistoryStore())
        return plan_graph(
            graph,
            platform,
            policy=policy,
            history=known,
            minimize=minimize,
            subject_to=limits,
            rewrite=rewrite,
            budget_s=budget_s,
            clock=None if budget_s is None else perf_counter,
            seed=seed,
        )


def verify(plan: Plan, graph: TaskGraph | None = None) -> None:
    """Prove that a plan is complete and free of races; see `syclsched.planning.verify`.

    Parameters
    ----------
    plan : Plan
        Any plan, also one read from a file.
    graph : TaskGraph, optional
        The graph it must be for.

    Raises
    ------
    RaceError, IncompletePlanError, MemoryLimitError
        If it must not be run.
    """
    from syclsched.planning import verify as prove

    prove(plan, graph)


def simulate(plan: Plan, *, noise: Noise | None = None, events: Sequence[Event] = (), seed: int = 0) -> Trace:
    """Run a plan on a virtual clock; see `syclsched.simulation.simulate`.

    Parameters
    ----------
    plan : Plan
        The plan.
    noise : Noise, optional
        How true durations differ from planned ones: noise, and costs that are wrong.
    events : sequence of SlowDown or Failure, optional
        Devices that slow down or fail at a time; these classes, `Noise`, and `repeat` for many seeds are in
        `syclsched.simulation`.
    seed : int, optional
        For the noise.

    Returns
    -------
    Trace
        As if it had run.
    """
    from syclsched.simulation import simulate as on_virtual_clock

    return on_virtual_clock(plan, noise=noise, events=events, seed=seed)


def run(
    graph: TaskGraph,
    platform: Platform | None = None,
    *,
    plan: Plan | None = None,
    policy: str = "auto",
    inputs: Mapping[str, Any] | None = None,
    calibrate: bool = True,
    rewrite: str = "auto",
    memory_limit: MemoryLimit | None = None,
    debug: bool = False,
    nan_guard: bool = False,
    dynamic: str | None = None,
    watchdog_s: float | None = None,
    deadline_s: float | None = None,
    recover: bool = True,
) -> Run:
    """Plan a graph if need be, and start it; returns at once.

    Parameters
    ----------
    graph : TaskGraph
        What to run.
    platform : Platform, optional
        Where; by default every usable device of this machine.
    plan : Plan, optional
        Made before, or read from a file; verified before anything runs.
    policy : str, optional
        For planning, if no plan is given.
    inputs : Mapping[str, array-like], optional
        Values of input arrays, before those given with `TaskGraph.array`.
    calibrate : bool, optional
        Time work that was never timed before on these devices, so that the plan is a good one.
    rewrite : str, optional
        For planning, if no plan is given; see `plan`. Inputs and results have the names of ``graph`` in any case.
    memory_limit : int, str or Mapping[str, int or str], optional
        See `plan`; a plan that is given and needs more is refused.
    debug : bool, optional
        Do one instruction at a time, and let a task fail that changes arrays, or rows of them, which it does not
        declare to write, or memory beyond; warn of tasks that read memory which nothing has written.
    nan_guard : bool, optional
        Do one instruction at a time, and let the first task fail that writes a NaN or an infinity.
    dynamic : str, optional
        Decide while tasks run: ``eager``, ``priority``, ``dmdas`` or ``stealing`` need no plan; ``hybrid`` follows the
        plan until tasks take other times than it says, and leaves it then. Results are the same, to the last bit.
    watchdog_s : float, optional
        Warn, through the logger ``syclsched``, of a task that runs for longer; by default for 30 times its prediction,
        and at least ten seconds. ``math.inf`` for never.
    deadline_s : float, optional
        Let the run fail if it takes longer. Tasks can have deadlines of their own; see `TaskGraph.kernel`.
    recover : bool, optional
        When a device or its runtime fails (a submission or an allocation is refused, a copy or a kernel fails, a device
        is lost), plan what is left anew, on the devices that are left, and go on: the result is the same. See
        `Run.recoveries`. A task that fails by itself is tried again as its ``retries`` say.

    Returns
    -------
    Run
        Ask it for results; use it as a context manager to give everything back.

    Raises
    ------
    PolicyError
        If there is no such dynamic policy.
    ArgumentError
        If what is asked for cannot be had together.
    """
    from syclsched.execution import Safeguards, execute

    safeguards = Safeguards(debug, nan_guard, watchdog_s, deadline_s)
    if dynamic is not None:
        if debug or nan_guard:
            raise ArgumentError("a run that decides as it goes cannot be done step by step", where="dynamic")
        return _run_dynamic(
            graph, platform, plan, policy, inputs, calibrate, memory_limit, dynamic, safeguards, recover
        )
    made, live = _planned_and_open(graph, platform, plan, policy, calibrate, rewrite, memory_limit)
    try:
        return execute(made, graph, live, inputs=inputs, owns_devices=True, safeguards=safeguards, recover=recover)
    except BaseException:
        live.close()
        raise


def _run_dynamic(
    graph: TaskGraph,
    platform: Platform | None,
    plan: Plan | None,
    policy: str,
    inputs: Mapping[str, Any] | None,
    calibrate: bool,
    memory_limit: MemoryLimit | None,
    dynamic: str,
    safeguards: Safeguards,
    recover: bool,
) -> Run:
    """Start a graph under a dynamic policy."""
    from syclsched.devices import open_devices
    from syclsched.execution.live import check_name, run_dynamically
    from syclsched.profiling import HistoryStore

    check_name(dynamic)
    if dynamic != "hybrid" and (plan is not None or policy != "auto"):
        raise ArgumentError(
            f"{dynamic!r} follows no plan", where="dynamic", hint="Leave plan and policy out, or use dynamic='hybrid'"
        )
    where = platform if platform is not None else (discover() if plan is None else plan.platform)
    if memory_limit is not None:
        where = with_memory_limit(where, memory_limit)
    live = open_devices(where)
    try:
        if calibrate and plan is None:
            _calibrate(graph, where, live=live, rewrite="none")
        with HistoryStore() as history:
            if dynamic == "hybrid" and plan is None:
                plan = _plan(graph, where, policy=policy, rewrite="none", history=history)
            return run_dynamically(
                graph,
                live,
                dynamic,
                inputs,
                plan=plan,
                history=history,
                owns_devices=True,
                safeguards=safeguards,
                recover=recover,
            )
    except BaseException:
        live.close()
        raise


def bind(
    graph: TaskGraph,
    platform: Platform | None = None,
    *,
    plan: Plan | None = None,
    policy: str = "auto",
    calibrate: bool = True,
    rewrite: str = "auto",
    trace: bool | int | Literal["exact"] = True,
    memory_limit: MemoryLimit | None = None,
    debug: bool = False,
    nan_guard: bool = False,
    watchdog_s: float | None = None,
    deadline_s: float | None = None,
    recover: bool = True,
) -> Runner:
    """Plan a graph if need be, and make it ready to be run many times with new data.

    Kernels are compiled, memory is got and arguments are laid out once. A run then costs little more than the
    submissions themselves, which are made from C.

    Parameters
    ----------
    graph, platform, plan, policy, calibrate, rewrite, memory_limit, debug, nan_guard, watchdog_s, deadline_s, recover
        As for `run`.
    trace : bool, int or "exact", optional
        Keep times of every run for `Run.trace`, and those of the last 16, or of so many, for `Runner.traces`.
        ``"exact"`` waits for each call of a library on CPU devices, where else only all together are known to have
        ended, and share their time as they were predicted to.

    Returns
    -------
    Runner
        ``runner.run(inputs)`` starts a run, ``runner(inputs)`` waits for it and returns results. Use it as a context
        manager to give everything back.
    """
    from syclsched.execution import Safeguards
    from syclsched.execution import bind as bind_plan

    safeguards = Safeguards(debug, nan_guard, watchdog_s, deadline_s)
    made, live = _planned_and_open(graph, platform, plan, policy, calibrate, rewrite, memory_limit)
    try:
        return bind_plan(made, graph, live, trace=trace, owns_devices=True, safeguards=safeguards, recover=recover)
    except BaseException:
        live.close()
        raise


def _planned_and_open(
    graph: TaskGraph,
    platform: Platform | None,
    plan: Plan | None,
    policy: str,
    calibrate: bool,
    rewrite: str,
    memory_limit: MemoryLimit | None,
) -> tuple[Plan, LiveDevices]:
    """Return a plan, made now if there is none, and the devices it runs on."""
    from syclsched.devices import open_devices

    where = platform if platform is not None else (discover() if plan is None else plan.platform)
    if memory_limit is not None:
        if plan is not None:
            check_planned(plan.needed_bytes, plan.platform, memory_limit)
        where = with_memory_limit(where, memory_limit)
    live = open_devices(where)
    try:
        if plan is None:
            if calibrate:
                _calibrate(graph, where, live=live, policy=policy, rewrite=rewrite)
            plan = _plan(graph, where, policy=policy, rewrite=rewrite)
        return plan, live
    except BaseException:
        live.close()
        raise


# `run` and `bind` have parameters of these names.
_calibrate, _plan = calibrate, plan
