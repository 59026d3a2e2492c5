# SPDX-License-Identifier: Apache-2.0
"""Parser of the Standard Task Graph Set (Tobita and Kasahara, Journal of Scheduling 5(5), 2002).

The first number is the count of tasks, without the dummy entry and exit tasks; a second one, the count of processors,
is ignored. Each task then has its number, its processing time, its count of predecessors, and the predecessors: their
numbers on the same line (no communication costs), or pairs of number and communication cost, on the same line or one
pair per line. Comments start with ``#``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from syclsched.errors import FormatError
from syclsched.frontends.assemble import ListedEdge, ListedTask, check_bytes, graph_of_edges
from syclsched.frontends.attributes import parse_number
from syclsched.frontends.graph_limits import Limits
from syclsched.frontends.graph_units import Units
from syclsched.model.graph import TaskGraph


@dataclass(slots=True)
class _StgReader:
    """The non-empty lines of the file as tokens."""

    lines: Iterator[tuple[int, list[str]]]
    name: str
    line: int = 0

    def following(self) -> list[str] | None:
        """Return the tokens of the next non-empty line; None at the end."""
        found = next(self.lines, None)
        if found is None:
            return None
        self.line = found[0]
        return found[1]

    def required(self, expected: str) -> list[str]:
        """Return the tokens of the next non-empty line; raise `FormatError` at the end."""
        tokens = self.following()
        if tokens is None:
            raise FormatError(f"the file ends here, expected {expected}", where=self.where)
        return tokens

    @property
    def where(self) -> str:
        """File name and line number, for error messages."""
        return f"{self.name}, line {self.line}"

    def integer(self, token: str, what: str) -> int:
        """Parse a token as a non-negative integer."""
        if not (token.isascii() and token.isdecimal()) or len(token) > 18:
            raise FormatError(f"{what} is {token[:40]!r}, expected a whole number", where=self.where)
        return int(token)


def parse_stg(text: str, *, name: str, where: str, limits: Limits, units: Units) -> TaskGraph:
    """Parse an STG file; tasks are named ``T0``, ``T1``, ... as in the set's documentation."""
    reader = _StgReader(_number_lines(text), where)
    header = reader.required("the count of tasks")
    count = reader.integer(header[0], "the count of tasks")
    if len(header) > 2:
        raise FormatError(f"{len(header)} numbers, expected the count of tasks alone", where=reader.where)
    limits.check_tasks(count, reader.where)
    tasks: list[ListedTask] = []
    edges: list[ListedEdge] = []
    lines: list[int] = []
    while (tokens := reader.following()) is not None:
        if len(tasks) == count + 2:
            raise FormatError(f"one task too many, expected {count} and two dummies", where=reader.where)
        tasks.append(_task(reader, tokens, edges, limits, units))
        lines.extend([reader.line] * (len(edges) - len(lines)))
    if len(tasks) < count:
        raise FormatError(f"{len(tasks)} tasks, expected {count} and two dummies", where=reader.where)
    return graph_of_edges(name, tasks, edges, where, lambda position: f"{where}, line {lines[position]}")


def _number_lines(text: str) -> Iterator[tuple[int, list[str]]]:
    for line, content in enumerate(text.splitlines(), 1):
        tokens = content.partition("#")[0].split()
        if tokens:
            yield line, tokens


def _task(reader: _StgReader, tokens: list[str], edges: list[ListedEdge], limits: Limits, units: Units) -> ListedTask:
    """Parse a task and append its incoming edges to ``edges``."""
    if len(tokens) < 3:
        raise FormatError(
            f"{len(tokens)} numbers, expected those of a task: number, processing time, count of predecessors",
            where=reader.where,
        )
    where = reader.where
    task = f"T{reader.integer(tokens[0], 'the task number')}"
    seconds = parse_number(tokens[1], "the processing time", where) * units.time_s
    count = reader.integer(tokens[2], "the count of predecessors")
    limits.check_edges(len(edges) + count, where)
    for before, communication in _predecessors(reader, tokens[3:], count):
        nbytes = check_bytes(
            parse_number(communication, "the communication cost", reader.where) * units.bytes, reader.where
        )
        edges.append(ListedEdge(f"T{reader.integer(before, 'the predecessor')}", task, nbytes))
    return ListedTask(task, units.cost(seconds), where)


def _predecessors(reader: _StgReader, rest: list[str], count: int) -> Iterator[tuple[str, str]]:
    """Yield each predecessor with its communication cost; all three notations are accepted."""
    if not rest:
        for _ in range(count):
            pair = reader.required("a predecessor with its communication cost")
            if len(pair) != 2:
                raise FormatError(
                    f"{len(pair)} numbers, expected a predecessor and its communication cost", where=reader.where
                )
            yield pair[0], pair[1]
    elif len(rest) == count:
        yield from ((before, "0") for before in rest)
    elif len(rest) == 2 * count:
        yield from zip(rest[::2], rest[1::2], strict=True)
    else:
        raise FormatError(
            f"{len(rest)} numbers follow, expected {count} predecessors, or {count} pairs with communication costs",
            where=reader.where,
        )
