# SPDX-License-Identifier: Apache-2.0
"""Traces and a plan built in a few lines, for tests of charts, exports and counters."""

from __future__ import annotations

import random

from syclsched.model.access import AccessMode
from syclsched.model.plan import BufferUse, Candidate, Counters, Instruction, Lane, Option, Plan, PlannedTask
from syclsched.model.platform import HOST, Device, MemorySpace, Platform
from syclsched.model.schedule import Assignment, Schedule
from syclsched.model.trace import Span, Trace


def span(
    instruction: int,
    lane: str,
    start_s: float,
    finish_s: float,
    *,
    family: str = "gemm",
    kind: str = "launch",
    waits: tuple[int, ...] = (),
    nbytes: int = 0,
    predicted: tuple[float, float] | None = None,
    outcome: str = "done",
    task: str | None = None,
) -> Span:
    """Return a span; the lane's name has its device and kind."""
    device, _, part = lane.partition(":")
    lane_kind = "copy" if part == "copy" else "host" if device == "host" else "compute"
    before = predicted or (start_s, finish_s)
    return Span(
        instruction=instruction, kind=kind, task=task or f"{family}({instruction})",  # type: ignore[arg-type]
        implementation=None if kind in ("copy", "barrier") else "python", family=family, lane=lane, device=device,
        lane_kind=lane_kind, submit_s=max(0.0, start_s - 1e-5), start_s=start_s, finish_s=finish_s,
        predicted_start_s=before[0], predicted_finish_s=before[1], waits=waits, nbytes=nbytes, outcome=outcome,  # type: ignore[arg-type]
    )  # fmt: skip


def random_trace(
    count: int, seed: int = 0, *, lanes: tuple[str, ...] = ("cpu:0", "cpu:1", "emu:0", "emu:copy")
) -> Trace:
    """Return a trace of ``count`` spans: in-order lanes with waits, measured slightly longer than predicted."""
    rng = random.Random(seed)
    clock, believed = dict.fromkeys(lanes, 0.0), dict.fromkeys(lanes, 0.0)
    lengths = {"potrf": 2e-4, "trsm": 3e-4, "syrk": 3e-4, "gemm": 5e-4, "copy": 1e-4}
    spans: list[Span] = []
    for number in range(count):
        lane = rng.choice(lanes)
        family = "copy" if lane.endswith("copy") else rng.choices(["potrf", "trsm", "syrk", "gemm"], [1, 3, 3, 9])[0]
        others = [s for s in spans[-12:] if s.lane != lane]
        waits = tuple(s.instruction for s in rng.sample(others, min(len(others), rng.choice([0, 0, 1, 2]))))
        start = max([clock[lane], *(s.finish_s for s in spans if s.instruction in waits)])
        planned = max([believed[lane], *(s.predicted_finish_s for s in spans if s.instruction in waits)])
        length = lengths[family] * rng.uniform(0.8, 1.2)
        clock[lane], believed[lane] = start + length * rng.uniform(0.95, 1.3), planned + length
        spans.append(
            span(
                number, lane, start, clock[lane], family=family, kind="copy" if family == "copy" else "launch",
                waits=waits, nbytes=524288 if family == "copy" else 0, predicted=(planned, believed[lane]),
            )
        )  # fmt: skip
    return Trace(
        name="cholesky",
        policy="auto: heft",
        spans=tuple(sorted(spans, key=lambda s: (s.start_s, s.instruction))),
        makespan_s=max(clock.values()),
        predicted_makespan_s=max(believed.values()),
        host_waits=1,
        events=len({w for s in spans for w in s.waits}),
        barriers=2,
        submissions=count,
        peak_bytes={"cpu": 3 << 20, "host": 0},
    )


READ, WRITE, UPDATE = AccessMode.READ, AccessMode.WRITE, AccessMode.UPDATE


def two_devices() -> Plan:
    """Return a trace: ``first`` on the CPU, a copy of its result, then ``second`` on the GPU after ``other``."""
    cpu_0 = Lane(
        "cpu:0", "cpu", "compute",
        (
            Instruction(0, "alloc", "first", uses=(BufferUse("x", "cpu", WRITE),), nbytes=2048),
            Instruction(1, "launch", "first", "opencl-c", (BufferUse("x", "cpu", WRITE),), (), 2e-3, 0.0, 2e-3),
        ),
    )  # fmt: skip
    gpu_copy = Lane(
        "gpu:copy", "gpu", "copy",
        (
            Instruction(
                3, "copy", "second", None, (BufferUse("x", "cpu", READ), BufferUse("x", "gpu", WRITE)), (1,),
                1e-3, 2e-3, 3e-3, 2048,
            ),
        ),
    )  # fmt: skip
    gpu_0 = Lane(
        "gpu:0", "gpu", "compute",
        (
            Instruction(2, "launch", "other", "onemkl", (BufferUse("y", "gpu", UPDATE),), (), 5e-4, 0.0, 5e-4),
            Instruction(4, "launch", "second", "onemkl", (BufferUse("x", "gpu", UPDATE),), (3,), 1e-3, 3e-3, 4e-3),
        ),
    )  # fmt: skip
    devices = (
        Device("cpu", "c", "cpu", "opencl", "", "cpu", ("cpu",)),
        Device("gpu", "g", "gpu", "level_zero", "", "gpu", ("gpu",), lanes=2),
        Device(HOST, HOST, HOST, HOST, "", HOST, (HOST,)),
    )
    platform = Platform("desk", devices, (MemorySpace("cpu", 0), MemorySpace("gpu", 1 << 20), MemorySpace(HOST, 0)))
    tasks = tuple(PlannedTask(n, "kernel", f) for n, f in (("first", "make"), ("other", "use"), ("second", "use")))
    assignments = (
        Assignment("first", "cpu", 0, "opencl-c", 0.0, 1.0),
        Assignment("other", "gpu", 0, "onemkl", 0.0, 1.0),
        Assignment("second", "gpu", 0, "onemkl", 1.0, 2.0),
    )
    return Plan(
        "small", "0", "auto: heft", platform, (), tasks, Schedule("heft", assignments), (cpu_0, gpu_0, gpu_copy),
        makespan_s=4e-3, peak_bytes={"cpu": 2048, "gpu": 4096}, counters=Counters(7, 6, 5, 4, 3, 1, 2048),
        candidates=(
            Candidate("single:cpu", 8e-3), Candidate("single:gpu", None, "needs fp64"), Candidate("heft", 4e-3),
        ),
        options=(
            Option("second", "gpu", "onemkl", 1e-3, "measured"),
            Option("second", "cpu", "opencl-c", 3e-3, "modelled"),
            Option("first", "cpu", "opencl-c", 2e-3, "measured"),
            Option("other", "gpu", "onemkl", 5e-4, "measured"),
            Option("other", "cpu", "opencl-c", 1e-4, "spec-sheet"),
        ),
    )  # fmt: skip
