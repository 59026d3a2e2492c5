# SPDX-License-Identifier: Apache-2.0
"""Speed of the simulator, and makespans of dynamic policies with wrong estimates.

    python benchmarks/simulation.py [--instructions 200000] [--tasks 300] [--seeds 2]

Speed: CPU time of this process, least of five, warm; the engine alone (a plan that has been flattened), and end to end:
from new `Plan` objects to the makespan, and on to an object for every instruction. Quality: makespans over that of HEFT
with true costs, on the graph families of `benchmarks/instances.py` at communication-to-computation ratios 0.1 and 1;
every timetable is validated against the true times.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from common import parser, repeated
from instances import FAMILIES, instance

from syclsched.model.access import AccessMode
from syclsched.model.plan import BufferUse, Instruction, Lane, Plan
from syclsched.model.platform import HOST, Contention, Device, Interference, Link, MemorySpace, Platform
from syclsched.model.schedule import Schedule
from syclsched.scheduling import validate
from syclsched.scheduling.dynamic import DYNAMIC_POLICIES, DynamicPolicy, Hybrid, run_dynamic
from syclsched.scheduling.policies.heft import Heft
from syclsched.scheduling.problem import Problem, makespan_s
from syclsched.scheduling.tables import Floats
from syclsched.simulation import Failure, Noise, SlowDown, predict, simulate
from syclsched.simulation.event_engine import run_machine
from syclsched.simulation.machine_builder import flatten

#: Number of repetitions of each timing.
_REPEATS = 5


# --- speed ----------------------------------------------------------------------------------------


def random_plan(count: int, devices: int, factor: float, contention: Contention, seed: int = 0) -> Plan:
    """Return a plan of kernels and (one in four) copies from the host, each waiting for about two recent ones."""
    rng = random.Random(seed)
    names = [f"d{n}" for n in range(devices)]
    platform = Platform(
        "benchmark",
        (
            *(Device(n, n, "cpu", "opencl", "", n, (n,)) for n in names),
            Device(HOST, HOST, HOST, HOST, "", HOST, (HOST,)),
        ),
        (*(MemorySpace(n, 0) for n in names), MemorySpace(HOST, 0)),
        tuple(Link(HOST, n, 1e-5, 1e10, channel="bus") for n in names),
        tuple(Interference(a, b, factor) for a in names for b in names if a < b and factor),
        contention=contention,
    )
    lanes: list[list[Instruction]] = [[] for _ in range(2 * devices)]
    lane_of: list[int] = []
    for number in range(count):
        copies = rng.random() < 0.25
        lane = rng.randrange(devices) + devices * copies
        lane_of.append(lane)
        recent = {rng.randrange(max(0, number - 64), number) for _ in range(2)} if number else set()
        waits = tuple(sorted(w for w in recent if lane_of[w] != lane))
        space = names[lane % devices]
        uses = (BufferUse("x", HOST, AccessMode.READ), BufferUse("x", space, AccessMode.WRITE)) if copies else ()
        lanes[lane].append(
            Instruction(
                number, "copy" if copies else "launch", f"t{number}", uses=uses, waits=waits,
                duration_s=rng.uniform(1e-5, 1e-4), nbytes=100_000 * copies,
            )
        )  # fmt: skip
    made = tuple(
        Lane(
            f"{names[n % devices]}:{n // devices}", names[n % devices], "copy" if n >= devices else "compute", tuple(i)
        )
        for n, i in enumerate(lanes)
    )
    return Plan("benchmark", "0", "none", platform, (), (), Schedule("none", ()), made)


def least_s(call: Callable[[], object]) -> float:
    """Return the least CPU time of some calls."""
    return min(repeated(call, _REPEATS))


def fresh(plan: Plan) -> Plan:
    """Return an equal plan without cached data."""
    return replace(plan)


def read(plan: Plan) -> int:
    """Create every instruction object of a plan."""
    return sum(len(lane.instructions) for lane in plan.lanes)


def speed(count: int) -> None:
    """Time the simulator on plans of one size."""
    print(f"Speed, {count} instructions: instructions a second")
    print("".join(f"{name:>15}" for name in ("devices", "interference", "links", *CALLS)))
    cases: list[tuple[int, float, Contention]] = [
        (4, 0.0, "none"), (4, 0.5, "none"), (32, 0.0, "none"), (4, 0.0, "one-port"), (4, 0.0, "fair"),
    ]  # fmt: skip
    for devices, factor, contention in cases:
        plan = random_plan(count, devices, factor, contention)
        rates = "".join(f"{count / least_s(lambda c=call, p=plan: c(p)):15,.0f}" for call in CALLS.values())  # type: ignore[misc]
        print(f"{devices:15d}{factor:15g}{contention:>15}{rates}")


#: The timed steps: the engine on a flattened plan; flattening a new one; the public call on a new plan, to the
#: makespan, also with disturbances, and on to every object of the result; and one more run of a flattened plan, with
#: noise.
CALLS: dict[str, Callable[[Plan], object]] = {
    "engine": lambda plan: run_machine(flatten(plan)),
    "flatten": lambda plan: flatten(fresh(plan)),
    "predict": lambda plan: predict(fresh(plan)),
    "simulate": lambda plan: simulate(fresh(plan)),
    "with noise": lambda plan: simulate(fresh(plan), noise=Noise(sigma=0.2)),
    "with slow-down": lambda plan: simulate(fresh(plan), events=[SlowDown("d0", 0.1, 2.0)]),
    "with failure": lambda plan: simulate(fresh(plan), events=[Failure("d0", 0.1)]),
    "predict, read": lambda plan: read(predict(fresh(plan))),
    "simulate, read": lambda plan: len(simulate(fresh(plan)).spans),
    "again, noise": lambda plan: simulate(plan, noise=Noise(sigma=0.2)),
}


# --- quality --------------------------------------------------------------------------------------


def factors(kind: str, problem: Problem, seed: int) -> Floats:
    """Return the errors of estimates as factors."""
    rng = np.random.default_rng(seed)
    tasks, devices = len(problem), len(problem.devices)
    return KINDS[kind](rng, tasks, devices)


#: Kinds of wrong estimates: a function of the random generator and the numbers of tasks and devices.
KINDS: dict[str, Callable[[np.random.Generator, int, int], Floats]] = {
    "exact": lambda rng, tasks, devices: np.ones((1, 1)),
    "lognormal, sigma 0.3": lambda rng, tasks, devices: np.exp(rng.normal(0.0, 0.3, (tasks, devices))),
    "tasks, up to 3 either way": lambda rng, tasks, devices: 3.0 ** rng.uniform(-1.0, 1.0, (tasks, 1)),
    "tasks, just 3 either way": lambda rng, tasks, devices: 3.0 ** rng.choice([-1.0, 1.0], (tasks, 1)),
    "tasks and devices, up to 3": lambda rng, tasks, devices: 3.0 ** rng.uniform(-1.0, 1.0, (tasks, devices)),
    "devices, just 3 either way": lambda rng, tasks, devices: 3.0 ** rng.choice([-1.0, 1.0], (1, devices)),
}


def ratios(problem: Problem, estimated: Floats) -> dict[str, float]:
    """Return the makespan of each policy over that of a plan from true costs."""
    plan = Heft().schedule(problem.with_task_seconds(estimated))
    true_cost_s = makespan_s(problem, Heft().schedule(problem))
    policies: dict[str, DynamicPolicy] = {"static": Hybrid(plan, bound=np.inf), "hybrid": Hybrid(plan)}
    policies.update({policy.name: policy for policy in DYNAMIC_POLICIES})
    found = {}
    for name, policy in policies.items():
        run = run_dynamic(problem, policy, estimated_s=estimated)
        validate(problem, run.timetable, policy=name)
        found[name] = makespan_s(problem, run.timetable) / true_cost_s
    return found


def quality(tasks: int, devices: int, seeds: int) -> None:
    """Compare policies over all families, by kind of wrong estimates."""
    print(f"\nMakespan over HEFT that knew the truth, about {tasks} tasks, {devices} devices: mean (worst)")
    for kind in KINDS:
        rows = []
        for family in FAMILIES:
            for ccr in (0.1, 1.0):
                for seed in range(seeds):
                    problem = instance(family, tasks, devices, ccr, seed).problem()
                    estimated = np.ascontiguousarray(problem.tables.task_seconds() * factors(kind, problem, seed))
                    rows.append(ratios(problem, estimated))
        cells = []
        for name in rows[0]:
            values = [row[name] for row in rows]
            cells.append(f"{name} {np.mean(values):.2f} ({max(values):.2f})")
        print(f"{kind:28} {len(rows):3d} instances: " + ", ".join(cells))


def main() -> None:
    """Measure and print."""
    given = parser(__doc__, instructions=200_000, tasks=300, devices=4, seeds=2).parse_args()
    speed(given.instructions)
    quality(given.tasks, given.devices, given.seeds)


if __name__ == "__main__":
    main()
