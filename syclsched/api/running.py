# SPDX-License-Identifier: Apache-2.0
"""Runs: run, bind and monitor."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Literal

from syclsched.api.planning import check_kinds
from syclsched.api.platforms import discover
from syclsched.errors import ArgumentError
from syclsched.model.graph import TaskGraph
from syclsched.model.plan import Plan
from syclsched.model.platform import Platform
from syclsched.planner.memory_limit import MemoryLimit, check_peak, with_memory_limit
from syclsched.progress import Progress, reported

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from syclsched.devices import OpenDevices
    from syclsched.execution import Run, Runner, Safeguards
    from syclsched.execution.core.safeguards import SafeguardOptions
    from syclsched.execution.monitor.status_publisher import Monitoring
    from syclsched.planning_session import ChosenPlan

    class _RunOptions(SafeguardOptions, total=False):
        """Further keyword arguments of `run` and `bind`."""

        reuse: bool
        deterministic: bool


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
    priority : int, optional
        0, or less for a run that waits while runs of higher priority have work on its devices: for long work in the
        background. It may work for about a twentieth of the time in any case. See ``share``.
    share : float, optional
        Weight of the run: runs of one priority that have a share get the devices in proportion to it. Runs with a share
        or a priority below 0 submit one task after another, and are not replayed. Runs of other processes are not
        known.
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

    check_kinds(graph, platform, plan)
    planning = _PlanningOptions.of(policy, rewrite, calibrate, options)
    watched = _safeguards("run", options)
    if dynamic is not None:
        watched.check_dynamic()
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
    priority, share, recover, progress, reuse, deterministic
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
    from syclsched.planner.plan_request import check_trace

    check_kinds(graph, platform, plan)
    check_trace(trace)
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
        If there is no folder for the file to which no other user can write.

    Examples
    --------
    >>> import syclsched
    >>> with syclsched.monitor():
    ...     pass  # runs in here are shown by `syclsched top`
    """
    from syclsched.execution.monitor.status_publisher import Monitoring

    return Monitoring()


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
    """Options of planning in `run` and `bind` without a plan."""

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
            return session.choose(graph, tries=safeguards.measurable, live=asked)
