# SPDX-License-Identifier: Apache-2.0
"""JSON documents of the commands' ``--json`` option: their keys, types and meanings, and their output.

The reference page of the command line is made from these definitions. A change of a key or a type raises the number in
the document's format; new keys do not.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from os import PathLike
from typing import Annotated, Any, ClassVar

#: Meaning of the counters of a plan.
_COUNTERS = "dependencies, edges, waits, events, barriers, copies, copied_bytes and recomputed tasks"


class Document:
    """Base of the documents that commands print."""

    FORMAT: ClassVar[str]  # name and version, the document's first key
    COMMANDS: ClassVar[str]  # the commands that print it


# --- parts ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CandidateEntry:
    """One plan that was considered."""

    policy: Annotated[str, "policy that made it"]
    makespan_s: Annotated[float | None, "predicted by simulation; null if it was not simulated"]
    modelled_s: Annotated[float | None, "makespan by the scheduler's model; null without a schedule"]
    refused: Annotated[str | None, "why no plan could be made"]


@dataclass(frozen=True, slots=True)
class TrialEntry:
    """Measured makespan of a plan that runs have tried."""

    policy: Annotated[str, "policy that made it"]
    predicted_s: Annotated[float, "makespan by simulation"]
    measured_s: Annotated[float | None, "median of its runs"]
    runs: Annotated[int, "number of its runs"]
    kept: Annotated[bool, "whether it was the fastest and is kept"]


@dataclass(frozen=True, slots=True)
class PartEntry:
    """A plan bound on one worker, and its run if one is in progress."""

    graph: Annotated[str, "name of the graph"]
    client: Annotated[str, "user, host and process that have bound it"]
    priority: Annotated[int, "priority of its runs"]
    share: Annotated[float | None, "share of its runs"]
    running: Annotated[bool, "whether a run is in progress"]
    waits: Annotated[bool, "whether the run waits for its turn"]
    tasks_done: Annotated[int, "tasks of the run that this worker has done"]
    tasks: Annotated[int, "tasks of a run on this worker"]
    sent_bytes: Annotated[int, "bytes that the run has sent from this worker"]
    elapsed_s: Annotated[float, "seconds since the run began here"]
    memory_bytes: Annotated[dict[str, int], "memory that is held for it, by memory space"]


@dataclass(frozen=True, slots=True)
class WorkerEntry:
    """State of one worker of a cluster."""

    name: Annotated[str, "name of the machine in plans"]
    address: Annotated[str, "Dask's address of the worker"]
    host: Annotated[str, "name of its host"]
    state: Annotated[str, "ready, silent, no answer or no devices"]
    cores: Annotated[int, "cores that it may use"]
    devices: Annotated[list[str], "its compute devices"]
    memory_bytes: Annotated[int, "memory of its host"]
    used_bytes: Annotated[int, "memory that its process uses"]
    problem: Annotated[str | None, "why it cannot be used"]
    parts: Annotated[list[PartEntry], "plans that clients have bound there"]


@dataclass(frozen=True, slots=True)
class InstructionEntry:
    """One planned task or copy."""

    id: Annotated[int, "number of the instruction in the plan"]
    lane: Annotated[str, "queue that it runs on"]
    device: Annotated[str, "device of the lane"]
    kind: Annotated[str, "launch, host, copy or barrier"]
    task: Annotated[str | None, "task that it executes or serves"]
    implementation: Annotated[str | None, "implementation of the task"]
    arrays: Annotated[list[str], "arrays that it accesses"]
    start_s: Annotated[float, "predicted start"]
    finish_s: Annotated[float, "predicted end"]
    bytes: Annotated[int, "size of a copy"]


@dataclass(frozen=True, slots=True)
class FamilyEntry:
    """One family of tasks on one device with one implementation."""

    family: Annotated[str, "tasks of one kind, such as gemm"]
    device: Annotated[str, "device that ran them"]
    implementation: Annotated[str, "implementation; empty for barriers"]
    tasks: Annotated[int, "number of tasks"]
    time_s: Annotated[float, "sum of their durations"]
    predicted_s: Annotated[float, "the same sum as predicted"]


@dataclass(frozen=True, slots=True)
class IdleEntry:
    """Seconds without computing, by reason."""

    no_task_s: Annotated[float, "no task was left"]
    copy_s: Annotated[float, "the next task waited for a copy, or the lane copied"]
    lanes_s: Annotated[float, "the next task waited for a task of another lane"]
    submission_s: Annotated[float, "the host had not submitted the next task"]
    memory_s: Annotated[float, "memory to be reused was in use"]
    starting_s: Annotated[float, "submitted and ready, not started"]


@dataclass(frozen=True, slots=True)
class DeviceEntry:
    """Use of one device in a run."""

    device: Annotated[str, "name"]
    lanes: Annotated[int, "number of compute lanes"]
    tasks: Annotated[int, "number of tasks"]
    busy_s: Annotated[float, "computing time, summed over lanes"]
    idle_s: Annotated[float, "the rest of the makespan, summed over lanes"]
    copying_s: Annotated[float, "copying time, summed over lanes"]
    utilisation: Annotated[float, "busy_s by lanes and makespan"]
    predicted_utilisation: Annotated[float, "the same as planned"]
    overlap: Annotated[float | None, "share of copying_s in which kernels ran; null without copies"]
    idle: Annotated[IdleEntry, "idle_s by reason"]


@dataclass(frozen=True, slots=True)
class LaneEntry:
    """Use of one lane in a run."""

    lane: Annotated[str, "name"]
    device: Annotated[str, "device of the lane"]
    busy_s: Annotated[float, "computing time"]
    utilisation: Annotated[float, "busy_s by makespan"]
    idle: Annotated[IdleEntry, "the rest of the makespan by reason"]


@dataclass(frozen=True, slots=True)
class LinkEntry:
    """Copies over one link."""

    link: Annotated[str, "memory spaces, or the lane of the copies if the plan is unknown"]
    copies: Annotated[int, "number of copies"]
    bytes: Annotated[int, "sum of their sizes"]
    time_s: Annotated[float, "sum of their durations"]
    predicted_s: Annotated[float, "the same sum as predicted"]
    bandwidth_bytes_per_s: Annotated[float, "bytes by time_s"]


@dataclass(frozen=True, slots=True)
class PathFamilyEntry:
    """Share of one family of tasks in the critical path."""

    family: Annotated[str, "tasks of one kind, or copy"]
    steps: Annotated[int, "number of steps of the path"]
    time_s: Annotated[float, "sum of their durations"]


@dataclass(frozen=True, slots=True)
class ImprovementEntry:
    """A change that would shorten the run."""

    what: Annotated[str, "the change"]
    saved_s: Annotated[float, "by how much the makespan would be shorter"]


@dataclass(frozen=True, slots=True)
class PathEntry:
    """The critical path of a run."""

    steps: Annotated[int, "number of steps"]
    computing_s: Annotated[float, "time in tasks"]
    copying_s: Annotated[float, "time in copies"]
    submission_s: Annotated[float, "time in which the host had not submitted the next step"]
    starting_s: Annotated[float, "time between submission and start"]
    families: Annotated[list[PathFamilyEntry], "the longest first"]
    waits: Annotated[list[str], "longest waits, as sentences"]
    improvements: Annotated[list[ImprovementEntry], "the best first"]


@dataclass(frozen=True, slots=True)
class TaskTimeEntry:
    """Measured duration of an operation of one size."""

    device: Annotated[str, "key of the device"]
    operation: Annotated[str, "operation"]
    implementation: Annotated[str, "implementation; ', in a run' if it was measured between other tasks"]
    sizes: Annotated[str, "types and shapes of the arrays, and scalars"]
    samples: Annotated[int, "number of samples"]
    doubtful_samples: Annotated[int, "number of those that other processes disturbed or later ones contradict"]
    sources: Annotated[list[str], "calibration, run, profile, selection"]
    median_s: Annotated[float, "estimate"]
    uncertainty: Annotated[float, "relative uncertainty of the estimate"]
    provisional: Annotated[bool, "whether it is to be measured again"]
    newest: Annotated[str | None, "time of the newest sample, UTC, ISO 8601; null if unknown"]


@dataclass(frozen=True, slots=True)
class ComparisonEntry:
    """Result of one policy on one platform."""

    platform: Annotated[str, "platform"]
    policy: Annotated[str, "policy"]
    makespan_s: Annotated[float | None, "predicted by simulation; null without a plan"]
    bound_s: Annotated[float | None, "lower bound of any schedule; null if unknown"]
    gap: Annotated[float | None, "makespan_s by bound_s, less 1"]
    utilisation: Annotated[float | None, "mean busy share of the compute lanes"]
    copied_bytes: Annotated[int | None, "bytes moved between memory spaces"]
    planning_s: Annotated[float, "duration of planning"]
    refused: Annotated[str | None, "why there is no plan"]
    rewritten: Annotated[str | None, "rewrites of the graph; bound_s is that of the rewritten graph"]
    runs: Annotated[int, "number of simulated runs with disturbances"]
    median_s: Annotated[float | None, "median makespan of the disturbed runs"]
    mad_s: Annotated[float | None, "its median absolute deviation"]
    worst_s: Annotated[float | None, "longest makespan of the disturbed runs"]
    incomplete: Annotated[int, "runs that did not finish all tasks"]
    undone: Annotated[list[str], "unfinished tasks of the first such run"]
    lost: Annotated[list[str], "lost arrays of the first such run"]


@dataclass(frozen=True, slots=True)
class FrontEntry:
    """One plan of a Pareto front."""

    policy: Annotated[str, "policy that made it"]
    values: Annotated[dict[str, float], "both metrics, by name with unit"]
    makespan_s: Annotated[float, "predicted by simulation"]
    gap: Annotated[float | None, "relative distance of makespan_s from its lower bound"]
    rewritten: Annotated[str | None, "rewrites of the graph"]
    dominated: Annotated[bool, "whether another plan is better in both metrics"]


@dataclass(frozen=True, slots=True)
class FindingEntry:
    """One result of the diagnosis."""

    topic: Annotated[str, "one or two words"]
    status: Annotated[str, "ok, warning, missing or info"]
    what: Annotated[str, "the observation"]
    meaning: Annotated[str | None, "consequence"]
    mend: Annotated[str | None, "command or step that repairs it"]
    is_blocking: Annotated[bool, "whether nothing can run until it is repaired"]


@dataclass(frozen=True, slots=True)
class KernelEntry:
    """One kernel of a pack."""

    name: Annotated[str, "name"]
    bytes: Annotated[int, "size of its SPIR-V"]


# --- documents ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PlanDocument(Document):
    """Summary of a plan; `--out` writes the plan itself."""

    FORMAT: ClassVar[str] = "syclsched-plan-summary/1"
    COMMANDS: ClassVar[str] = "plan, cluster plan"

    graph: Annotated[str, "name of the graph"]
    tasks: Annotated[int, "number of tasks, after rewriting"]
    policy: Annotated[str, "policy, and for auto the one that won"]
    aim: Annotated[str, "objective and constraints"]
    platform: Annotated[str, "name of the platform"]
    rewritten: Annotated[str | None, "rewrites of the graph"]
    predicted_makespan_s: Annotated[float, "makespan to expect"]
    simulated_makespan_s: Annotated[float, "makespan by simulation"]
    lower_bound_s: Annotated[float | None, "lower bound of the makespan of any plan"]
    gap: Annotated[float | None, "relative distance of the makespan from its lower bound"]
    interval_s: Annotated[float, "shortest interval between the starts of two runs"]
    energy_j: Annotated[float | None, "energy of all devices; null if a device's power is unknown"]
    peak_bytes: Annotated[dict[str, int], "peak memory of arrays, by memory space"]
    counters: Annotated[dict[str, int], _COUNTERS]
    candidates: Annotated[list[CandidateEntry], "plans that were considered"]
    trials: Annotated[list[TrialEntry], "plans that runs have tried"]
    instructions: Annotated[list[InstructionEntry], "tasks and copies, in the plan's order"]
    explanations: Annotated[dict[str, str], "text of `--explain`, by task"]


@dataclass(frozen=True, slots=True)
class FrontDocument(Document):
    """Pareto front of two metrics."""

    FORMAT: ClassVar[str] = "syclsched-front/1"
    COMMANDS: ClassVar[str] = "plan --front"

    graph: Annotated[str, "name of the graph"]
    metrics: Annotated[list[str], "both metrics"]
    points: Annotated[list[FrontEntry], "plans"]


@dataclass(frozen=True, slots=True)
class RunDocument(Document):
    """Summary of runs: the run with the median makespan."""

    FORMAT: ClassVar[str] = "syclsched-run-summary/1"
    COMMANDS: ClassVar[str] = "run"

    graph: Annotated[str, "name of the graph"]
    policy: Annotated[str, "policy, and for auto the one that won"]
    rewritten: Annotated[str | None, "rewrites of the graph"]
    simulated: Annotated[bool, "true for `--dry-run`"]
    predicted_makespan_s: Annotated[float, "makespan to expect"]
    simulated_makespan_s: Annotated[float, "makespan by simulation"]
    lower_bound_s: Annotated[float, "lower bound of the makespan of any plan; 0 if unknown"]
    gap: Annotated[float | None, "relative distance of the predicted makespan from its lower bound"]
    makespan_s: Annotated[float, "median makespan"]
    makespans_s: Annotated[list[float], "makespan of every run"]
    stream: Annotated[dict[str, Any] | None, "statistics of `--in-flight`"]
    result: Annotated[dict[str, Any] | None, "check of the result: ok, residual, tolerance, text"]
    where: Annotated[dict[str, dict[str, int]], "number of tasks, by family and by DEVICE/IMPLEMENTATION"]
    recoveries: Annotated[list[dict[str, Any]], "failures that the runs recovered from"]
    counters: Annotated[dict[str, int], _COUNTERS]
    host_waits: Annotated[int, "waits of the host"]
    peak_bytes: Annotated[dict[str, int], "peak memory of arrays, by memory space"]
    candidates: Annotated[list[CandidateEntry], "plans that were considered"]
    trials: Annotated[list[TrialEntry], "plans that runs have tried"]
    ratio: Annotated[float | None, "our median time by that of the runtime named by `--compare`"]


@dataclass(frozen=True, slots=True)
class TraceDocument(Document):
    """Analysis of a recorded run."""

    FORMAT: ClassVar[str] = "syclsched-trace-report/1"
    COMMANDS: ClassVar[str] = "trace"

    graph: Annotated[str, "name of the graph"]
    policy: Annotated[str, "policy"]
    simulated: Annotated[bool, "whether the run was simulated"]
    complete: Annotated[bool, "whether nothing failed or was cancelled"]
    makespan_s: Annotated[float, "makespan"]
    predicted_makespan_s: Annotated[float, "makespan as predicted"]
    makespan_error: Annotated[float, "(predicted - measured) by measured"]
    lower_bound_s: Annotated[float | None, "lower bound of the makespan; null without `--plan`"]
    gap: Annotated[float | None, "relative distance of the plan's makespan from its lower bound"]
    families: Annotated[list[FamilyEntry], "the longest first"]
    devices: Annotated[list[DeviceEntry], "in the platform's order"]
    lanes: Annotated[list[LaneEntry], "compute and host lanes"]
    links: Annotated[list[LinkEntry], "the most bytes first"]
    critical_path: Annotated[PathEntry, "critical path"]
    dependencies: Annotated[int | None, "of the graph; null without `--plan`"]
    waits: Annotated[int, "waits between lanes"]
    events: Annotated[int, "events"]
    barriers: Annotated[int, "barriers"]
    submissions: Annotated[int, "submissions"]
    host_waits: Annotated[int, "waits of the host"]
    failed: Annotated[int, "tasks that failed"]
    cancelled: Annotated[int, "tasks that were cancelled"]
    incomplete_copies: Annotated[int, "copies that failed or were cancelled"]
    copied_bytes: Annotated[int, "bytes moved between memory spaces"]
    peak_bytes: Annotated[dict[str, int], "peak memory of arrays, by memory space"]
    planned_peak_bytes: Annotated[dict[str, int], "the same as planned; empty without `--plan`"]
    held_bytes: Annotated[dict[str, int], "memory held by the run, by memory space"]
    constant_bytes: Annotated[dict[str, int], "constants, by memory space"]
    story: Annotated[str | None, "history of the task named by `--story`"]


@dataclass(frozen=True, slots=True)
class ComparisonDocument(Document):
    """Plans of one graph by several policies, the fastest first."""

    FORMAT: ClassVar[str] = "syclsched-comparison/1"
    COMMANDS: ClassVar[str] = "compare, simulate"

    graph: Annotated[str, "name of the graph"]
    tasks: Annotated[int, "number of tasks"]
    rows: Annotated[list[ComparisonEntry], "the fastest first"]
    contention: Annotated[str | None, "`--contention`"] = None
    noise: Annotated[dict[str, Any] | None, "`--noise` and `--wrong`: sigma, families, spread"] = None
    events: Annotated[list[dict[str, Any]], "`--slow` and `--fail`: device, at_s, factor or failure"] = field(
        default_factory=list
    )
    seeds: Annotated[list[int] | None, "first seed, and number of seeds"] = None


@dataclass(frozen=True, slots=True)
class HistoryDocument(Document):
    """Measured task times."""

    FORMAT: ClassVar[str] = "syclsched-task-times/1"
    COMMANDS: ClassVar[str] = "history show"

    found: Annotated[int, "number of rows that match, before `--limit`"]
    rows: Annotated[list[TaskTimeEntry], "in the order of `--sort`"]


@dataclass(frozen=True, slots=True)
class DevicesDocument(Document):
    """Devices of this machine."""

    FORMAT: ClassVar[str] = "syclsched-devices/1"
    COMMANDS: ClassVar[str] = "devices"

    platform: Annotated[dict[str, Any], "the platform, as in a plan's file"]


@dataclass(frozen=True, slots=True)
class DiagnosisDocument(Document):
    """Diagnosis of the installation."""

    FORMAT: ClassVar[str] = "syclsched-diagnosis/1"
    COMMANDS: ClassVar[str] = "doctor"

    usable: Annotated[bool, "whether graphs can be run"]
    findings: Annotated[list[FindingEntry], "what was examined"]


@dataclass(frozen=True, slots=True)
class ClusterDocument(Document):
    """State of a cluster."""

    FORMAT: ClassVar[str] = "syclsched-cluster-status/1"
    COMMANDS: ClassVar[str] = "cluster status"

    scheduler: Annotated[str, "address of Dask's scheduler"]
    dashboard: Annotated[str | None, "address of Dask's dashboard"]
    workers: Annotated[list[WorkerEntry], "by name"]


@dataclass(frozen=True, slots=True)
class PackDocument(Document):
    """Kernels of a pack."""

    FORMAT: ClassVar[str] = "syclsched-pack-summary/1"
    COMMANDS: ClassVar[str] = "kernels show"

    kernels: Annotated[list[KernelEntry], "by name"]


#: All documents, in the order of the reference page.
DOCUMENTS: tuple[type[Document], ...] = (
    PlanDocument, FrontDocument, RunDocument, ComparisonDocument, TraceDocument, HistoryDocument, DevicesDocument,
    DiagnosisDocument, PackDocument,
)  # fmt: skip


# --- output ---------------------------------------------------------------------------------------


def entry_of(kind: type[Any], value: Any, **changed: Any) -> Any:
    """Return an entry with the attributes of the same names of another object, except for those given."""
    return kind(**{each.name: changed[each.name] if each.name in changed else getattr(value, each.name)
                   for each in fields(kind)})  # fmt: skip


def print_document(document: Document) -> None:
    """Print a document on standard output."""
    print(json.dumps({"format": document.FORMAT, **plain(document)}, indent=1, allow_nan=False))


def plain(value: Any) -> Any:
    """Return a value as JSON data: numbers that are not finite become null, NumPy's become plain ones."""
    if is_dataclass(value) and not isinstance(value, type):
        return {each.name: plain(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(each) for each in value]
    if isinstance(value, PathLike):
        return str(value)
    if isinstance(value, bool) or value is None or isinstance(value, (str, int)):
        return value
    if not isinstance(value, float) and hasattr(value, "item"):  # a NumPy scalar, or an array of one number
        return plain(value.item())
    return value if math.isfinite(value) else None
