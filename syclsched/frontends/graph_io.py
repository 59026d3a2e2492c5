# SPDX-License-Identifier: Apache-2.0
"""Reading and writing of graph files, with detection of the format."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal, get_args

from syclsched.errors import FormatError, StorageError, did_you_mean
from syclsched.frontends.assemble import quoted_name
from syclsched.frontends.dot import parse_dot
from syclsched.frontends.dotlexer import skip
from syclsched.frontends.graph_limits import Limits, decode, read_bytes
from syclsched.frontends.graph_units import Units
from syclsched.frontends.graphfile import GRAPH_FORMAT, graph_text, parse_graph_file
from syclsched.frontends.graphml import parse_graphml
from syclsched.frontends.stg import parse_stg
from syclsched.frontends.wfformat import parse_wfformat
from syclsched.model.graph import TaskGraph
from syclsched.model.plan import PLAN_FORMATS
from syclsched.model.text.json_serialisation import from_json

GraphFormat = Literal["json", "wfformat", "stg", "dot", "graphml"]

_SUFFIXES: dict[str, GraphFormat | Literal["any-json"]] = {
    ".stg": "stg", ".dot": "dot", ".gv": "dot", ".graphml": "graphml", ".json": "any-json",
}  # fmt: skip

#: Bytes of a file that format detection reads.
_HEAD = 1 << 16


@dataclass(frozen=True, slots=True)
class _GraphDocument:
    """The fields that distinguish the JSON formats."""

    document_name: ClassVar[str] = "a graph as JSON: 'format': 'syclsched-graph/1', or WfFormat"
    __pydantic_config__: ClassVar[dict[str, object]] = {"extra": "ignore"}

    format: str | None = None
    schemaVersion: str | None = None


def read_graph(
    path: str | Path, *, format: GraphFormat | None = None, limits: Limits | None = None, units: Units | None = None
) -> TaskGraph:
    """Read a task graph from a file; nothing in the file is executed.

    Parameters
    ----------
    path : str or Path
        A file in WfFormat, STG, DOT, GraphML or this package's own JSON.
    format : str, optional
        ``wfformat``, ``stg``, ``dot``, ``graphml`` or ``json``; by default it follows from the file's name, else
        from its content.
    limits : Limits, optional
        Largest sizes that are read; see `syclsched.frontends.Limits`.
    units : Units, optional
        What numbers without a unit mean; see `syclsched.frontends.Units`.

    Returns
    -------
    TaskGraph
        A graph of tasks that have costs instead of code.

    Raises
    ------
    FormatError, StorageError
        If the file is malformed or too large, or cannot be read.

    Examples
    --------
    >>> from pathlib import Path
    >>> import syclsched
    >>> written = Path("three.dot").write_text("digraph three { a [cost=1]; b [cost=2]; c [cost=3]; a -> c; b -> c }")
    >>> graph = syclsched.read_graph("three.dot")
    >>> [task.name for task in graph.tasks]
    ['a', 'b', 'c']
    """
    limits = limits or Limits()
    return parse_graph(read_bytes(Path(path), limits), where=str(path), format=format, limits=limits, units=units)


def parse_graph(
    data: bytes,
    *,
    where: str,
    format: GraphFormat | None = None,
    limits: Limits | None = None,
    units: Units | None = None,
) -> TaskGraph:
    """Parse the content of a graph file; see `read_graph`."""
    limits, units = limits or Limits(), units or Units()
    name = Path(where).stem[:512] or "graph"
    if format is not None and format not in get_args(GraphFormat):
        known = get_args(GraphFormat)
        raise FormatError(
            f"no format {format!r}", where=where, hint=f"{did_you_mean(format, known)}There are {', '.join(known)}"
        )
    kind = format or _SUFFIXES.get(Path(where).suffix.lower()) or _sniff(data, where)
    if kind not in ("graphml", "dot") and (units.task_cost is not None or units.edge_cost is not None):
        raise FormatError(
            f"files of format {kind.removeprefix('any-')} have no attributes to take costs from",
            where=where,
            hint="--task-cost and --edge-cost are for DOT and GraphML",
        )
    if kind == "graphml":
        return parse_graphml(data, name=name, where=where, limits=limits, units=units)
    text = decode(data, where)
    if kind == "stg":
        return parse_stg(text, name=name, where=where, limits=limits, units=units)
    if kind == "dot":
        return parse_dot(text, name=name, where=where, limits=limits, units=units)
    encoded = text.encode()
    marks = _GraphDocument() if kind == "json" else from_json(_GraphDocument, encoded, where=where)
    if kind == "json" or (kind == "any-json" and marks.format == GRAPH_FORMAT):
        return parse_graph_file(encoded, name=name, where=where, limits=limits, units=units)
    if marks.schemaVersion is None and marks.format in PLAN_FORMATS:
        raise FormatError(
            "it is a plan, not a graph", where=where, hint="Simulate it, without --platform: it has its own"
        )
    if marks.schemaVersion is None:
        raise FormatError(
            f"at format: it is {quoted_name(marks.format or 'missing')}, expected {GRAPH_FORMAT!r}, or WfFormat's "
            "schemaVersion",
            where=where,
        )
    return parse_wfformat(encoded, marks.schemaVersion, name=name, where=where, limits=limits, units=units)


def write_graph(graph: TaskGraph, path: str | Path) -> None:
    """Write a graph of cost-only tasks to a file for `read_graph`.

    Parameters
    ----------
    graph : TaskGraph
        A graph whose tasks have costs instead of code.
    path : str or Path
        The file, in this package's own JSON.

    Raises
    ------
    StorageError
        If the file cannot be written.

    Examples
    --------
    >>> from pathlib import Path
    >>> import syclsched
    >>> written = Path("two.dot").write_text("digraph two { a [cost=1]; b [cost=2]; a -> b [bytes=8] }")
    >>> syclsched.write_graph(syclsched.read_graph("two.dot"), "two.json")
    >>> len(syclsched.read_graph("two.json"))
    2
    """
    text = graph_text(graph)
    try:
        Path(path).write_text(text, encoding="utf-8")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise StorageError(
            f"cannot be written: {reason}", where=str(path), hint="Choose a folder you can write to"
        ) from error


def _sniff(data: bytes, where: str) -> GraphFormat | Literal["any-json"]:
    head = data[:_HEAD].decode("utf-8-sig", errors="replace")
    start = head.lstrip()
    if start.startswith("{"):
        return "any-json"
    if start.startswith("<"):
        return "graphml"
    words = head[skip(head, 0) :]
    if words[:1].isdecimal():
        return "stg"
    if words.lower().startswith(("strict", "digraph", "graph")):
        return "dot"
    raise FormatError(
        "it is none of the formats known here, expected JSON, GraphML, DOT or STG",
        where=where,
        hint="If it is one of them, name the file .json, .graphml, .dot or .stg",
    )
