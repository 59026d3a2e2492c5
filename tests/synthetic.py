# SPDX-License-Identifier: Apache-2.0
"""Traces made by a few lines of arithmetic, for tests of what is drawn, exported and counted."""

from __future__ import annotations

import random

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
    """One span; the lane's name says its device and kind."""
    device, _, part = lane.partition(":")
    lane_kind = "copy" if part == "copy" else "host" if device == "host" else "compute"
    before = predicted or (start_s, finish_s)
    return Span(
        instruction=instruction, kind=kind, task=task or f"{family}({instruction})",  # type: ignore[arg-type]
        implementation=None if kind in ("copy", "barrier") else "numba-dpex", family=family, lane=lane, device=device,
        lane_kind=lane_kind, submit_s=max(0.0, start_s - 1e-5), start_s=start_s, finish_s=finish_s,
        predicted_start_s=before[0], predicted_finish_s=before[1], waits=waits, nbytes=nbytes, outcome=outcome,  # type: ignore[arg-type]
    )  # fmt: skip


def random_trace(
    count: int, seed: int = 0, *, lanes: tuple[str, ...] = ("cpu:0", "cpu:1", "emu:0", "emu:copy")
) -> Trace:
    """A trace of ``count`` spans: in-order lanes, waits between them, measured a little longer than predicted."""
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
