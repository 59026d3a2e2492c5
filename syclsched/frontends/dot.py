# SPDX-License-Identifier: Apache-2.0
"""Parser of DOT (Graphviz) task graphs with costs as attributes.

The whole language is supported: subgraphs, attribute defaults, chains of edges, ports, quoted and HTML strings,
comments. The reasons for not using a library are in docs/dependencies.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise

from syclsched.frontends.assemble import ListedEdge, graph_of_edges
from syclsched.frontends.attributes import AttributeNames, edge_bytes, listed_task
from syclsched.frontends.dotlexer import Lexer, Token
from syclsched.frontends.graph_limits import Limits
from syclsched.frontends.graph_units import Units
from syclsched.model.graph import TaskGraph

#: Deepest nesting of subgraphs; real graphs stay far below it.
MAX_DEPTH = 40

_Attributes = Mapping[str, str]


@dataclass(slots=True)
class _DeclaredNode:
    position: int
    defaults: _Attributes
    own: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class _Edge:
    before: str
    after: str
    position: int
    attributes: dict[str, str]


@dataclass(slots=True)
class _Scope:
    """The attribute defaults and the members of one pair of braces."""

    # The default mappings are replaced, never mutated: each node keeps the defaults at its creation.

    node: _Attributes
    edge: _Attributes
    members: dict[str, None] = field(default_factory=dict)


def parse_dot(text: str, *, name: str, where: str, limits: Limits, units: Units) -> TaskGraph:
    """Parse a DOT file: nodes are tasks, edges with bytes are arrays, other edges only order tasks."""
    lexer = Lexer(text, where)
    parser = _Parser(lexer, limits, AttributeNames(units.task_cost, units.edge_cost))
    title = parser.parse()
    tasks = [
        listed_task(node, {**found.defaults, **found.own}, units, lexer.where(found.position))
        for node, found in parser.nodes.items()
    ]
    edges = [
        ListedEdge(e.before, e.after, edge_bytes(e.attributes, units, lexer.where(e.position)) if e.attributes else 0)
        for e in parser.edges
    ]
    return graph_of_edges(
        title or name, tasks, edges, where, lambda position: lexer.where(parser.edges[position].position)
    )


class _Parser:
    """Recursive-descent parser of https://graphviz.org/doc/info/lang.html with a depth limit."""

    def __init__(self, lexer: Lexer, limits: Limits, names: AttributeNames) -> None:
        self._lexer = lexer
        self._limits = limits
        self._names = names
        self._strict = False
        self._merged: dict[tuple[str, str], _Edge] = {}
        self.nodes: dict[str, _DeclaredNode] = {}
        self.edges: list[_Edge] = []

    def parse(self) -> str:
        """Parse the whole file; return the graph's name, which may be empty."""
        lexer = self._lexer
        self._strict = lexer.accept_word("strict")
        if lexer.accept_word("graph"):
            lexer.fail("a graph without directions, expected a digraph")
        if not lexer.accept_word("digraph"):
            lexer.fail(f"{lexer.shown()}, expected digraph")
        title = lexer.next().text if lexer.peek.kind == "id" else ""
        lexer.expect("{")
        self._statements(_Scope({}, {}), 0)
        if lexer.peek.kind != "end":
            lexer.fail(f"{lexer.shown()}, expected the end of the file: one digraph only")
        return title

    def _statements(self, scope: _Scope, depth: int) -> None:
        """Parse statements up to and including the closing brace."""
        lexer = self._lexer
        while not lexer.accept("}"):
            if not lexer.accept(";"):
                self._statement(scope, depth)

    def _statement(self, scope: _Scope, depth: int) -> None:
        lexer = self._lexer
        for word in ("graph", "node", "edge"):
            if lexer.accept_word(word):
                self._defaults(scope, word)
                return
        start = lexer.peek
        left = self._operand(scope, depth)
        if left is None:  # an assignment of a graph attribute
            return
        if lexer.peek.text not in ("->", "--") or lexer.peek.kind != "mark":
            attributes = self._attribute_lists(of_node=True)
            if start.kind == "id" and not self._is_subgraph(start):
                self.nodes[start.text].own.update(attributes)
            elif attributes:
                lexer.fail("attributes after a subgraph, expected a statement")
            return
        operands = [left]
        while lexer.peek.kind == "mark" and lexer.peek.text in ("->", "--"):
            if lexer.next().text == "--":
                lexer.fail("an edge without direction (--), expected ->")
            right = self._operand(scope, depth)
            if right is None:
                lexer.fail("an assignment, expected a node or a subgraph")
            operands.append(right or [])
        attributes = {**scope.edge, **self._attribute_lists(of_node=False)}
        for before, after in pairwise(operands):
            self._connect(before, after, start, attributes)

    def _connect(self, before: list[str], after: list[str], start: Token, attributes: dict[str, str]) -> None:
        if (count := len(self.edges) + len(before) * len(after)) > self._limits.edges:
            self._limits.check_edges(count, self._lexer.where(start.position))
        for first in before:
            for second in after:
                if self._strict and (first, second) in self._merged:
                    known = self._merged[first, second]
                    known.attributes = {**known.attributes, **attributes}
                    continue
                edge = _Edge(first, second, start.position, attributes)
                self.edges.append(edge)
                if self._strict:
                    self._merged[first, second] = edge

    def _defaults(self, scope: _Scope, word: str) -> None:
        if self._lexer.peek.text != "[":
            self._lexer.fail(f"{self._lexer.shown()}, expected [ after {word}")
        found = self._attribute_lists(of_node=word == "node")
        if word == "node":
            scope.node = {**scope.node, **found}
        elif word == "edge":
            scope.edge = {**scope.edge, **found}

    def _operand(self, scope: _Scope, depth: int) -> list[str] | None:
        """Parse a node or a subgraph; return its nodes, or None after an assignment."""
        lexer = self._lexer
        if (lexer.peek.kind == "mark" and lexer.peek.text == "{") or self._is_subgraph(lexer.peek):
            return self._subgraph(scope, depth + 1)
        if lexer.peek.kind != "id":
            lexer.fail(f"{lexer.shown()}, expected a statement or }}")
        token = lexer.next()
        if lexer.accept("="):
            lexer.identifier("a value")
            return None
        for _ in range(2):
            if lexer.accept(":"):
                lexer.identifier("a port")
        self._node(token, scope)
        return [token.text]

    def _is_subgraph(self, token: Token) -> bool:
        return token.kind == "id" and not token.quoted and token.text.lower() == "subgraph"

    def _subgraph(self, scope: _Scope, depth: int) -> list[str]:
        lexer = self._lexer
        if depth > MAX_DEPTH:
            lexer.fail(f"subgraphs are nested more than {MAX_DEPTH} deep")
        if lexer.accept_word("subgraph") and lexer.peek.kind == "id":
            lexer.next()
        lexer.expect("{")
        inner = _Scope(scope.node, scope.edge)
        self._statements(inner, depth)
        scope.members.update(inner.members)
        return list(inner.members)

    def _node(self, token: Token, scope: _Scope) -> None:
        scope.members[token.text] = None
        if token.text not in self.nodes:
            self.nodes[token.text] = _DeclaredNode(token.position, scope.node)
            if len(self.nodes) > self._limits.tasks:  # line numbers are computed only for an error
                self._limits.check_tasks(len(self.nodes), self._lexer.where(token.position))

    def _attribute_lists(self, *, of_node: bool) -> dict[str, str]:
        lexer = self._lexer
        found: dict[str, str] = {}
        while lexer.accept("["):
            while not lexer.accept("]"):
                key = lexer.identifier("an attribute")
                value = lexer.identifier("a value") if lexer.accept("=") else "true"
                known = self._names.of_node(key) if of_node else self._names.of_edge(key)
                if known is not None:
                    found[known] = value
                if not lexer.accept(","):
                    lexer.accept(";")
        return found
