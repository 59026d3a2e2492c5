# SPDX-License-Identifier: Apache-2.0
"""Quality of refined schedules and of plans: their distance from the optimum and from HEFT, on seeded instances.

    python benchmarks/quality.py [--quick] [--seeds 1] [--small-s 1] [--large-s 5] [--prove-s 8] [--cpu]
                                 [--part small|large|plans] [--tasks N ...]

First 20 to 40 tasks on 3 unrelated devices, against the optimum by CP-SAT (the extra ``exact``): where that is not
proved within the time, against the best makespan found, and the table says so. Then 100 to 1,000 tasks against HEFT and
the best of all textbook policies, with the best lower bound. Last plans of 20 to 40 tasks on 3 described devices, by
``auto`` in one second and by the policy ``refine``, against the plan-level optimum: by CP-SAT with one copy lane a
device. The first seconds of a new installation compile; they are not counted.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import permutations, product

import numpy as np
from common import parser
from instances import FAMILIES, Instance, instance

from syclsched.costs import CostModel
from syclsched.errors import PolicyError, SyclschedError
from syclsched.model.access import AccessMode
from syclsched.model.cost_only import StatedCost, add_cost_only
from syclsched.model.graph import TaskGraph
from syclsched.model.plan import Plan
from syclsched.model.platform import HOST, Device, Link, MemorySpace, Platform
from syclsched.planner import plan_graph
from syclsched.planning.transfers.copy_lanes import copy_owners
from syclsched.scheduling import Copies, Problem, Timetable, build_problem, candidates, get, makespan_s, validate
from syclsched.scheduling.bounds import lower_bound
from syclsched.scheduling.exact import solve
from syclsched.scheduling.search import refine
from syclsched.scheduling.tables import NOTHING, frozen

DEVICES = 3
SMALL_SIZES, SMALL_CCRS = (20, 30, 40), (0.1, 1.0, 5.0)
LARGE_SIZES, LARGE_CCRS = (100, 300, 1000), (1.0, 5.0)
PLAN_SIZES, PLAN_CCRS = (20, 40), (1.0, 5.0)

#: Bandwidth of the links between described devices.
BYTES_PER_S = 1e9


@dataclass(frozen=True, slots=True)
class Starts:
    """Results of list scheduling on a problem.

    Parameters
    ----------
    heft_s, textbook_s : float
        Makespans of HEFT and of the best of all registered textbook policies.
    timetables : list of Timetable
        All of them.
    """

    heft_s: float
    textbook_s: float
    timetables: list[Timetable]


def textbook(problem: Problem) -> Starts:
    """Return the answers of all registered policies but refinement."""
    made: list[Timetable] = []
    for name in candidates(problem):
        try:
            made.append(get(name).schedule(problem))
        except SyclschedError as error:  # a device that cannot run everything is no candidate
            if name == "heft":
                raise
            print(f"  ({name}: {error})")
    heft_s = makespan_s(problem, get("heft").schedule(problem))
    return Starts(heft_s, min(makespan_s(problem, timetable) for timetable in made), made)


def refined_s(problem: Problem, starts: Starts, budget_s: float, clock: Callable[[], float]) -> tuple[float, Timetable]:
    """Return the validated makespan of refinement from them."""
    found = refine(problem, starts.timetables, budget_s=budget_s, clock=clock)
    validate(problem, found)
    found_s = makespan_s(problem, found)
    assert found_s <= starts.textbook_s, "refinement made it worse"
    return found_s, found


def small(given: argparse.Namespace, clock: Callable[[], float]) -> None:
    """Print the gaps to the optimum."""
    gaps: list[float] = []
    unproved = 0
    print(f"\n{'instance':24s} {'tasks':>5s} {'HEFT':>8s} {'textbook':>8s} {'refined':>8s}  optimum (1 = this)")
    for made in _instances(SMALL_SIZES, SMALL_CCRS, given):
        gap, proved = _gap(made, given, clock)
        gaps.append(gap)
        unproved += not proved
    print(
        f"\n{len(gaps)} instances: mean gap {100 * statistics.mean(gaps):.2f} %, worst {100 * max(gaps):.2f} %, "
        f"optimum met on {sum(gap < 1e-6 for gap in gaps)}; {unproved} not proved (gap to the best found)"
    )


def _instances(sizes: tuple[int, ...], ccrs: tuple[float, ...], given: argparse.Namespace) -> Iterator[Instance]:
    """Yield the instances of all families."""
    for size in _sizes(sizes, given):
        for family, ccr in product(FAMILIES, ccrs):
            for seed in range(given.first_seed, given.first_seed + given.seeds):
                yield instance(family, size, DEVICES, ccr, seed)


def _sizes(sizes: tuple[int, ...], given: argparse.Namespace) -> tuple[int, ...]:
    return tuple(n for n in sizes[:: 2 if given.quick else 1] if not given.tasks or n in given.tasks)


def _gap(made: Instance, given: argparse.Namespace, clock: Callable[[], float]) -> tuple[float, bool]:
    problem = made.problem()
    starts = textbook(problem)
    found_s, found = refined_s(problem, starts, given.small_s, clock)
    exact = solve(problem, found, limit_s=given.prove_s)
    validate(problem, exact.timetable)
    best_s = exact.makespan_s
    if not exact.optimal and given.again:
        other = refine(problem, starts.timetables, steps=given.again, seed=55)
        best_s = min(best_s, makespan_s(problem, other))
    note = "proved" if exact.optimal else f"best found; proved from {exact.bound_s / best_s:.3f}"
    ratios = (starts.heft_s / best_s, starts.textbook_s / best_s, found_s / best_s)
    print(
        f"{made.name:24s} {len(problem):5d} " + " ".join(f"{ratio:8.4f}" for ratio in ratios) + f"  {note}", flush=True
    )
    return found_s / best_s - 1.0, exact.optimal


def large(given: argparse.Namespace, clock: Callable[[], float]) -> None:
    """Print the gains over HEFT."""
    gains: list[float] = []
    print(f"\n{'instance':24s} {'tasks':>5s} {'textbook':>8s} {'refined':>8s} {'bound':>8s}  (HEFT = 1)")
    for made in _instances(LARGE_SIZES, LARGE_CCRS, given):
        problem = made.problem()
        starts = textbook(problem)
        found_s, _ = refined_s(problem, starts, given.large_s, clock)
        bound_s = lower_bound(problem, lp=False).best_s
        gains.append(1.0 - found_s / starts.heft_s)
        ratios = (starts.textbook_s, found_s, bound_s)
        row = " ".join(f"{value / starts.heft_s:8.4f}" for value in ratios)
        print(f"{made.name:24s} {len(problem):5d} {row}", flush=True)
    print(f"\n{len(gains)} instances: shorter than HEFT by {100 * statistics.mean(gains):.1f} % on average")


def machine() -> Platform:
    """Return described devices, each with memory and a copy lane of its own, and links between all pairs."""
    names = [f"d{n}" for n in range(DEVICES)]
    devices = [Device(name, name, "gpu", "level_zero", name, name, (name,)) for name in names]
    host = Device(HOST, HOST, HOST, HOST, HOST, HOST, (HOST,), copy_lane=False)
    links = [Link(a, b, 0.0, BYTES_PER_S) for a, b in permutations([*names, HOST], 2)]
    spaces = [*(MemorySpace(name, 0) for name in names), MemorySpace(HOST, 0, True)]
    return Platform("described", (*devices, host), tuple(spaces), tuple(links))


def graph_of(made: Instance) -> TaskGraph:
    """Return an instance as a graph: an array for each edge, a task with stated seconds for each row of costs."""
    graph = TaskGraph(made.name)
    arrays = {
        (before, after): graph.array(f"x{before}_{after}", (max(1, round(seconds * BYTES_PER_S)),), dtype="uint8")
        for (before, after), seconds in made.edges.items()
    }
    for task, costs in enumerate(made.costs):
        reads = [(array, AccessMode.READ) for (_, after), array in arrays.items() if after == task]
        writes = [(array, AccessMode.WRITE) for (before, _), array in arrays.items() if before == task]
        on = {f"d{n}": seconds for n, seconds in enumerate(costs)}
        add_cost_only(graph, f"t{task}", StatedCost(on=on), [*reads, *writes])
    return graph


def with_copy_lanes(problem: Problem, platform: Platform) -> Problem:
    """Return a problem in which each copy lane is a channel; each device has a memory space of its own."""
    owners, spaces = copy_owners(platform), [space.name for space in platform.spaces]
    channel = np.full((len(problem.spaces), len(problem.spaces), 2), NOTHING)
    for a, b in permutations(range(len(problem.spaces)), 2):
        source, destination = spaces.index(problem.spaces[a]), spaces.index(problem.spaces[b])
        device = next(n for n, d in enumerate(platform.devices) if d.space == problem.spaces[b])
        channel[a, b, 0] = owners[device, source, destination]
    return replace(problem, contention="one-port", tables=frozen(problem.tables._replace(channel=channel)))


def timetable_of(plan: Plan, problem: Problem) -> Timetable:
    """Return the times of a plan as a timetable with copies."""
    number = {name: n for n, name in enumerate(problem.names)}
    item_of = {problem.arrays[array]: item for item, array in enumerate(problem.item_array.tolist())}
    processor = np.zeros(len(problem), np.int64)
    start_s, finish_s = np.zeros(len(problem)), np.zeros(len(problem))
    copies: list[tuple[int, int, int, float, float]] = []
    for lane in plan.lanes:
        for each in lane.instructions:
            if each.kind == "copy":
                source, destination = (problem.spaces.index(use.space) for use in each.uses)
                copies.append((item_of[each.uses[0].array], source, destination, each.start_s, each.finish_s))
            elif each.kind == "launch":
                task = number[each.task or ""]
                processor[task] = problem.devices.index(lane.device)
                start_s[task], finish_s[task] = each.start_s, each.finish_s
    columns = [*zip(*copies, strict=True)] or [()] * 5
    kinds = (np.int64, np.int64, np.int64, np.float64, np.float64)
    return Timetable(processor, start_s, finish_s, Copies(*map(np.array, columns, kinds)))


def plans(given: argparse.Namespace, clock: Callable[[], float]) -> None:
    """Print the gaps of plans to the plan-level optimum."""
    gaps: dict[str, list[float]] = {"auto": [], "refine": []}
    platform, unproved = machine(), 0
    print(f"\n{'instance':24s} {'tasks':>5s} {'auto':>8s} {'refine':>8s} {'seconds':>8s}  optimum (1 = this)")
    for made in _instances(PLAN_SIZES, PLAN_CCRS, given):
        graph = graph_of(made)
        begun = clock()
        auto = plan_graph(graph, platform, budget_s=given.small_s, clock=clock)
        taken_s = clock() - begun
        refined = plan_graph(graph, platform, policy="refine")
        problem = with_copy_lanes(build_problem(graph, platform, CostModel(platform)), platform)
        start = timetable_of(auto, problem)
        validate(problem, start)
        exact = solve(problem, start, limit_s=given.prove_s)
        validate(problem, exact.timetable)
        best_s, proved = exact.makespan_s, exact.optimal
        unproved += not proved
        for name, plan in (("auto", auto), ("refine", refined)):
            gaps[name].append(plan.makespan_s / best_s - 1.0)
        note = "proved" if proved else f"best found; proved from {exact.bound_s / best_s:.3f}"
        ratios = f"{auto.makespan_s / best_s:8.4f} {refined.makespan_s / best_s:8.4f} {taken_s:8.2f}"
        print(f"{made.name:24s} {len(graph):5d} {ratios}  {note} ({auto.policy})", flush=True)
    print()
    for name, found in gaps.items():
        print(
            f"{name}: {len(found)} graphs, mean gap {100 * statistics.mean(found):.2f} %, "
            f"worst {100 * max(found):.2f} %, optimum met on {sum(gap < 1e-6 for gap in found)}"
        )
    behind = sum(a > b + 1e-9 for a, b in zip(gaps["auto"], gaps["refine"], strict=True))
    print(f"auto is behind refine on {behind}; {unproved} optima not proved (gap to the best found)")


def main() -> None:
    """Measure and print."""
    options = parser(__doc__, seeds=1)
    options.add_argument("--quick", action="store_true", help="the smallest and largest sizes only, and half the time")
    options.add_argument("--small-s", type=float, default=1.0, help="seconds of refinement, 20 to 40 tasks")
    options.add_argument("--large-s", type=float, default=5.0, help="seconds of refinement, 100 to 1,000 tasks")
    options.add_argument("--prove-s", type=float, default=8.0, help="seconds for CP-SAT on each instance")
    options.add_argument("--again", type=int, default=0, help="steps of another search where no optimum is proved")
    options.add_argument("--first-seed", type=int, default=0, help="of the first instance of each kind")
    options.add_argument(
        "--cpu", action="store_true", help="count seconds of this process, not of the wall: for busy machines"
    )
    options.add_argument("--part", choices=("small", "large", "plans", "all"), default="all")
    options.add_argument("--tasks", type=int, nargs="+", help="these sizes only: to measure piece by piece")
    given = options.parse_args()
    if given.quick:
        given.large_s, given.prove_s = given.large_s / 2, given.prove_s / 2
    clock = time.process_time if given.cpu else time.perf_counter
    warm = instance("layered", 20, DEVICES, 1.0, 0).problem()
    refine(warm, [get("heft").schedule(warm)], steps=100)
    plan_graph(graph_of(instance("layered", 20, DEVICES, 1.0, 0)), machine())
    for part in (small, large, plans):
        if given.part in (part.__name__, "all"):
            try:
                part(given, clock)
            except PolicyError as error:  # without OR-tools
                print(f"no optima: {error}")


if __name__ == "__main__":
    main()
