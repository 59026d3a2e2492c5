# SPDX-License-Identifier: Apache-2.0
"""The library's main functions: discover, describe, calibrate, plan, verify, simulate, run and bind.

Each takes and returns the frozen data of `syclsched.model`. The packages below can be used directly for finer control.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Literal

from syclsched.errors import ArgumentError
from syclsched.model.graph import TaskGraph
from syclsched.model.memory_limit import MemoryLimit, check_peak, with_memory_limit
from syclsched.model.plan import Plan
from syclsched.model.platform import Device, Platform
from syclsched.model.trace import Trace
from syclsched.progress import Progress, reported

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from syclsched.costs import History
    from syclsched.devices import OpenDevices
    from syclsched.execution import Run, Runner, Safeguards
    from syclsched.execution.core.safeguards import SafeguardOptions
    from syclsched.execution.monitor.status_publisher import Monitoring
    from syclsched.planning_session import ChosenPlan
    from syclsched.simulation import Event, Noise

    class _RunOptions(SafeguardOptions, total=False):
        """Further keyword arguments of `run` and `bind`."""

        reuse: bool
        deterministic: bool


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
        Device selection: ``cpu,accelerator``, device names, or the syntax of ONEAPI_DEVICE_SELECTOR
        (``opencl:cpu;level_zero:gpu``). Without it and ``where``, an emulator is left out beside other devices: it
        computes on the cores of the CPU device, so it gains nothing.
    where : callable, optional
        Predicate on devices; those for which it returns true are kept.
    sub_devices : int, optional
        Replace every CPU device by this many equal sub-devices.
    lanes : int or Mapping[str, int], optional
        In-order compute queues per device, for all or by device name. By default as many as the profile found to make
        progress at once; the host has one lane whose library calls use all cores, and the policy ``auto`` also plans
        with one lane of one thread for each core (up to 16 lanes).

    Returns
    -------
    Platform
        Plain data. Devices that failed their known-answer test are left out.

    Raises
    ------
    RuntimeMissingError
        If the SYCL runtime cannot be loaded.
    EmptyPlatformError
        If no usable device is left.

    Examples
    --------
    >>> import syclsched
    >>> platform = syclsched.discover("cpu")
    >>> [device.kind for device in platform.devices]
    ['cpu', 'host']
    """
    from syclsched import devices
    from syclsched.profiling import ProfileStore, attach

    found = devices.discover(selector=select, where=where, sub_devices=sub_devices)
    if select is None and where is None:
        found = devices.without_emulators(found)
    platform = attach(found, ProfileStore())
    return platform if lanes is None else with_lanes(platform, lanes)


def with_lanes(platform: Platform, lanes: Mapping[str, int] | int) -> Platform:
    """Return the platform with another number of compute lanes, for all SYCL devices or by device name."""
    by_name = dict.fromkeys((d.name for d in platform.compute_devices), lanes) if isinstance(lanes, int) else lanes
    for name in by_name:
        platform.device(name)
    return replace(
        platform,
        devices=tuple(
            replace(d, lanes=by_name[d.name], most_lanes=0) if d.name in by_name else d for d in platform.devices
        ),
    )


def describe(profiles: str | Iterable[str], name: str = "described") -> Platform:
    """Describe a platform by device profiles, for hardware that need not be present.

    Parameters
    ----------
    profiles : str or iterable of str
        Names of shipped profiles (``cpu``, ``max1550``, ``a770``, ...) or paths of profile files; in one string with
        commas between them.
    name : str, optional
        The platform's name.

    Returns
    -------
    Platform
        For planning and simulation; its devices have the names given.

    Raises
    ------
    FormatError, StorageError
        If a file is not a profile or cannot be read.

    Examples
    --------
    >>> import syclsched
    >>> syclsched.describe(["xeon-8480", "max1550"], name="node")
    <Platform 'node': xeon-8480, max1550, host; 3 memory spaces>
    """
    from syclsched.profiling import load_platform

    return load_platform(profiles.split(",") if isinstance(profiles, str) else profiles, name)


