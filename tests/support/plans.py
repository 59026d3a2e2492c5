# SPDX-License-Identifier: Apache-2.0
"""Plans made by hand and at random for the simulator, for which only lanes, waits and durations matter."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from hypothesis import assume
from hypothesis import strategies as st

from syclsched.model.access import AccessMode
from syclsched.model.plan import BufferUse, Instruction, Lane, LaneKind, Plan, PlannedTask
from syclsched.model.platform import HOST, Contention, Device, Interference, Link, MemorySpace, Platform
from syclsched.model.schedule import Schedule


def platform_of(
    *names: str,
    links: tuple[Link, ...] = (),
    interferences: tuple[Interference, ...] = (),
    submission_s: float = 0.0,
    contention: Contention = "none",
) -> Platform:
    """Return a platform of devices with a memory space each, and the host."""
    devices = [Device(n, f"k-{n}", "cpu", "opencl", "", n, (n,), compute_units=2) for n in names]
    devices.append(Device(HOST, HOST, HOST, HOST, "", HOST, (HOST,)))
    spaces = tuple(MemorySpace(d.space, 0) for d in devices)
    return Platform(
        "by hand", tuple(devices), spaces, links, interferences, submission_s=submission_s, contention=contention
    )


def plan_on(platform: Platform, **lanes: list[Instruction]) -> Plan:
    """Return a plan of lanes named ``device__0``, ``device__copy`` or ``host__0``; every task is its own family."""
    made = []
    for name, instructions in lanes.items():
        device, _, part = name.partition("__")
        kind: LaneKind = "copy" if part == "copy" else "host" if device == HOST else "compute"
        made.append(Lane(f"{device}:{part}", device, kind, tuple(instructions)))
    tasks = {i.task: i for lane in lanes.values() for i in lane if i.task is not None and i.kind != "copy"}
    planned = tuple(PlannedTask(name, "kernel", f"family of {name}") for name in sorted(tasks))
    return Plan("by hand", "0", "none", platform, (), planned, Schedule("none", ()), tuple(made))


def launch(number: int, seconds: float, *waits: int, space: str | None = None) -> Instruction:
    """Return a kernel launch of a task of its own."""
    uses = () if space is None else (BufferUse("x", space, AccessMode.READ),)
    return Instruction(number, "launch", f"t{number}", uses=uses, waits=waits, duration_s=seconds)


def copy(number: int, seconds: float, source: str, destination: str, *waits: int, nbytes: int = 1) -> Instruction:
    """Return a copy of an array between two spaces."""
    uses = (BufferUse("x", source, AccessMode.READ), BufferUse("x", destination, AccessMode.WRITE))
    return Instruction(number, "copy", "t", uses=uses, waits=waits, duration_s=seconds, nbytes=nbytes)


def memory(number: int, kind: Literal["alloc", "free"], space: str, nbytes: int, *waits: int) -> Instruction:
    """Return an allocation or a free."""
    return Instruction(number, kind, uses=(BufferUse("x", space, AccessMode.WRITE),), waits=waits, nbytes=nbytes)


@st.composite
def on_processors(draw: st.DrawFn, device: Device) -> Device:
    """Return the device with a number of lanes and compute units, perhaps on a processor shared with other devices."""
    processor = draw(st.sampled_from([None, "p", "p", "q"]))
    return replace(device, processor=processor, compute_units=draw(st.integers(1, 4)), lanes=draw(st.integers(1, 2)))


@st.composite
def random_plans(draw: st.DrawFn, *, contention: Contention = "none", max_instructions: int = 24) -> Plan:
    """Draw instructions of all kinds on lanes of all kinds that wait for earlier ones (rarely for any)."""
    names = [f"d{n}" for n in range(draw(st.integers(1, 3)))]
    seconds = st.sampled_from([0.0, 0.25, 1.0, 1.5, 3.0])
    factor = st.sampled_from([0.0, 0.25, 0.5, 1.0])
    pairs = [(a, b) for n, a in enumerate([*names, HOST]) for b in [*names, HOST][n:]]
    interferences = tuple(Interference(a, b, draw(factor)) for a, b in pairs if draw(st.booleans()))
    links = tuple(
        Link(a, b, 0.25, draw(st.sampled_from([1.0, 4.0])), channel=draw(st.sampled_from([None, None, "bus"])))
        for d in names
        for a, b in ((HOST, d), (d, HOST))
    )
    submission_s = draw(st.sampled_from([0.0, 0.0, 0.25]))
    platform = platform_of(
        *names, links=links, interferences=interferences, submission_s=submission_s, contention=contention
    )
    if draw(st.booleans()):
        platform = replace(platform, devices=tuple(draw(on_processors(device)) for device in platform.devices))
    keys = [f"{d}__{k}" for d in names for k in ("0", "1", "copy")] + ["host__0", "host__1"]
    lanes: dict[str, list[Instruction]] = {key: [] for key in keys}
    held: list[Instruction] = []
    peak_bytes: dict[str, int] = {}
    for number in range(draw(st.integers(0, max_instructions))):
        key = draw(st.sampled_from(keys))
        last = number + 3 if draw(st.integers(0, 60)) == 0 else number - 1
        waits = tuple(draw(st.sets(st.integers(0, last), max_size=3))) if last >= 0 else ()
        kind = draw(st.sampled_from(["alloc", "free", "copy", "launch", "launch", "launch", "barrier"]))
        if key.endswith("copy") or kind == "copy":
            device = key.partition("__")[0] if not key.startswith(HOST) else names[0]
            ends = draw(st.permutations([HOST, device]))
            made = copy(number, draw(seconds), ends[0], ends[1], *waits, nbytes=draw(st.integers(0, 4)))
        elif kind == "alloc" or (kind == "free" and not held):
            made = memory(number, "alloc", draw(st.sampled_from(names)), draw(st.integers(0, 4)), *waits)
            held.append(made)
            for name in names:
                taken = sum(i.nbytes for i in held if i.uses[0].space == name)
                peak_bytes[name] = max(taken, peak_bytes.get(name, 0))
        elif kind == "free":
            gone = held.pop(draw(st.integers(0, len(held) - 1)))
            made = memory(number, "free", gone.uses[0].space, gone.nbytes, *waits, gone.id)
        else:
            made = launch(number, draw(seconds), *waits)
        lanes[key].append(made)
    plan = plan_on(platform, **{key: lane for key, lane in lanes.items() if lane})
    return replace(plan, peak_bytes={name: nbytes for name, nbytes in peak_bytes.items() if nbytes != 3})


def without_one_wait(data: st.DataObject, plan: Plan) -> Plan:
    """Return a plan with one of its waits removed; reject the example if there is none."""
    waits = [(n, k, w) for n, lane in enumerate(plan.lanes) for k, i in enumerate(lane.instructions) for w in i.waits]
    assume(waits)
    lane_number, position, dropped = data.draw(st.sampled_from(waits))
    lane = plan.lanes[lane_number]
    changed = list(lane.instructions)
    changed[position] = replace(changed[position], waits=tuple(w for w in changed[position].waits if w != dropped))
    lanes = list(plan.lanes)
    lanes[lane_number] = replace(lane, instructions=tuple(changed))
    return replace(plan, lanes=tuple(lanes))
