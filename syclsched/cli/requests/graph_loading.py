# SPDX-License-Identifier: Apache-2.0
"""Loading of a command's graph: a ready graph by name, an ONNX model, or a graph file."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

from syclsched.cli.options import FileOptions, build_workload, unknown_graph
from syclsched.cli.output_files import read_text
from syclsched.errors import ArgumentError

if TYPE_CHECKING:
    from syclsched.cli.requests.onnx_models import ModelWithInputs
    from syclsched.model.graph import TaskGraph

#: Number of tasks named in an error message, and maximum graph size for finding similar names.
_NAMED, _MOST_COMPARED = 6, 10_000


@dataclass(frozen=True, slots=True)
class LoadedGraph:
    """A loaded graph."""

    graph: TaskGraph
    from_file: bool  # True if it has costs instead of code: it cannot be timed or run
    model: ModelWithInputs | None = None  # the ONNX model it was made from


def load_graph(name: str, ready: dict[str, Any], file: FileOptions) -> LoadedGraph:
    """Return the graph that the user named."""
    from syclsched import workloads
    from syclsched.frontends import Limits, Units, read_graph

    said = file.given()
    if is_model(name):
        return _model(name, ready, said)
    _refuse({option: ready.pop(option, None) for option in ("shape", "bucket")}, name, "a model")
    if name in workloads.names():
        _refuse(said, name, "a graph from a file")
        return LoadedGraph(build_workload(name, **ready).graph, from_file=False)
    if not Path(name).exists() and Path(name).suffix == "" and "/" not in name:
        raise unknown_graph(name, "ONNX, WfFormat, STG, DOT, GraphML, JSON")
    _refuse(ready, name, "a ready graph")
    limits, units = Limits(), Units()
    return LoadedGraph(
        read_graph(
            name,
            format=file.format,  # type: ignore[arg-type]  # validated there
            limits=Limits(
                file_bytes=limits.file_bytes if file.max_file_mib is None else file.max_file_mib << 20,
                tasks=limits.tasks if file.max_tasks is None else file.max_tasks,
                edges=limits.edges if file.max_edges is None else file.max_edges,
            ),
            units=Units(
                units.time_s if file.time_unit is None else file.time_unit,
                file.communication_unit,
                file.same_speed,
                file.task_cost,
                file.edge_cost,
            ),
        ),
        from_file=True,
    )


def _model(name: str, ready: dict[str, Any], said: dict[str, Any]) -> LoadedGraph:
    from syclsched.cli.requests.onnx_models import read_model_with_inputs

    inputs, shapes, seed, buckets = (ready.pop(option, None) for option in ("input", "shape", "seed", "bucket"))
    _refuse(ready, name, "a ready graph")
    _refuse(said, name, "a graph from a file")
    model = read_model_with_inputs(name, inputs, shapes, seed, buckets)
    return LoadedGraph(model.specialised.graph, from_file=False, model=model)


def is_model(name: str) -> bool:
    """Return whether an argument is the file name of an ONNX model."""
    return Path(name).suffix.lower() == ".onnx"


def check_without(names: Sequence[str] | None, *, is_model: bool) -> None:
    """Raise `ArgumentError` for unknown implementations, and for graphs that are not ONNX models."""
    if not names:
        return
    if not is_model:
        raise ArgumentError("only ONNX models support this option", where="--without")
    from syclsched.onnx.tuning.implementations import check_names

    check_names(names, "--without")


def check_shown(output: Path | None, top: int, labels: Path | None, *, is_model: bool) -> list[str] | None:
    """Raise `ArgumentError` for options of model outputs that do not apply; return the lines of the file of labels."""
    if not is_model and (output is not None or top or labels is not None):
        raise ArgumentError("--output, --top and --labels are for ONNX models", where="the command line")
    if output is not None and output.suffix != ".npz":
        raise ArgumentError("outputs are written as .npz", where=f"--output {output}")
    return None if labels is None else read_text(labels).splitlines()


def check_tasks(names: Iterable[str], graph: TaskGraph) -> None:
    """Raise `ArgumentError` for names of tasks that the graph does not have, before it is planned."""
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