def calibrate(
    graph: TaskGraph,
    platform: Platform,
    *,
    live: OpenDevices | None = None,
    progress: Progress | bool | None = None,
    policy: str = "auto",
    rewrite: str = "auto",
) -> int:
    """Measure the execution time of every distinct task of a graph on every capable device, and store it.

    Parameters
    ----------
    graph : TaskGraph
        The graph; its operations are timed with the shapes of its tasks.
    platform : Platform
        Platform whose devices are on this machine.
    live : OpenDevices, optional
        Open devices; opened (and closed) here if not given.
    progress : callable or bool, optional
        Called before each measurement as ``progress(done, total, step)``; see `syclsched.progress.Progress`.
        ``True`` shows a bar, as notebooks do if nothing is given; ``False`` shows none.
    policy, rewrite : str, optional
        As they will be passed to `plan`. If tasks may be split, their chunks are timed, too.

    Returns
    -------
    int
        Number of measurements made. Stored ones are not repeated.

    Raises
    ------
    CapabilityError, KernelCompilationError
        If a kernel cannot be compiled and its operation has no other implementation; with the compiler's message.

    Warns
    -----
    KernelCompilationWarning
        If a kernel cannot be compiled and another implementation of its operation can be used.

    Examples
    --------
    >>> import numpy as np
    >>> import syclsched
    >>> from syclsched.kernels import get
    >>> graph = syclsched.TaskGraph()
    >>> task = graph.kernel(get("scale"), x=graph.array("x", data=np.ones(1234)), alpha=2.0)
    >>> platform = syclsched.discover("cpu")
    >>> made = syclsched.calibrate(graph, platform)
    >>> made >= 0
    True
    """
    from syclsched.devices import open_devices
    from syclsched.planner import PlanRequest
    from syclsched.planning_session import PlanningSession
    from syclsched.profiling import HistoryStore

    _check_kinds(graph, platform)
    with (
        HistoryStore() as history,
        nullcontext(live) if live is not None else open_devices(platform) as opened,
        reported(f"calibration of {graph.name!r}", progress) as tell,
    ):
        session = PlanningSession(PlanRequest(policy, rewrite=rewrite), platform, history, tell)
        return sum(found.measured for found in session.calibrate(graph, opened))


def plan(
    graph: TaskGraph,
    platform: Platform | None = None,
    *,
    policy: str = "auto",
    history: History | None = None,
    minimize: str = "makespan",
    subject_to: Iterable[str] = (),
    rewrite: str = "auto",
    budget_s: float | None = None,
    seed: int = 0,
    memory_limit: MemoryLimit | None = None,
    progress: Progress | bool | None = None,
    reuse: bool = True,
) -> Plan:
    """Plan a graph for a platform; see `syclsched.planner.plan_graph`.

    Parameters
    ----------
    graph : TaskGraph
        The graph to plan.
    platform : Platform, optional
        Discovered or described; by default every usable device of this machine.
    policy : str, optional
        ``auto``, ``heft``, ``single:DEVICE`` or another registered policy.
    history : History, optional
        Measured task times; by default those stored on this machine.
    minimize : str, optional
        Objective of ``auto``: ``makespan``, ``throughput`` (the interval between runs), ``energy`` or ``memory``.
    subject_to : iterable of str, optional
        Constraints on the plan, such as ``memory[gpu] <= 1GiB``.
    rewrite : str, optional
        ``none`` plans the graph unchanged; ``coarsen`` merges tiny tasks first, ``split`` splits large ones, ``both``
        does both. ``auto`` plans the graph unchanged and with both rewrites, and keeps the better plan; with a named
        policy it means ``none``. In every case the plan runs with the graph given here.
    budget_s : float, optional
        Time limit in seconds of the search of ``auto``. By default the number of search moves depends only on the
        graph, so that the plan is reproducible.
    seed : int, optional
        Seed of the search's random numbers.
    memory_limit : int, str or Mapping[str, int or str], optional
        Limit on the memory of arrays that are live at once: ``{"cpu": "64MiB"}`` by memory space or device, or one
        size for every SYCL device. Arrays that do not fit are evicted to host memory and copied back, or recomputed.
    progress : callable or bool, optional
        Called before each step as ``progress(done, total, step)``; see `syclsched.progress.Progress`.
        ``True`` shows a bar, as notebooks do if nothing is given; ``False`` shows none.
    reuse : bool, optional
        Use the plan of an earlier call again, if graph, platform, options and measured times are the same. Plans of
        ``auto`` for up to 5,000 tasks are kept in this process; those that took a fifth of a second or longer also in
        the user's data folder. If runs have tried several plans, it is the fastest of them.

    Returns
    -------
    Plan
        Verified, with predicted times.

    Raises
    ------
    MemoryLimitError
        If no plan fits the limit; the message names the least memory needed.

    Examples
    --------
    >>> import syclsched
    >>> from syclsched.kernels import get
    >>> graph = syclsched.TaskGraph()
    >>> x = graph.array("x", (1 << 20,))
    >>> for step in range(3):
    ...     task = graph.kernel(get("scale"), name=f"step{step}", x=x, alpha=2.0)
    >>> plan = syclsched.plan(graph, syclsched.describe("xeon-8480,max1550"))
    >>> print(plan.explain("step1"))
    step1...
    """
    from syclsched.planner import PlanRequest
    from syclsched.planning_session import PlanningSession
    from syclsched.profiling import HistoryStore
    from syclsched.profiling.storage.plan_store import PlanStore

    _check_kinds(graph, platform)
    platform = discover() if platform is None else platform
    request = PlanRequest(policy, minimize, tuple(subject_to), rewrite, budget_s, seed)
    if memory_limit is not None:
        platform = with_memory_limit(platform, memory_limit)
    with (
        nullcontext(history) if history is not None else HistoryStore() as known,
        reported(f"planning of {graph.name!r}", progress) as tell,
    ):
        plans = PlanStore() if reuse else None
        session = PlanningSession(request, platform, known, tell, plans=plans)  # type: ignore[arg-type]  # only reads
        return session.plan(graph)


