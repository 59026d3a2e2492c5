# SPDX-License-Identifier: Apache-2.0
"""Recording of the argument types for which machine code is built.

``python tools/machine_code/record.py`` plans, simulates and runs small graphs in every way, on described devices and on
those of this machine, and writes the argument types of all calls of compiled functions to ``argument_types.json``. With
``--check`` it writes nothing, and fails if a call is missing there; ``--described`` and ``--here`` do one half. Tests
use it, too.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import argument_lists
from argument_lists import event_loops, read_list, write_list

from syclsched.compiled.argument_types import type_of
from syclsched.compiled.functions import CompiledFunction

Calls = dict[str, list[list[Any]]]


@contextmanager
def recorded() -> Iterator[Calls]:
    """Record the argument types of all calls of the package's compiled functions."""
    calls: Calls = {}
    call, make_ready = CompiledFunction.__call__, CompiledFunction.make_ready
    #: Types are described only once for each fingerprint of a function, if there is machine code.
    seen: set[Any] = set()

    def record(function: CompiledFunction, args: tuple[Any, ...]) -> None:
        types = [type_of(value) for value in args]
        key = function.name, json.dumps(types)
        if key not in seen and function.name.startswith("syclsched.") and "<locals>" not in function.name:
            seen.add(key)
            calls.setdefault(function.name, []).append(types)

    def recording_call(self: CompiledFunction, *args: Any, **named: Any) -> Any:
        if not named:
            record(self, args)
        return call(self, *args, **named)

    def recording_make_ready(self: CompiledFunction, args: tuple[Any, ...]) -> None:
        record(self, args)
        make_ready(self, args)

    CompiledFunction.__call__, CompiledFunction.make_ready = recording_call, recording_make_ready  # type: ignore[method-assign]
    try:
        yield calls
    finally:
        CompiledFunction.__call__, CompiledFunction.make_ready = call, make_ready  # type: ignore[method-assign]


def plan_everything() -> None:
    """Plan, verify and simulate small graphs with every policy and aim, on described devices."""
    import syclsched
    from syclsched import workloads
    from syclsched.errors import SyclschedError
    from syclsched.scheduling import registry
    from syclsched.simulation import Disturbance, Failure, Noise, SlowDown, repeat

    graphs = [
        workloads.get(name).build(workloads.get(name).options(**options)).graph
        for name, options in (
            ("cholesky", {"n": 256, "tile": 64}),
            ("mlp", {}),
            ("stencil", {}),
        )
    ]
    one, several = syclsched.describe(["cpu"]), syclsched.describe(["cpu", "max1550", "a770"])
    small = graphs[0]
    for name in registry.names():
        if ":" not in name:
            syclsched.plan(small, several, policy=name)
    for graph in graphs:
        for platform in (one, several):
            plan = syclsched.plan(graph, platform)
            syclsched.verify(plan, graph)
            syclsched.simulate(plan, noise=Noise(), events=[])
    device = several.compute_devices[0].name
    plan = syclsched.plan(small, several)
    syclsched.simulate(plan, events=[SlowDown(device, 0.0, 2.0), Failure(device, plan.makespan_s / 2)])
    repeat(plan, Disturbance(noise=Noise(sigma=0.1)), range(3))
    for dynamic in ("eager", "priority", "dmdas", "stealing"):
        syclsched.plan(small, several, policy=f"dynamic:{dynamic}")
    for aim in ("throughput", "energy", "memory"):
        for platform in (one, several):
            try:
                syclsched.plan(small, platform, minimize=aim)
            except SyclschedError as error:
                print(f"{aim}: {error}", file=sys.stderr)
    syclsched.plan(small, several, subject_to=["memory[max1550] <= 1GiB"])
    syclsched.plan(small, several, memory_limit={device: "300KiB"})
    syclsched.plan(small, replace(several, contention="one-port"), policy="heft")
    syclsched.plan(small, several, rewrite="both", budget_s=0.5)
    syclsched.plan_front(small, several, points=3)


