# SPDX-License-Identifier: Apache-2.0
"""Coherence directory: the memory spaces with a valid copy of each piece, and its last accesses. Pure.

A *piece* is an array, or a segment of one. As in the coherence directories of distributed shared memory [1]_, a write
leaves one valid copy and a copy adds one. A submitted command is identified by its *stamp*: its lane and its sequence
number in that lane. Lanes are in-order, so only the latest access of each lane to a buffer is kept.

References
----------
.. [1] C. Augonnet, S. Thibault, R. Namyst, P.-A. Wacrenier, "StarPU: a unified platform for task scheduling on
   heterogeneous multicore architectures", Concurrency and Computation: Practice and Experience 23(2), 2011, section on
   the data management library (MSI protocol).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

#: A lane, and the sequence number of a command in it, from 0.
Stamp = tuple[int, int]


class _LastAccesses:
    """The last accesses to a piece in one space."""

    __slots__ = ("readers", "writer")

    def __init__(self) -> None:
        self.writer: Stamp | None = None
        self.readers: dict[int, int] = {}


class CoherenceDirectory:
    """The coherence directory of one run."""

    def __init__(self, pieces: int, spaces: int) -> None:
        self.valid: list[list[int]] = [[] for _ in range(pieces)]
        self._buffers: list[list[_LastAccesses | None]] = [[None] * spaces for _ in range(pieces)]

    def put(self, piece: int, space: int) -> None:
        """Record that a space holds a valid copy from the start."""
        self.valid[piece].append(space)

    def is_valid(self, piece: int, space: int) -> bool:
        """Return whether a space holds the current value, or will once the submitted commands have completed."""
        return space in self.valid[piece]

    def read_dependency(self, piece: int, space: int) -> Stamp | None:
        """Return the command that must complete before the piece is read in a space; None if there is none."""
        buffer = self._buffers[piece][space]
        return None if buffer is None else buffer.writer

    def write_dependencies(self, piece: int, space: int) -> list[Stamp]:
        """Return the commands that must complete before the piece is written in a space."""
        buffer = self._buffers[piece][space]
        if buffer is None:
            return []
        found = list(buffer.readers.items())
        if buffer.writer is not None:
            found.append(buffer.writer)
        return found

    def read(self, piece: int, space: int, stamp: Stamp) -> None:
        """Record that a submitted command reads the piece in a space."""
        lane, place = stamp
        self._buffer(piece, space).readers[lane] = place

    def written(self, piece: int, space: int, stamp: Stamp) -> None:
        """Record that a submitted task writes the piece in a space, which invalidates all other copies."""
        buffer = self._buffer(piece, space)
        buffer.writer = stamp
        buffer.readers.clear()
        self.valid[piece] = [space]

    def copied(self, piece: int, source: int, destination: int, stamp: Stamp) -> None:
        """Record that a copy from one space to another was submitted."""
        self.read(piece, source, stamp)
        buffer = self._buffer(piece, destination)
        buffer.writer = stamp
        buffer.readers.clear()
        self.valid[piece].append(destination)

    def left(self, pieces: Iterable[int], space: int) -> None:
        """Record that the memory of pieces in a space was freed."""
        for piece in pieces:
            self._buffers[piece][space] = None
            if space in self.valid[piece]:
                self.valid[piece].remove(space)

    def where(self, piece: int, favourite: int, is_done: Callable[[int, int], bool]) -> int | None:
        """Return a space in which the current value can be read now, the favourite if possible, or None."""
        writers = [(space, self.read_dependency(piece, space)) for space in tuple(self.valid[piece])]
        readable = [space for space, writer in writers if writer is None or is_done(*writer)]
        return next((space for space in readable if space == favourite), readable[0] if readable else None)

    def users(self, pieces: Iterable[int], space: int) -> dict[int, int]:
        """Return, by lane, the sequence number of the last access to any of the pieces in a space."""
        latest: dict[int, int] = {}
        for piece in pieces:
            buffer = self._buffers[piece][space]
            if buffer is None:
                continue
            for lane, place in self.write_dependencies(piece, space):
                if place > latest.get(lane, -1):
                    latest[lane] = place
        return latest

    def _buffer(self, piece: int, space: int) -> _LastAccesses:
        buffer = self._buffers[piece][space]
        if buffer is None:
            buffer = self._buffers[piece][space] = _LastAccesses()
        return buffer