def verify(plan: Plan, graph: TaskGraph | None = None) -> None:
    """Prove that a plan is complete and free of races; see `syclsched.planning.verify`.

    Parameters
    ----------
    plan : Plan
        Any plan, including one read from a file.
    graph : TaskGraph, optional
        The graph that the plan must match.

    Raises
    ------
    RaceError, IncompletePlanError, MemoryLimitError
        If the plan must not be run.

    Examples
    --------
    >>> import syclsched
    >>> from syclsched.kernels import get
    >>> graph, other = syclsched.TaskGraph("one"), syclsched.TaskGraph("other")
    >>> for each in (graph, other):
    ...     task = each.kernel(get("scale"), x=each.array("x", (100,)), alpha=2.0)
    >>> task = other.kernel(get("scale"), name="again", x=other.array("y", (100,)), alpha=2.0)
    >>> plan = syclsched.plan(graph, syclsched.describe("max1550"))
    >>> syclsched.verify(plan, graph)
    >>> syclsched.verify(plan, other)
    Traceback (most recent call last):
    syclsched.errors...
    """
    from syclsched.planning import verify as prove

    if not isinstance(plan, Plan):
        raise ArgumentError(f"expected a Plan, got a value of type {type(plan).__name__}", where="plan")
    prove(plan, graph)


