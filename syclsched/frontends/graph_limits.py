# SPDX-License-Identifier: Apache-2.0
"""Size limits of graph files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from syclsched.errors import FormatError, StorageError


@dataclass(frozen=True, slots=True)
class Limits:
    """Size limits; the defaults keep a hostile file from filling the memory of a small machine."""

    file_bytes: int = 128 << 20  # size of the file
    tasks: int = 200_000
    edges: int = 1_000_000  # edges, or references from tasks to files and arrays

    def check_tasks(self, count: int, where: str) -> None:
        """Raise `FormatError` if there are too many tasks."""
        _check(count, self.tasks, "tasks", where)

    def check_edges(self, count: int, where: str) -> None:
        """Raise `FormatError` if there are too many edges."""
        _check(count, self.edges, "edges", where)


def _check(count: int, most: int, what: str, where: str) -> None:
    if count > most:
        hint = f"If that is meant, raise the limit (--max-{what})"
        raise FormatError(f"more than {most:,} {what}", where=where, hint=hint)


def read_bytes(path: Path, limits: Limits) -> bytes:
    """Return the content of a file, checked against the size limit."""
    try:
        with open(path, "rb") as file:
            # A pipe reports no size; reading one byte more than allowed shows whether it is too large.
            data = file.read(limits.file_bytes + 1)
    except (OSError, ValueError) as error:  # a name with a NUL is a ValueError
        reason = getattr(error, "strerror", None) or error
        raise StorageError(f"cannot be read: {reason}", where=str(path), hint="Check the name") from error
    if len(data) > limits.file_bytes:
        raise FormatError(
            f"larger than {limits.file_bytes:,} bytes",
            where=str(path),
            hint="If that is meant, raise the limit (--max-file-mib)",
        )
    return data


def decode(data: bytes, where: str) -> str:
    """Decode UTF-8 text, with or without a byte-order mark."""
    try:
        text = data.decode("utf-8-sig")
        wrong = data.find(0)  # no text has it, and binary files do
    except UnicodeDecodeError as error:
        wrong = error.start
    if wrong < 0:
        return text
    line = data.count(b"\n", 0, wrong) + 1
    raise FormatError(
        f"byte 0x{data[wrong]:02x} is not UTF-8 text", where=f"{where}, line {line}", hint="Save it as UTF-8"
    )
