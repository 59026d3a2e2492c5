# SPDX-License-Identifier: Apache-2.0
"""Parser of WfFormat (WfCommons JSON) workflows, recorded or generated, schema versions 1.4 to 1.6.

Runtimes are those on one core (or ``coreCount`` cores) of the recorded machine, which is taken as the reference core.
Recorded clock rates are not used: they are momentary, often those of an idle machine.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Literal

from annotated_types import Ge, Le, MinLen

from syclsched.errors import FormatError
from syclsched.frontends.assemble import ListedTask, check_bytes, check_name, graph_of_files, quoted_name
from syclsched.frontends.graph_limits import Limits
from syclsched.frontends.graph_units import Units
from syclsched.model.cost_only import MAX_BYTES, MAX_CORES, MAX_SECONDS
from syclsched.model.graph import TaskGraph
from syclsched.model.graph_parts.naming import MAX_NAME_LENGTH
from syclsched.model.text.json_serialisation import from_json

_Seconds = Annotated[float, Ge(0), Le(MAX_SECONDS)]
_Size = Annotated[int, Ge(0), Le(MAX_BYTES)]
_Cores = Annotated[float, Ge(1), Le(MAX_CORES)]
_Number = Annotated[float, Ge(-(1 << 31)), Le((1 << 31) - 1)]
_Id = Annotated[str, MinLen(1)]


class _Loose:
    """Base of a document's parts: unused fields are ignored, used ones are validated."""

    __slots__ = ()
    __pydantic_config__: ClassVar[dict[str, object]] = {"extra": "ignore", "allow_inf_nan": False}


@dataclass(frozen=True, slots=True)
class _TaskCommand(_Loose):
    program: str | None = None


# --- versions 1.5 and 1.6 -------------------------------------------------------------------------
# Version 1.6 adds optional metrics, and says which characters names have.


@dataclass(frozen=True, slots=True)
class _Task15(_Loose):
    id: _Id
    name: str = ""
    parents: tuple[str, ...] = ()
    children: tuple[str, ...] = ()
    inputFiles: tuple[str, ...] = ()
    outputFiles: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _File15(_Loose):
    id: _Id
    sizeInBytes: _Size


@dataclass(frozen=True, slots=True)
class _Specification15(_Loose):
    tasks: tuple[_Task15, ...]
    files: tuple[_File15, ...] = ()


@dataclass(frozen=True, slots=True)
class _Execution15Task(_Loose):
    id: _Id
    runtimeInSeconds: _Seconds
    coreCount: _Cores = 1.0
    priority: _Number = 0.0
    command: _TaskCommand | None = None
    category: str | None = None  # not in the schema, but written by WfCommons


@dataclass(frozen=True, slots=True)
class _Execution15(_Loose):
    tasks: tuple[_Execution15Task, ...]


@dataclass(frozen=True, slots=True)
class _Workflow15(_Loose):
    specification: _Specification15
    execution: _Execution15


@dataclass(frozen=True, slots=True)
class _WfFormat15(_Loose):
    """The fields used of a version 1.5 or 1.6 file."""

    document_name: ClassVar[str] = "a workflow in WfFormat, schema version 1.5 or 1.6"
    schemaVersion: Literal["1.5", "1.6"]
    workflow: _Workflow15
    name: str = ""


# --- version 1.4 ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _File14(_Loose):
    name: _Id
    sizeInBytes: _Size
    link: Literal["input", "output"]
    path: str = ""


@dataclass(frozen=True, slots=True)
class _Task14(_Loose):
    name: _Id
    runtimeInSeconds: _Seconds
    id: str | None = None
    category: str | None = None
    command: _TaskCommand | None = None
    parents: tuple[str, ...] = ()
    children: tuple[str, ...] = ()
    files: tuple[_File14, ...] = ()
    cores: _Cores = 1.0
    priority: _Number = 0.0


@dataclass(frozen=True, slots=True)
class _Workflow14(_Loose):
    tasks: tuple[_Task14, ...]


@dataclass(frozen=True, slots=True)
class _WfFormat14(_Loose):
    """The fields used of a version 1.4 file."""

    document_name: ClassVar[str] = "a workflow in WfFormat, schema version 1.4"
    schemaVersion: Literal["1.4"]
    workflow: _Workflow14
    name: str = ""


# --- reading --------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Workflow:
    """A parsed workflow, independent of the schema version."""

    tasks: list[ListedTask] = field(default_factory=list)
    sizes: dict[str, int] = field(default_factory=dict)
    edges: list[tuple[str, str]] = field(default_factory=list)


def parse_wfformat(text: bytes, version: str, *, name: str, where: str, limits: Limits, units: Units) -> TaskGraph:
    """Parse a WfFormat workflow; each file becomes one array, shared by all its readers."""
    document: _WfFormat14 | _WfFormat15
    if version in ("1.5", "1.6"):
        document = from_json(_WfFormat15, text, where=where, strict=False)
        found = _read_15(document.workflow, where, limits, units)
    elif version == "1.4":
        document = from_json(_WfFormat14, text, where=where, strict=False)
        found = _read_14(document.workflow, where, limits, units)
    else:
        raise FormatError(
            f"at schemaVersion: it is {version[:40]!r}, expected one of 1.4, 1.5, 1.6",
            where=where,
            hint="WfCommons' WfFormat repository has a script that migrates older files",
        )
    limits.check_edges(len(found.edges) + sum(len(t.reads) + len(t.writes) for t in found.tasks), where)
    return graph_of_files(document.name[:MAX_NAME_LENGTH] or name, found.tasks, found.sizes, found.edges, where)


