# SPDX-License-Identifier: Apache-2.0
"""Planning without running: calibrate, plan, verify, simulate."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING

from syclsched.api.platforms import discover
from syclsched.errors import check_kind, several
from syclsched.model.graph import TaskGraph
from syclsched.model.plan import Plan
from syclsched.model.platform import Platform
from syclsched.model.trace import Trace
from syclsched.planner.memory_limit import MemoryLimit, with_memory_limit
from syclsched.progress import Progress, reported

if TYPE_CHECKING:
    from syclsched.costs import History
    from syclsched.devices import OpenDevices
    from syclsched.simulation import Event, Noise

_HOW_TO_PLAN = "Make one: syclsched.plan(graph, platform), or syclsched.Plan.from_json(text)"


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

    check_kinds(graph, platform)
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

    check_kinds(graph, platform)
    platform = discover() if platform is None else platform
    request = PlanRequest(policy, minimize, several("subject_to", subject_to), rewrite, budget_s, seed)
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

    check_kind(plan, Plan, "plan", _HOW_TO_PLAN)
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

    check_kind(plan, Plan, "plan", _HOW_TO_PLAN)
    return on_virtual_clock(plan, noise=noise, events=events, seed=seed)


def check_kinds(graph: object, platform: object, plan: object = None) -> None:
    """Raise an error unless the arguments are a graph, a platform and a plan, or None for the last two."""
    for value, kind, name, hint in (
        (graph, TaskGraph, "graph", "Make one: syclsched.TaskGraph(), or syclsched.read_graph(file)"),
        (platform, Platform, "platform", "Make one: syclsched.discover('cpu'), or syclsched.describe('cpu,max1550')"),
        (plan, Plan, "plan", _HOW_TO_PLAN),
    ):
        if value is not None or kind is TaskGraph:
            check_kind(value, kind, name, hint)
