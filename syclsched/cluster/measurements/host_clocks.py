# SPDX-License-Identifier: Apache-2.0
"""Offsets between the clocks of a cluster's machines, for traces of all of them on one time axis.

A worker is asked for its clock several times. The answer with the shortest round trip counts: the clock was read at
some time within it, so the offset is wrong by at most half of it. Clocks drift; ask before and after a run.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from syclsched.cluster.workers import ConnectedWorkers
from syclsched.errors import WorkerLostError
from syclsched.execution.core.clock import now_ns

if TYPE_CHECKING:
    from syclsched.cluster.node import Node

#: Questions to each worker.
READINGS: Final = 20
#: Longest time to wait for one answer.
_MESSAGE_S: Final = 30.0

_HERE: Final = "syclsched.cluster.measurements.host_clocks"


@dataclass(frozen=True, slots=True)
class ClockOffset:
    """Offset of a worker's clock from that of this process, wrong by at most ``error_ns``."""

    worker: str
    offset_ns: int
    error_ns: int

    def here_ns(self, there_ns: int) -> int:
        """Convert a time of the worker's clock to one of this process."""
        return there_ns - self.offset_ns


def clock_offsets(
    cluster: ConnectedWorkers, workers: Iterable[str] | None = None, readings: int = READINGS
) -> dict[str, ClockOffset]:
    """Measure the offset of the clocks of some workers, by default all, from that of this process."""
    asked = [worker.name for worker in cluster.workers] if workers is None else workers
    return {name: _offset(cluster, name, readings) for name in asked}


def _offset(cluster: ConnectedWorkers, worker: str, readings: int) -> ClockOffset:
    try:
        address = cluster.link(worker)
    except WorkerLostError:
        spans = [_asked(cluster, worker) for _ in range(readings)]
    else:
        run = f"clock {uuid.uuid4().hex}"
        telling = cluster.start(worker, f"{_HERE}:tell_clock", cluster.address, run, readings)
        spans = []
        there = np.zeros(1, np.int64)
        for number in range(readings):
            begun_ns = now_ns()
            cluster.mailbox.send(run, number, address, None)
            cluster.mailbox.receive(run, number, there, _MESSAGE_S, source=address)
            spans.append((begun_ns, int(there[0]), now_ns()))
        telling.result(_MESSAGE_S)
        cluster.mailbox.end(run)
    begun_ns, there_ns, ended_ns = min(spans, key=lambda span: span[2] - span[0])
    return ClockOffset(worker, there_ns - (begun_ns + ended_ns) // 2, (ended_ns - begun_ns + 1) // 2)


def _asked(cluster: ConnectedWorkers, worker: str) -> tuple[int, int, int]:
    begun_ns = now_ns()
    there_ns = cluster.call(worker, f"{_HERE}:read_clock")
    return begun_ns, there_ns, now_ns()


# --- on the workers -------------------------------------------------------------------------------


def tell_clock(node: Node, peer: str, run: str, readings: int) -> None:
    """Answer messages with the time of this worker's clock."""
    try:
        for number in range(readings):
            node.mailbox.receive(run, number, None, _MESSAGE_S, source=peer)
            node.mailbox.send(run, number, peer, np.array([now_ns()], np.int64))
    finally:
        node.mailbox.end(run)


def read_clock(node: Node) -> int:
    """Return the time of this worker's clock."""
    return now_ns()
