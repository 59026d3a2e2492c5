# SPDX-License-Identifier: Apache-2.0
"""A directory of values: which memory spaces hold the current one of each piece, and who touches it there. Pure.

A *piece* is an array, or a segment of one. Its value is in one space or more, as in the coherence directories of
distributed shared memory [1]_: a task that writes it leaves one valid copy, a copy adds one. What is submitted is known
by a *stamp*, its lane and its place in that lane; as lanes work in order, of all that touches a buffer only the latest
of each lane counts.

References
----------
.. [1] C. Augonnet, S. Thibault, R. Namyst, P.-A. Wacrenier, "StarPU: a unified platform for task scheduling on
   heterogeneous multicore architectures", Concurrency and Computation: Practice and Experience 23(2), 2011, section on
   the data management library (MSI protocol).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

#: A lane, and the place of something in what was submitted to it, from 0.
Stamp = tuple[int, int]


class Buffer:
    """A piece in one space."""

    __slots__ = ("readers", "writer")

    def __init__(self) -> None:
        self.writer: Stamp | None = None
        self.readers: dict[int, int] = {}


class Directory:
    """The directory of one run."""

    def __init__(self, pieces: int, spaces: int) -> None:
        self.valid: list[list[int]] = [[] for _ in range(pieces)]
        self._buffers: list[list[Buffer | None]] = [[None] * spaces for _ in range(pieces)]

    def put(self, piece: int, space: int) -> None:
        """Note that a value lies in a space from the start."""
        self.valid[piece].append(space)

    def is_valid(self, piece: int, space: int) -> bool:
        """Return whether a space holds the current value, or will once what was submitted has ended."""
        return space in self.valid[piece]

    def before_reading(self, piece: int, space: int) -> Stamp | None:
        """Return what must have finished before the piece is read in a space; None if nothing must."""
        buffer = self._buffers[piece][space]
        return None if buffer is None else buffer.writer

    def before_writing(self, piece: int, space: int) -> list[Stamp]:
        """Return what must have finished before the piece is written in a space."""
        buffer = self._buffers[piece][space]
        if buffer is None:
            return []
        found = list(buffer.readers.items())
        if buffer.writer is not None:
            found.append(buffer.writer)
        return found

    def read(self, piece: int, space: int, stamp: Stamp) -> None:
        """Note that something which was submitted reads the piece in a space."""
        lane, place = stamp
        self._buffer(piece, space).readers[lane] = place

    def written(self, piece: int, space: int, stamp: Stamp) -> None:
        """Note that a task which was submitted writes the piece in a space: no other holds its value any more."""
        buffer = self._buffer(piece, space)
        buffer.writer = stamp
        buffer.readers.clear()
        self.valid[piece] = [space]

    def copied(self, piece: int, source: int, destination: int, stamp: Stamp) -> None:
        """Note that a copy from one space to another was submitted."""
        self.read(piece, source, stamp)
        buffer = self._buffer(piece, destination)
        buffer.writer = stamp
        buffer.readers.clear()
        self.valid[piece].append(destination)

    def left(self, pieces: Iterable[int], space: int) -> None:
        """Note that the memory of pieces in a space was given back."""
        for piece in pieces:
            self._buffers[piece][space] = None
            if space in self.valid[piece]:
                self.valid[piece].remove(space)

    def where(self, piece: int, favourite: int, is_done: Callable[[int, int], bool]) -> int | None:
        """Return a space in which the current value can be read now, a favourite if that is one; None if there is none."""
        writers = [(space, self.before_reading(piece, space)) for space in tuple(self.valid[piece])]
        there = [space for space, writer in writers if writer is None or is_done(*writer)]
        return next((space for space in there if space == favourite), there[0] if there else None)

    def users(self, pieces: Iterable[int], space: int) -> dict[int, int]:
        """Return the latest that touches any of some pieces in a space, by lane."""
        latest: dict[int, int] = {}
        for piece in pieces:
            buffer = self._buffers[piece][space]
            if buffer is None:
                continue
            for lane, place in self.before_writing(piece, space):
                if place > latest.get(lane, -1):
                    latest[lane] = place
        return latest

    def _buffer(self, piece: int, space: int) -> Buffer:
        buffer = self._buffers[piece][space]
        if buffer is None:
            buffer = self._buffers[piece][space] = Buffer()
        return buffer
