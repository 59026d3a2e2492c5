# SPDX-License-Identifier: Apache-2.0
"""Large tensors lifted out of a serialised model before protobuf parses it, which would copy each of them twice.

Only what is plain is lifted: anything odd is left to protobuf, which then says what is wrong with it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

#: Raw data of at least so many bytes are lifted.
LEAST_BYTES: Final = 1 << 16
#: Fields that are looked at, in a message and in a tensor; a sound model has fewer.
_MOST_FIELDS: Final = 1_000_000
_MOST_IN_TENSOR: Final = 256

_GRAPH, _INITIALISER, _RAW_DATA = 7, 5, 9
_LENGTH_DELIMITED = 2


class _OddError(Exception):
    """What is not plain enough."""


class _Field(NamedTuple):
    number: int
    kind: int
    begin: int
    #: Of its content, where it has a length.
    start: int
    end: int


def lifted(data: memoryview) -> tuple[bytes, Mapping[int, memoryview]] | None:
    """Return a serialised ModelProto without the raw data of its large initialisers, and these."""
    try:
        graphs = [each for each in _fields(data, 0, len(data), _MOST_FIELDS) if each.number == _GRAPH]
        if len(graphs) != 1 or graphs[0].kind != _LENGTH_DELIMITED:
            return None
        (graph,) = graphs
        inner, taken = _without_raw_data(data, graph)
    except _OddError:
        return None
    if not taken:
        return None
    size = sum(map(len, inner))
    whole = [data[: graph.begin], _head(_GRAPH, size), *inner, data[graph.end :]]
    return b"".join(whole), taken


def _without_raw_data(data: memoryview, graph: _Field) -> tuple[list[memoryview | bytes], dict[int, memoryview]]:
    pieces: list[memoryview | bytes] = []
    taken: dict[int, memoryview] = {}
    copied, number = graph.start, -1
    for each in _fields(data, graph.start, graph.end, _MOST_FIELDS):
        if each.number != _INITIALISER:
            continue
        number += 1
        if each.kind != _LENGTH_DELIMITED:
            raise _OddError
        raw = _raw_data(data, each) if each.end - each.start >= LEAST_BYTES else None
        if raw is None:
            continue
        kept = (data[each.start : raw.begin], data[raw.end : each.end])
        pieces += [data[copied : each.begin], _head(_INITIALISER, len(kept[0]) + len(kept[1])), *kept]
        copied = each.end
        taken[number] = data[raw.start : raw.end]
    pieces.append(data[copied : graph.end])
    return pieces, taken


def _raw_data(data: memoryview, tensor: _Field) -> _Field | None:
    """Return the raw data of a tensor, if they are large and all there is of them."""
    try:
        found = [each for each in _fields(data, tensor.start, tensor.end, _MOST_IN_TENSOR) if each.number == _RAW_DATA]
    except _OddError:
        return None
    if len(found) != 1 or found[0].kind != _LENGTH_DELIMITED or found[0].end - found[0].start < LEAST_BYTES:
        return None
    return found[0]


def _fields(data: memoryview, start: int, end: int, most: int) -> Iterator[_Field]:
    """Go through the fields of a message."""
    at = start
    for _ in range(most):
        if at == end:
            return
        begin = at
        tag, at = _varint(data, at, end)
        number, kind = tag >> 3, tag & 7
        first = at
        if kind == 0:
            _, at = _varint(data, at, end)
        elif kind == _LENGTH_DELIMITED:
            size, first = _varint(data, at, end)
            at = first + size
        elif kind in (1, 5):
            at += 8 if kind == 1 else 4
        else:
            raise _OddError
        if at > end or not number:
            raise _OddError
        yield _Field(number, kind, begin, first, at)
    raise _OddError


def _varint(data: memoryview, at: int, end: int) -> tuple[int, int]:
    value = shift = 0
    while at < end and shift < 64:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
    raise _OddError


def _head(number: int, size: int) -> bytes:
    """Return how a field with a length begins."""
    found = bytearray([number << 3 | _LENGTH_DELIMITED])
    while size >= 0x80:
        found.append(size & 0x7F | 0x80)
        size >>= 7
    found.append(size)
    return bytes(found)