def simulate(plan: Plan, *, noise: Noise | None = None, events: Sequence[Event] = (), seed: int = 0) -> Trace:
    """Run a plan on a virtual clock; see `syclsched.simulation.simulate`.

    Parameters
    ----------
    plan : Plan
        The plan.
    noise : Noise, optional
        Model of how actual durations differ from planned ones: random noise and wrong costs.
    events : sequence of SlowDown or Failure, optional
        Device slow-downs and failures at given times. These classes, `Noise`, and `repeat` (many seeds) are in
        `syclsched.simulation`.
    seed : int, optional
        Seed of the noise.

    Returns
    -------
    Trace
        Trace of the simulated run.

    Examples
    --------
    >>> import syclsched
    >>> from syclsched.kernels import get
    >>> from syclsched.simulation import Noise, SlowDown
    >>> graph = syclsched.TaskGraph()
    >>> task = graph.kernel(get("scale"), x=graph.array("x", (1 << 20,)), alpha=2.0)
    >>> plan = syclsched.plan(graph, syclsched.describe("max1550"), policy="single:max1550")
    >>> as_planned = syclsched.simulate(plan)
    >>> disturbed = syclsched.simulate(plan, events=[SlowDown("max1550", 0.0, 4.0)])
    >>> disturbed.makespan_s > as_planned.makespan_s
    True
    """
    from syclsched.simulation import simulate as on_virtual_clock

    if not isinstance(plan, Plan):
        raise ArgumentError(f"expected a Plan, got a value of type {type(plan).__name__}", where="plan")
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
    dynamic: str | None = None,
    recover: bool = True,
    progress: Progress | bool | None = None,
    **options: Unpack[_RunOptions],
) -> Run:
    """Plan a graph unless a plan is given, start it, and return without waiting for it.

    Parameters
    ----------
    graph : TaskGraph
        The graph to run.
    platform : Platform, optional
        Devices to run on; by default every usable device of this machine.
    plan : Plan, optional
        Existing plan, for instance one read from a file; verified before anything runs.
    policy : str, optional
        Policy for planning, if no plan is given.
    inputs : Mapping[str, array-like], optional
        Values of input arrays; they take precedence over those given with `TaskGraph.array`.
    calibrate : bool, optional
        Measure tasks that were never timed on these devices before planning; and again, for two seconds at most, those
        whose times are few, scattered or disturbed. The times of the run's tasks are measured in any case and stored
        for the next plan.
    rewrite : str, optional
        For planning, if no plan is given; see `plan`. Inputs and results always have the names of ``graph``.
    memory_limit : int, str or Mapping[str, int or str], optional
        See `plan`. A given plan that needs more is refused.
    debug : bool, optional
        Execute one instruction at a time. A task fails if it changes arrays or rows that it does not declare to write,
        or writes out of bounds. Warn of tasks that read uninitialised memory.
    nan_guard : bool, optional
        Execute one instruction at a time. The first task that writes a NaN or an infinity fails.
    dynamic : str, optional
        Dynamic policy, which schedules at run time: ``eager``, ``priority``, ``dmdas`` or ``stealing`` need no plan;
        ``hybrid`` follows the plan until task times deviate from it. Results are bit-identical to those of a plan.
    watchdog_s : float, optional
        Warn, through the logger ``syclsched``, of a task that runs for more than this many seconds; by default 30
        times its prediction, and at least ten seconds. ``math.inf`` disables the warning.
    deadline_s : float, optional
        The run fails if it takes longer. Tasks can have their own deadlines; see `TaskGraph.kernel`.
    recover : bool, optional
        When a device or its runtime fails (a submission or an allocation is refused, a copy or a kernel fails, a device
        is lost), plan the remaining tasks anew on the remaining devices and continue; the result is the same. See
        `Run.recoveries`. A task that itself fails is repeated up to ``retries`` times.
    progress : callable or bool, optional
        Called before each step of calibration, planning and compilation as ``progress(done, total, step)``; see
        `syclsched.progress.Progress`.
        ``True`` shows a bar, as notebooks do if nothing is given; ``False`` shows none.
    reuse : bool, optional
        For planning, if no plan is given; see `plan`. With it, the first runs try the plans whose predictions lie
        within their uncertainty, single devices among them, and the fastest is kept; ``print(run.plan)`` says what was
        tried. A bound plan is one of them until the graph is bound again.
    deterministic : bool, optional
        Plan by the device profiles alone, without measured task times: the implementations are the same in every run,
        and so are the bits of the results. A given plan fixes them, too.

    Returns
    -------
    Run
        Handle of the run, for waiting and results; a context manager that releases all resources.

    Raises
    ------
    PolicyError
        If the dynamic policy does not exist.
    ArgumentError
        If the options exclude each other.

    Examples
    --------
    >>> import numpy as np
    >>> import syclsched
    >>> from syclsched.kernels import get
    >>> graph = syclsched.TaskGraph()
    >>> x = graph.array("x", data=np.arange(4.0))
    >>> task = graph.kernel(get("scale"), x=x, alpha=2.0)
    >>> with syclsched.run(graph) as run:
    ...     print(run.result(x))
    [0. 2. 4. 6.]
    """
    from syclsched.execution import execute

    _check_kinds(graph, platform, plan)
    planning = _PlanningOptions.of(policy, rewrite, calibrate, options)
    watched = _safeguards("run", options)
    if dynamic is not None:
        if watched.stepped:
            raise ArgumentError("debug and nan_guard run step by step and need a plan", where="dynamic")
        if planning.deterministic:
            raise ArgumentError("a dynamic policy chooses by measured times", where="deterministic")
        return _run_dynamic(
            graph, platform, plan, policy, inputs, calibrate, memory_limit, dynamic, watched, recover, progress
        )
    with _opened(platform, plan, memory_limit) as live:
        chosen = _chosen(graph, live, plan, planning, progress, watched)
        return execute(
            chosen.plan,
            graph,
            live,
            inputs=inputs,
            owns_devices=True,
            safeguards=watched,
            recover=recover,
            measure=True,
            makespan_key=chosen.makespan_key,
            progress=progress,
        )


