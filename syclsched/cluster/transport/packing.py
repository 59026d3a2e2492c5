# SPDX-License-Identifier: Apache-2.0
"""Python values as pieces of messages, of which the data of arrays is not copied.

The pieces are a head, the pickled value without its arrays' data, and that data, each at a multiple of `_ALIGNMENT`.
"""

from __future__ import annotations

import pickle
import struct
from collections.abc import Sequence
from typing import Any, Final

#: Multiple of bytes at which arrays begin in a message.
_ALIGNMENT: Final = 64

#: Bytes of the caller's prefix, number of arrays, bytes of the pickled value.
_HEAD: Final = struct.Struct("<III")
_SIZE: Final = struct.Struct("<Q")


def packed(before: bytes, value: Any) -> list[memoryview]:
    """Return the pieces of a message: some bytes of the caller's, and a value."""
    from distributed.protocol.pickle import dumps

    found: list[pickle.PickleBuffer] = []
    text: bytes = dumps(value, buffer_callback=found.append)
    buffers = [each.raw() for each in found]
    sizes = b"".join(_SIZE.pack(each.nbytes) for each in buffers)
    head = b"".join((_HEAD.pack(len(before), len(buffers), len(text)), before, sizes, text))
    pieces = [memoryview(head)]
    end = len(head)
    for each in buffers:
        gap = -end % _ALIGNMENT
        if gap:
            pieces.append(memoryview(bytes(gap)))
        pieces.append(each)
        end += gap + each.nbytes
    return pieces


def before_of(message: memoryview) -> bytes:
    """Return the caller's bytes of a message."""
    length, _, _ = _HEAD.unpack_from(message)
    return bytes(message[_HEAD.size : _HEAD.size + length])


def value_of(message: memoryview) -> Any:
    """Return the value of a message; its arrays are views of the message."""
    length, count, text_bytes = _HEAD.unpack_from(message)
    sizes_begin = _HEAD.size + length
    text_begin = sizes_begin + count * _SIZE.size
    end = text_begin + text_bytes
    buffers: list[memoryview] = []
    for number in range(count):
        (size,) = _SIZE.unpack_from(message, sizes_begin + number * _SIZE.size)
        begin = end + -end % _ALIGNMENT
        end = begin + size
        buffers.append(message[begin:end])
    return pickle.loads(message[text_begin : text_begin + text_bytes], buffers=buffers)


def joined(pieces: Sequence[memoryview]) -> bytes:
    """Return pieces as one message."""
    return b"".join(pieces)
