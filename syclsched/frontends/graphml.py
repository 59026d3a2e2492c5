# SPDX-License-Identifier: Apache-2.0
"""Parser of GraphML task graphs with costs as data of nodes and edges.

It uses the standard library's expat, not `networkx.read_graphml`, which builds the whole tree first, reports no line
numbers, and lets the file define entities. Document type declarations are refused, so a file cannot define entities
that expand without bound or read another file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NoReturn
from xml.parsers import expat

from syclsched.errors import FormatError
from syclsched.frontends.assemble import ListedEdge, graph_of_edges
from syclsched.frontends.attributes import AttributeNames, edge_bytes, listed_task
from syclsched.frontends.graph_limits import Limits
from syclsched.frontends.graph_units import Units
from syclsched.model.graph import TaskGraph

#: Deepest accepted nesting of elements.
MAX_DEPTH = 100


@dataclass(slots=True)
class _Element:
    """A node or an edge under construction."""

    line: int
    name: str = ""
    before: str = ""
    after: str = ""
    data: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class _Key:
    """The declaration of a ``key`` element."""

    attribute: str
    domain: str
    default: str | None = None


def parse_graphml(data: bytes, *, name: str, where: str, limits: Limits, units: Units) -> TaskGraph:
    """Parse a GraphML file: nodes are tasks, edges with bytes are arrays, other edges only order tasks."""
    reader = _GraphMLReader(where, limits, AttributeNames(units.task_cost, units.edge_cost))
    reader.read(data)
    tasks = [
        listed_task(n.name, {**reader.defaults("node"), **n.data}, units, f"{where}, line {n.line}")
        for n in reader.nodes
    ]
    of_edges = reader.defaults("edge")
    edges = [
        ListedEdge(e.before, e.after, edge_bytes({**of_edges, **e.data}, units, f"{where}, line {e.line}"))
        for e in reader.edges
    ]
    return graph_of_edges(
        reader.title or name, tasks, edges, where, lambda position: f"{where}, line {reader.edges[position].line}"
    )


class _GraphMLReader:
    """Expat handlers that collect nodes and edges."""

    def __init__(self, where: str, limits: Limits, names: AttributeNames) -> None:
        self._where = where
        self._limits = limits
        self._names = names
        self._parser = expat.ParserCreate(namespace_separator="}")
        self._parser.buffer_text = True
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._parser.CharacterDataHandler = self._text
        self._parser.StartDoctypeDeclHandler = self._doctype
        self._path: list[str] = []
        self._keys: dict[str, _Key] = {}
        self._directed = False
        self._key: _Key | None = None
        self._attribute = ""
        self._element: _Element | None = None
        self._collected: list[str] | None = None
        self.title = ""
        self.nodes: list[_Element] = []
        self.edges: list[_Element] = []

    def read(self, data: bytes) -> None:
        """Parse the whole file."""
        try:
            self._parser.Parse(data, True)
        except expat.ExpatError as error:
            reason = expat.errors.messages.get(error.code, str(error))
            raise FormatError(
                f"it is not XML: {reason}, expected GraphML", where=f"{self._where}, line {error.lineno}"
            ) from None
        except (LookupError, ValueError) as error:  # an encoding that Python does not have
            raise FormatError(f"{error}, expected an encoding such as UTF-8", where=self._where) from None

    def defaults(self, domain: str) -> dict[str, str]:
        """Return the default attributes of nodes or edges."""
        found = {}
        for key in self._keys.values():
            known = self._known(key.attribute, domain)
            if key.default is not None and key.domain in (domain, "all") and known is not None:
                found[known] = key.default
        return found

    # --- expat handlers -----------------------------------------------------------------------------

    def _start(self, tag: str, attributes: Mapping[str, str]) -> None:
        self._path.append(tag.rpartition("}")[2])
        if len(self._path) > MAX_DEPTH:
            self._fail(f"elements are nested more than {MAX_DEPTH} deep")
        path = self._path
        if len(path) == 1 and path[0] != "graphml":
            self._fail(f"the document is <{path[0][:40]}>, expected <graphml>")
        if path == ["graphml", "key"]:
            self._declare(attributes)
        elif path == ["graphml", "graph"]:
            self._begin(attributes)
        elif path[:2] == ["graphml", "graph"]:
            self._inside(path[2:], attributes)
        elif path == ["graphml", "key", "default"]:
            self._collected = []

    def _end(self, _tag: str) -> None:
        path = self._path
        if self._collected is not None and path[-1] in ("data", "default") and len(path) == self._depth_of_text():
            text = "".join(self._collected).strip()
            if path[-1] == "default" and self._key is not None:
                self._key.default = text
            elif path[-1] == "data" and self._element is not None:
                self._element.data[self._attribute] = text
            self._collected = None
        path.pop()

    def _text(self, text: str) -> None:
        # Drawing programs nest elements in data; only the text outside of them counts.
        if self._collected is not None and len(self._path) == self._depth_of_text():
            self._collected.append(text)

    def _doctype(self, *_: object) -> None:
        self._fail("a document type declaration, expected none: it could define entities")

    # --- elements -----------------------------------------------------------------------------------

    def _depth_of_text(self) -> int:
        return 3 if self._path[1] == "key" else 4

    def _declare(self, attributes: Mapping[str, str]) -> None:
        identifier = self._required(attributes, "id")
        if identifier in self._keys:
            self._fail(f"key {identifier!r} is declared twice, expected unique ids")
        self._key = _Key(attributes.get("attr.name", ""), attributes.get("for", "all"))
        self._keys[identifier] = self._key

    def _begin(self, attributes: Mapping[str, str]) -> None:
        if self.nodes or self.title or self._directed:
            self._fail("a second graph, expected one only")
        if attributes.get("edgedefault") != "directed":
            self._fail(f"edgedefault is {attributes.get('edgedefault')!r}, expected 'directed'")
        self._directed = True
        self.title = attributes.get("id", "")

    def _inside(self, path: list[str], attributes: Mapping[str, str]) -> None:
        if path == ["node"]:
            self._element = _Element(self._parser.CurrentLineNumber, name=self._required(attributes, "id"))
            self.nodes.append(self._element)
            self._limits.check_tasks(len(self.nodes), self._here())
        elif path == ["edge"]:
            if attributes.get("directed", "true") != "true":
                self._fail("an edge without direction, expected directed='true'")
            self._element = _Element(
                self._parser.CurrentLineNumber,
                before=self._required(attributes, "source"),
                after=self._required(attributes, "target"),
            )
            self.edges.append(self._element)
            self._limits.check_edges(len(self.edges), self._here())
        elif path in (["node", "data"], ["edge", "data"]):
            self._begin_data(path[0], self._required(attributes, "key"))
        elif path in (["hyperedge"], ["node", "graph"], ["edge", "graph"]):
            self._fail(f"<{path[-1]}> in a <{self._path[-2]}>, expected nodes and edges of one plain graph")

    def _begin_data(self, domain: str, identifier: str) -> None:
        if identifier not in self._keys:
            self._fail(f"no key {identifier!r}, expected one that is declared")
        known = self._known(self._keys[identifier].attribute, domain)
        if known is not None:
            self._attribute, self._collected = known, []

    def _known(self, attribute: str, domain: str) -> str | None:
        return self._names.of_node(attribute) if domain == "node" else self._names.of_edge(attribute)

    def _required(self, attributes: Mapping[str, str], name: str) -> str:
        if name not in attributes:
            self._fail(f"<{self._path[-1]}> has no {name}, expected one")
        return attributes[name]

    def _here(self) -> str:
        return f"{self._where}, line {self._parser.CurrentLineNumber}"

    def _fail(self, what: str) -> NoReturn:
        raise FormatError(what, where=self._here())
