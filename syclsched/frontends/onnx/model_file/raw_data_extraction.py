# SPDX-License-Identifier: Apache-2.0
"""Zero-copy extraction of large tensors from a serialised model before protobuf parses it.

Protobuf would copy each tensor twice. Only messages of the common form are handled; for all others protobuf parses the
whole model and reports its errors.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

#: Smallest raw data that is extracted, in bytes.
MIN_EXTRACTED_BYTES: Final = 1 << 16
#: Most fields scanned in a message and in a tensor; valid models have fewer.
_MOST_FIELDS: Final = 1_000_000
_MOST_IN_TENSOR: Final = 256

_GRAPH, _INITIALISER, _RAW_DATA = 7, 5, 9
_LENGTH_DELIMITED = 2


class _UnsupportedMessageError(Exception):
    """Raised for messages that are left to protobuf."""


class _Field(NamedTuple):
    number: int
    kind: int
    begin: int
    #: Bounds of the content of a length-delimited field.
    start: int
    end: int


def extract_raw_data(data: memoryview) -> tuple[bytes, Mapping[int, memoryview]] | None:
    """Return a serialised ModelProto without its large raw data, and the raw data by initialiser number."""
    try:
        graphs = [each for each in _fields(data, 0, len(data), _MOST_FIELDS) if each.number == _GRAPH]
        if len(graphs) != 1 or graphs[0].kind != _LENGTH_DELIMITED:
            return None
        (graph,) = graphs
        inner, taken = _without_raw_data(data, graph)
    except _UnsupportedMessageError:
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
            raise _UnsupportedMessageError
        raw = _raw_data(data, each) if each.end - each.start >= MIN_EXTRACTED_BYTES else None
        if raw is None:
            continue
        kept = (data[each.start : raw.begin], data[raw.end : each.end])
        pieces += [data[copied : each.begin], _head(_INITIALISER, len(kept[0]) + len(kept[1])), *kept]
        copied = each.end
        taken[number] = data[raw.start : raw.end]
    pieces.append(data[copied : graph.end])
    return pieces, taken


def _raw_data(data: memoryview, tensor: _Field) -> _Field | None:
    """Return a tensor's raw data field if it is large and the only one."""
    try:
        found = [each for each in _fields(data, tensor.start, tensor.end, _MOST_IN_TENSOR) if each.number == _RAW_DATA]
    except _UnsupportedMessageError:
        return None
    if len(found) != 1 or found[0].kind != _LENGTH_DELIMITED or found[0].end - found[0].start < MIN_EXTRACTED_BYTES:
        return None
    return found[0]


def _fields(data: memoryview, start: int, end: int, most: int) -> Iterator[_Field]:
    """Yield the fields of a message."""
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
            raise _UnsupportedMessageError
        if at > end or not number:
            raise _UnsupportedMessageError
        yield _Field(number, kind, begin, first, at)
    raise _UnsupportedMessageError


def _varint(data: memoryview, at: int, end: int) -> tuple[int, int]:
    value = shift = 0
    while at < end and shift < 64:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
    raise _UnsupportedMessageError


def _head(number: int, size: int) -> bytes:
    """Return the encoded tag and length of a length-delimited field."""
    found = bytearray([number << 3 | _LENGTH_DELIMITED])
    while size >= 0x80:
        found.append(size & 0x7F | 0x80)
        size >>= 7
    found.append(size)
    return bytes(found)
