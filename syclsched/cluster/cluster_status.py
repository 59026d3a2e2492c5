# SPDX-License-Identifier: Apache-2.0
"""State of a cluster as data, text and HTML: its workers, their devices, memory and last sign of life."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from syclsched.model.text.sections import Section, facts, sections_html, sections_text, table
from syclsched.model.text.units import format_bytes, plural

State = Literal["ready", "silent", "no answer", "no devices"]


@dataclass(frozen=True, slots=True)
class ClusterWorker:
    """A worker: its name here, its address, and what Dask calls it."""

    name: str
    address: str
    dask_name: str

    def __str__(self) -> str:
        return f"{self.name} ({self.address})"


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
        return [
            facts(f"Cluster of {plural(len(self.workers), 'worker')}", pairs),
            table("Workers", headings, rows, numbers=(3, 5, 6)),
        ]


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