def _check_kinds(graph: object, platform: object, plan: object = None) -> None:
    """Raise an error unless the arguments are a graph, a platform and a plan, or None for the last two."""
    for value, kind, name, hint in (
        (graph, TaskGraph, "graph", "Make one: syclsched.TaskGraph(), or syclsched.read_graph(file)"),
        (platform, Platform, "platform", "Make one: syclsched.discover('cpu'), or syclsched.describe('cpu,max1550')"),
        (plan, Plan, "plan", "Make one: syclsched.plan(graph, platform), or syclsched.Plan.from_json(text)"),
    ):
        if not isinstance(value, kind) and (value is not None or kind is TaskGraph):
            raise ArgumentError(
                f"expected a {kind.__name__}, got a value of type {type(value).__name__}", where=name, hint=hint
            )


def _safeguards(call: str, given: _RunOptions) -> Safeguards:
    """Return the safeguards of a call; raise `TypeError` for unknown keywords."""
    from syclsched.execution import Safeguards

    known = {field.name for field in fields(Safeguards)}
    for name in given:
        if name not in known | {"reuse", "deterministic"}:
            raise TypeError(f"{call}() got an unexpected keyword argument {name!r}")
    found: dict[str, Any] = {name: value for name, value in given.items() if name in known}
    return Safeguards(**found)


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
    progress: Progress | bool | None,
) -> Run:
    """Start a graph under a dynamic policy."""
    from syclsched.execution.dynamic import check_name, run_dynamically
    from syclsched.planner import PlanRequest
    from syclsched.planning_session import PlanningSession
    from syclsched.profiling import HistoryStore

    check_name(dynamic)
    if dynamic != "hybrid" and (plan is not None or policy != "auto"):
        raise ArgumentError(
            f"{dynamic!r} follows no plan", where="dynamic", hint="Leave plan and policy out, or use dynamic='hybrid'"
        )
    where = plan.platform if platform is None and plan is not None else platform
    with _opened(where, None, memory_limit) as live, HistoryStore() as history:
        with reported(f"planning of {graph.name!r}", progress) as tell:
            session = PlanningSession(PlanRequest(policy, rewrite="none"), live.platform, history, tell)
            if calibrate and plan is None:
                session.calibrate(graph, live)
            if dynamic == "hybrid" and plan is None:
                plan = session.plan(graph)
            if safeguards.deadline_s is None:  # which holds while kernels are compiled, too
                session.check_choices(graph, live)
        return run_dynamically(
            graph, live, dynamic, inputs,
            plan=plan, history=history, owns_devices=True, safeguards=safeguards, recover=recover, progress=progress,
        )  # fmt: skip


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
    recover: bool = True,
    progress: Progress | bool | None = None,
    **options: Unpack[_RunOptions],
) -> Runner:
    """Plan a graph unless a plan is given, and prepare it for repeated runs with new data.

    Kernels are compiled, memory is allocated and arguments are laid out once. A run then costs little more than the
    submissions themselves, which are made from C.

    Parameters
    ----------
    graph, platform, plan, policy, calibrate, rewrite, memory_limit, debug, nan_guard, watchdog_s, deadline_s
        As for `run`.
    recover, progress, reuse, deterministic
        As for `run`.
    trace : bool, int or "exact", optional
        Record times of every run for `Run.trace`, and those of the last 16 runs (or of this many) for `Runner.traces`.
        ``"exact"`` waits for each library call on CPU devices. Otherwise only the end of all library calls together is
        known, and their time is divided in proportion to their predictions.

    Returns
    -------
    Runner
        ``runner.run(inputs)`` starts a run; ``runner(inputs)`` also waits for it and returns its results. A context
        manager that releases all resources.

    Examples
    --------
    >>> import numpy as np
    >>> import syclsched
    >>> from syclsched.kernels import get
    >>> graph = syclsched.TaskGraph()
    >>> x, y = graph.array("x", (3,)), graph.array("y", (3,))
    >>> tasks = graph.kernel(get("copy"), y=y, x=x), graph.kernel(get("scale"), x=y, alpha=2.0)
    >>> with syclsched.bind(graph) as runner:
    ...     for value in (1.0, 2.0):
    ...         print(runner({"x": np.full(3, value)})["y"])
    [2. 2. 2.]
    [4. 4. 4.]
    """
    from syclsched.execution import bind as bind_plan

    _check_kinds(graph, platform, plan)
    planning = _PlanningOptions.of(policy, rewrite, calibrate, options)
    watched = _safeguards("bind", options)
    with _opened(platform, plan, memory_limit) as live:
        chosen = _chosen(graph, live, plan, planning, progress, watched)
        with reported(f"preparation of {graph.name!r}", progress) as tell:
            return bind_plan(
                chosen.plan,
                graph,
                live,
                trace=trace,
                owns_devices=True,
                safeguards=watched,
                recover=recover,
                measure=True,
                makespan_key=chosen.makespan_key,
                progress=tell,
            )