def _read_15(workflow: _Workflow15, where: str, limits: Limits, units: Units) -> _Workflow:
    listed, records = workflow.specification.tasks, workflow.execution.tasks
    limits.check_tasks(len(listed), where)
    found = _Workflow()
    found.sizes = _sizes(((f.id, f.sizeInBytes) for f in workflow.specification.files), where)
    executed: dict[str, _Execution15Task] = {}
    known: set[str] = set()
    for index, task in enumerate(listed):
        place = f"{where}, at workflow.specification.tasks.{index}"
        _check_new("task", task.id, known, place)
        known.add(check_name(task.id, place))
    for index, record in enumerate(records):
        place = f"{where}, at workflow.execution.tasks.{index}"
        if record.id not in known:
            raise FormatError(f"task {quoted_name(record.id)} is not among workflow.specification.tasks", where=place)
        _check_new("task", record.id, executed, place)
        executed[record.id] = record
    for index, task in enumerate(listed):
        place = f"{where}, at workflow.specification.tasks.{index}"
        if task.id not in executed:
            raise FormatError(
                f"task {quoted_name(task.id)} has no runtime, expected one in workflow.execution.tasks", where=place
            )
        record = executed[task.id]
        found.tasks.append(
            ListedTask(
                task.id,
                units.cost(record.runtimeInSeconds, cores=record.coreCount),
                place,
                family=(record.category or _family(record.command, task.name or task.id))[:MAX_NAME_LENGTH],
                priority=int(record.priority),
                reads=_declared(task.inputFiles, found.sizes, place),
                writes=_declared(task.outputFiles, found.sizes, place),
            )
        )
        found.edges += [(_known(p, known, f"{place}.parents"), task.id) for p in task.parents]
        found.edges += [(task.id, _known(c, known, f"{place}.children")) for c in task.children]
        limits.check_edges(len(found.edges), where)
    return found


def _read_14(workflow: _Workflow14, where: str, limits: Limits, units: Units) -> _Workflow:
    limits.check_tasks(len(workflow.tasks), where)
    found = _Workflow()
    names, name_of = _names_14(workflow.tasks)
    for index, (task, name) in enumerate(zip(workflow.tasks, names, strict=True)):
        place = f"{where}, at workflow.tasks.{index}"
        for file in task.files:
            key = file.path + file.name
            found.sizes[key] = max(file.sizeInBytes, found.sizes.get(key, 0))
        found.tasks.append(
            ListedTask(
                name,
                units.cost(task.runtimeInSeconds, cores=task.cores),
                place,
                family=(task.category or _family(task.command, task.name))[:MAX_NAME_LENGTH],
                priority=int(task.priority),
                reads=[f.path + f.name for f in task.files if f.link == "input"],
                writes=[f.path + f.name for f in task.files if f.link == "output"],
            )
        )
        found.edges += [(name_of[_known(p, name_of, f"{place}.parents")], name) for p in task.parents]
        found.edges += [(name, name_of[_known(c, name_of, f"{place}.children")]) for c in task.children]
        limits.check_edges(len(found.edges), where)
    return found


def _names_14(tasks: Sequence[_Task14]) -> tuple[list[str], dict[str, str]]:
    """Return the tasks' names, and a map from references (names, in some records ids) to these names."""
    names, ids = [task.name for task in tasks], [task.id or "" for task in tasks]
    name_counts = Counter(names)
    chosen = ids if len(name_counts) < len(names) and all(ids) and len(set(ids)) == len(ids) else names
    name_of = {identifier: name for identifier, name in zip(ids, chosen, strict=True) if identifier}
    name_of.update((name, one) for name, one in zip(names, chosen, strict=True) if name_counts[name] == 1)
    return chosen, name_of


def _sizes(files: Iterator[tuple[str, int]], where: str) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for index, (name, nbytes) in enumerate(files):
        place = f"{where}, at workflow.specification.files.{index}"
        _check_new("file", name, sizes, place)
        sizes[name] = check_bytes(nbytes, place)
    return sizes


def _check_new(what: str, name: str, known: Container[str], place: str) -> None:
    if name in known:
        raise FormatError(f"{what} {quoted_name(name)} is listed twice, expected unique ids", where=place)


def _declared(files: tuple[str, ...], sizes: Mapping[str, int], place: str) -> tuple[str, ...]:
    for file in files:
        if file not in sizes:
            raise FormatError(f"file {quoted_name(file)} is not among workflow.specification.files", where=place)
    return files


def _known(task: str, known: Container[str], place: str) -> str:
    if task not in known:
        raise FormatError(f"no task {quoted_name(task)}, expected one that is listed", where=place)
    return task


def _family(command: _TaskCommand | None, name: str) -> str:
    """Return the family of a task: the program it calls, or its name without a trailing number."""
    program = "" if command is None or command.program is None else command.program.rstrip("/").rpartition("/")[2]
    return (program or re.sub(r"[_-]?(ID)?\d+$", "", name) or name)[:MAX_NAME_LENGTH]