def run_everything() -> None:
    """Run a small graph on the devices of this machine: by a plan, and with every dynamic policy."""
    import syclsched
    from syclsched import workloads

    kind = workloads.get("cholesky")
    made = kind.build(kind.options(n=256, tile=64))
    platform = two_memory_spaces()
    with syclsched.run(made.graph, platform, inputs=made.inputs, calibrate=False) as run:
        run.wait()
    for devices in (platform, syclsched.discover("cpu")):
        for dynamic in ("eager", "priority", "dmdas", "stealing", "hybrid"):
            with syclsched.run(made.graph, devices, inputs=made.inputs, dynamic=dynamic, calibrate=False) as run:
                run.wait()
    larger = kind.build(kind.options(n=2048, tile=64))  # long enough for a new plan to be taken
    with always_replanning(), syclsched.run(larger.graph, platform, inputs=larger.inputs, dynamic="hybrid") as run:
        run.wait()
    with syclsched.bind(made.graph, platform, calibrate=False) as runner:
        for _ in runner.stream([made.inputs] * 4, in_flight=2):
            pass


@contextmanager
def always_replanning() -> Iterator[None]:
    """Replan hybrid runs for any task durations: otherwise replanning would depend on the machine."""
    from syclsched.scheduling.dynamic.policies.hybrid import Hybrid

    bound = Hybrid.replans_above
    Hybrid.replans_above = property(lambda _: 0.0)  # type: ignore[method-assign,assignment]
    try:
        yield
    finally:
        Hybrid.replans_above = bound  # type: ignore[method-assign]


def two_memory_spaces() -> Any:
    """Return the platform of the CPU device, and of the FPGA emulator or a GPU if there is one."""
    import syclsched
    from syclsched.errors import DeviceNotFoundError

    for other in ("accelerator", "gpu"):
        try:
            return syclsched.discover(f"cpu,{other}")
        except DeviceNotFoundError:
            continue
    return syclsched.discover("cpu")


def add_event_loops(calls: Calls) -> None:
    """Add the event loops of all rules: they take the same types, but only those without machine code are called."""
    loops = event_loops()
    types = next(calls[loop.name] for loop in loops if loop.name in calls)
    calls.update({loop.name: types for loop in loops})


def missing(calls: Calls, known: Calls) -> Calls:
    """Return the calls for which no machine code is built."""
    found = {name: [each for each in variants if each not in known.get(name, [])] for name, variants in calls.items()}
    return {name: variants for name, variants in found.items() if variants}


def main() -> None:
    """Write the list, or compare it."""
    if "--check" not in sys.argv and len(two_memory_spaces().compute_devices) < 2:
        sys.exit("the list is written with a second memory space, as the numba-dpex generation's FPGA emulator has")
    with recorded() as calls:
        if "--here" not in sys.argv:
            plan_everything()
        if "--described" not in sys.argv:
            run_everything()
            add_event_loops(calls)
    if "--check" not in sys.argv:
        write_list({name: sorted(variants, key=json.dumps) for name, variants in calls.items()})
        print(f"{argument_lists.LIST}: {sum(map(len, calls.values()))} for {len(calls)} functions")
    elif left := missing(calls, read_list()):
        names = "\n  ".join(sorted(left))
        sys.exit(f"no machine code is built for these; run tools/machine_code/record.py:\n  {names}")


#: The recorded calls of a test session; see `pytest_sessionfinish`.
_session: dict[str, Any] = {}


def pytest_sessionstart() -> None:
    """Record the calls of a test session: ``PYTHONPATH=tools/machine_code python -m pytest -p record``."""
    _session["context"] = recorded()
    _session["calls"] = _session["context"].__enter__()


def pytest_sessionfinish() -> None:
    """Write the recorded calls that are not in the list to a temporary file."""
    _session["context"].__exit__(None, None, None)
    left = missing(_session["calls"], read_list())
    with tempfile.NamedTemporaryFile("w", suffix=".json", delete=False) as file:
        json.dump(left, file)
    print(f"\n{sum(map(len, left.values()))} calls of {len(left)} functions have no machine code: {file.name}")


if __name__ == "__main__":
    main()