def monitor() -> Monitoring:
    """Let ``syclsched top``, in another terminal, show the runs of this process.

    The state of the runs (lanes, tasks, memory, times) is written four times a second to a small file in the user's
    runtime directory, which only this user can read; it is removed at the end. Each run takes a few
    microseconds longer.

    Returns
    -------
    Monitoring
        A context manager that withdraws the permission; without ``with`` or ``close()`` it lasts as long as the
        process.

    Raises
    ------
    StorageError
        If there is no folder for the file that nobody else can write to.

    Examples
    --------
    >>> import syclsched
    >>> with syclsched.monitor():
    ...     pass  # runs in here are shown by `syclsched top`
    """
    from syclsched.execution.monitor.status_publisher import Monitoring

    return Monitoring()


@contextmanager
def _opened(platform: Platform | None, plan: Plan | None, memory_limit: MemoryLimit | None) -> Iterator[OpenDevices]:
    """Open the devices to run a plan on, by default all; they are closed here only if the block fails."""
    from syclsched.devices import open_devices

    where = platform if platform is not None else (discover() if plan is None else plan.platform)
    if memory_limit is not None:
        if plan is not None:
            check_peak(plan.needed_bytes, plan.platform, memory_limit)
        where = with_memory_limit(where, memory_limit)
    live = open_devices(where)
    try:
        yield live
    except BaseException:
        live.close()
        raise


@dataclass(frozen=True, slots=True)
class _PlanningOptions:
    """How `run` and `bind` plan if no plan is given."""

    policy: str
    rewrite: str
    calibrate: bool
    reuse: bool
    deterministic: bool

    @classmethod
    def of(cls, policy: str, rewrite: str, calibrate: bool, options: _RunOptions) -> _PlanningOptions:
        """Return them with those of the further arguments."""
        return cls(policy, rewrite, calibrate, options.get("reuse", True), options.get("deterministic", False))


def _chosen(
    graph: TaskGraph,
    live: OpenDevices,
    plan: Plan | None,
    options: _PlanningOptions,
    progress: Progress | bool | None,
    safeguards: Safeguards,
) -> ChosenPlan:
    """Return the given plan, or plan a graph for open devices, after measuring its tasks if wanted."""
    from syclsched.costs import MemoryHistory
    from syclsched.planner import PlanRequest
    from syclsched.planning_session import ChosenPlan, PlanningSession
    from syclsched.profiling import HistoryStore
    from syclsched.profiling.storage.plan_store import PlanStore

    if plan is not None:
        return ChosenPlan(plan)
    asked = live if safeguards.deadline_s is None else None  # a deadline holds while kernels are compiled, too
    request = PlanRequest(options.policy, rewrite=options.rewrite)
    with reported(f"planning of {graph.name!r}", progress) as tell:
        if options.deterministic:
            fixed = PlanningSession(request, live.platform, MemoryHistory(), tell)  # type: ignore[arg-type]  # as models
            return fixed.choose(graph, tries=False, live=asked)
        with HistoryStore() as history:
            plans = PlanStore() if options.reuse else None
            session = PlanningSession(request, live.platform, history, tell, plans=plans)
            if options.calibrate:
                session.calibrate(graph, live)
            return session.choose(graph, tries=not safeguards.stepped, live=asked)
