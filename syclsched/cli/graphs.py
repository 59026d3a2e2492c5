# SPDX-License-Identifier: Apache-2.0
"""The graph a command is given: a ready one by name, that of a model, or one from a file."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

from syclsched.cli.options import build_workload
from syclsched.errors import ArgumentError

if TYPE_CHECKING:
    from syclsched.cli.models import GivenModel
    from syclsched.model.graph import TaskGraph

#: So many tasks are named in a message, and in graphs of at most so many those like what was typed are looked for.
_NAMED, _MOST_COMPARED = 6, 10_000


@dataclass(frozen=True, slots=True)
class Given:
    """A graph."""

    graph: TaskGraph  # what is to be planned
    from_file: bool  # whether it has costs instead of code: there is nothing to time, and it cannot be run
    model: GivenModel | None = None  # the ONNX model it is of


def load_graph(
    name: str,
    *,
    ready: dict[str, Any],
    format: str | None = None,
    max_tasks: int | None = None,
    max_edges: int | None = None,
    max_file_mib: int | None = None,
    time_unit: float | None = None,
    communication_unit: float | None = None,
    same_speed: bool = False,
    task_cost: str | None = None,
    edge_cost: str | None = None,
) -> Given:
    """Return the graph that was asked for."""
    from syclsched import workloads
    from syclsched.frontends import Limits, Units, read_graph

    said = {
        "format": format, "max-tasks": max_tasks, "max-edges": max_edges, "max-file-mib": max_file_mib,
        "time-unit": time_unit, "communication-unit": communication_unit, "same-speed": same_speed or None,
        "task-cost": task_cost, "edge-cost": edge_cost,
    }  # fmt: skip
    if is_model(name):
        return _model(name, ready, said)
    if ready.pop("shape", None) is not None:
        raise ArgumentError(f"--shape does not belong to {name}", where="the command line", hint="It is for a model")
    if name in workloads.names():
        _refuse(said, name, "a graph from a file")
        return Given(build_workload(name, **ready).graph, from_file=False)
    if not Path(name).exists() and Path(name).suffix == "" and "/" not in name:
        raise ArgumentError(
            f"there is no ready graph and no file {name!r}",
            where="GRAPH",
            hint=f"Ready graphs: {', '.join(workloads.names())}. Or give a file: WfFormat, STG, DOT, GraphML, JSON",
        )
    _refuse(ready, name, "a ready graph")
    limits, units = Limits(), Units()
    return Given(
        read_graph(
            name,
            format=format,  # type: ignore[arg-type]  # what is none of them is refused there
            limits=Limits(
                file_bytes=limits.file_bytes if max_file_mib is None else max_file_mib << 20,
                tasks=limits.tasks if max_tasks is None else max_tasks,
                edges=limits.edges if max_edges is None else max_edges,
            ),
            units=Units(
                units.time_s if time_unit is None else time_unit, communication_unit, same_speed, task_cost, edge_cost
            ),
        ),
        from_file=True,
    )


def _model(name: str, ready: dict[str, Any], said: dict[str, Any]) -> Given:
    from syclsched.cli.models import read_given

    inputs, shapes, seed = (ready.pop(option, None) for option in ("input", "shape", "seed"))
    _refuse(ready, name, "a ready graph")
    _refuse(said, name, "a graph from a file")
    model = read_given(name, inputs, shapes, seed)
    return Given(model.specialised.graph, from_file=False, model=model)


def is_model(name: str) -> bool:
    """Return whether what was typed is the file of an ONNX model."""
    return Path(name).suffix.lower() == ".onnx"


def check_without(names: Sequence[str] | None, *, is_model: bool) -> None:
    """Refuse names of implementations that there are not, or that are to be left out of what is no model."""
    if not names:
        return
    if not is_model:
        raise ArgumentError("only ONNX models can do without implementations", where="--without")
    from syclsched.onnx.offering import check_names

    check_names(names, "--without")


def check_tasks(names: Iterable[str], graph: TaskGraph) -> None:
    """Refuse names of tasks that a graph does not have, before it is planned."""
    known = [task.name for task in graph.tasks]
    for name in names:
        if name not in known:
            near = get_close_matches(name, known, n=_NAMED) if len(known) <= _MOST_COMPARED else []
            some = list(dict.fromkeys([*near, *known[:_NAMED]]))[:_NAMED]
            more = f" and {len(known) - len(some):,} more" if len(known) > len(some) else ""
            raise ArgumentError(
                f"no task {name!r}",
                where=f"graph {graph.name!r}",
                hint=f"It has {', '.join(some)}{more}" if some else "It has none",
            )


def _refuse(options: dict[str, Any], name: str, what: str) -> None:
    for option, value in options.items():
        if value is not None:
            raise ArgumentError(
                f"--{option} does not belong to {name}", where="the command line", hint=f"It is for {what}"
            )
