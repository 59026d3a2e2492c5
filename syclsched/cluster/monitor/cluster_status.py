# SPDX-License-Identifier: Apache-2.0
"""State of a cluster as data, text and HTML: its workers, their devices and memory, and the clients' runs on them."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from syclsched.cluster.membership import ClusterWorker
from syclsched.cluster.part_runner import PartStatus
from syclsched.cluster.workers import DESCRIBE, ConnectedWorkers
from syclsched.errors import ClusterError
from syclsched.model.text.sections import Section, facts, sections_html, sections_text, table
from syclsched.model.text.units import format_bytes, format_seconds, plural

if TYPE_CHECKING:
    from syclsched.cluster.node import NodeFacts

_PARTS: Final = "syclsched.cluster.part_runner:statuses_of_parts"

State = Literal["ready", "silent", "no answer", "no devices"]


@dataclass(frozen=True, slots=True)
class WorkerStatus:
    """State of a worker."""

    worker: ClusterWorker
    state: State
    silent_s: float = 0.0  # since its last sign of life, if that is too long
    host_name: str = ""
    process: int = 0
    cores: int = 0
    devices: tuple[str, ...] = ()
    memory_bytes: int = 0  # of the machine
    used_bytes: int = 0  # by the worker's process
    generation: str = ""
    problem: str = ""
    parts: tuple[PartStatus, ...] = ()  # parts of plans that clients have bound there, and their runs


@dataclass(frozen=True, slots=True)
class ClusterStatus:
    """State of a cluster and of its workers; ``print`` shows it as a table."""

    scheduler: str
    dashboard: str | None
    workers: tuple[WorkerStatus, ...]

    def __str__(self) -> str:
        return sections_text(self._sections())

    def _repr_html_(self) -> str:
        return sections_html(self._sections())

    def _sections(self) -> list[Section]:
        rows = [_row(each) for each in self.workers]
        headings: tuple[str, ...] = ("worker", "address", "host", "cores", "devices", "memory", "used", "state")
        if any(each.problem for each in self.workers):
            headings = (*headings, "problem")
        else:
            rows = [row[:-1] for row in rows]
        pairs = [("scheduler", self.scheduler), ("dashboard", self.dashboard or "none")]
        found = [
            facts(f"Cluster of {plural(len(self.workers), 'worker')}", pairs),
            table("Workers", headings, rows, numbers=(3, 5, 6)),
        ]
        parts = [_part_row(each.worker.name, part) for each in self.workers for part in each.parts]
        if parts:
            headings = ("worker", "graph", "client", "priority", "share", "state", "tasks done", "memory")
            found.append(table("Graphs", headings, parts, numbers=(3, 4, 6, 7)))
        return found


def read_status(workers: ConnectedWorkers, timeout_s: float) -> ClusterStatus:
    """Return the state of each worker, silent ones included; workers without a known description are asked."""
    members, facts = workers.members, workers.facts
    known, found = members.known()
    silences = {each.address: members.silence_s(each.address) for each in found}
    heard = [each for each in found if not silences[each.address]]
    asked = {each.address: workers.start(each.name, DESCRIBE) for each in heard if each.address not in facts}
    bound = {each.address: workers.start(each.name, _PARTS) for each in heard}
    problems: dict[str, str] = {}
    parts: dict[str, tuple[PartStatus, ...]] = {}
    end = time.monotonic() + timeout_s
    for calls, answers in ((asked, facts), (bound, parts)):
        for address, started in calls.items():
            try:
                answers[address] = started.result(max(0.0, end - time.monotonic()))
            except ClusterError as error:
                problems[address] = error.what
    return ClusterStatus(
        workers.scheduler,
        workers.dashboard,
        tuple(
            _status(
                each,
                known[each.address],
                silences[each.address],
                facts.get(each.address),
                parts.get(each.address, ()),
                problems.get(each.address, ""),
            )
            for each in found
        ),
    )


def _status(
    worker: ClusterWorker,
    info: Mapping[str, Any],
    silent_s: float,
    said: NodeFacts | None,
    parts: tuple[PartStatus, ...],
    problem: str,
) -> WorkerStatus:
    used = int(info.get("metrics", {}).get("memory", 0))
    if said is None:
        unknown: State = "silent" if silent_s else "no answer"
        return WorkerStatus(worker, unknown, silent_s, used_bytes=used, problem=problem)
    found = () if said.platform is None else said.platform.compute_devices
    state: State = "silent" if silent_s else "no answer" if problem else "ready" if found else "no devices"
    return WorkerStatus(
        worker,
        state,
        silent_s,
        said.host_name,
        said.process,
        said.cores,
        tuple(device.name for device in found),
        said.memory_bytes,
        used,
        said.generation,
        problem or said.problem,
        parts,
    )


def _part_row(worker: str, part: PartStatus) -> tuple[str, ...]:
    state = "idle"
    if part.running:
        state = f"{'waits for its turn' if part.waits else 'runs'}, {format_seconds(part.elapsed_s)}"
    return (
        worker,
        part.graph,
        part.client,
        str(part.priority),
        "" if part.share is None else f"{part.share:g}",
        state,
        f"{part.tasks_done} of {part.tasks}" if part.running else "",
        ", ".join(f"{space} {format_bytes(nbytes)}" for space, nbytes in sorted(part.memory_bytes.items()) if nbytes),
    )


def _row(each: WorkerStatus) -> tuple[str, ...]:
    return (
        each.worker.name,
        each.worker.address,
        each.host_name,
        str(each.cores),
        ", ".join(each.devices) or "none",
        format_bytes(each.memory_bytes),
        format_bytes(each.used_bytes),
        f"silent for {each.silent_s:.0f} s" if each.state == "silent" else each.state,
        each.problem,
    )
