# SPDX-License-Identifier: Apache-2.0
"""How large a graph file may be before it is refused."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from syclsched.errors import FormatError, StorageError


@dataclass(frozen=True, slots=True)
class Limits:
    """What is refused as too large; the defaults keep a hostile file from filling the memory of a small machine.

    Parameters
    ----------
    file_bytes : int, optional
        Size of the file.
    tasks : int, optional
        Tasks in it.
    edges : int, optional
        Edges, or mentions of files and arrays by tasks.
    """

    file_bytes: int = 128 << 20
    tasks: int = 200_000
    edges: int = 1_000_000

    def check_tasks(self, count: int, where: str) -> None:
        """Raise `FormatError` if there are too many tasks."""
        if count > self.tasks:
            raise FormatError(
                f"more than {self.tasks:,} tasks", where=where, hint="If that is meant, raise the limit (--max-tasks)"
            )

    def check_edges(self, count: int, where: str) -> None:
        """Raise `FormatError` if there are too many edges."""
        if count > self.edges:
            raise FormatError(
                f"more than {self.edges:,} edges", where=where, hint="If that is meant, raise the limit (--max-edges)"
            )


def read_bytes(path: Path, limits: Limits) -> bytes:
    """Return what is in a file.

    Parameters
    ----------
    path : Path
        Which.
    limits : Limits
        How large it may be.

    Returns
    -------
    bytes
        All of it.

    Raises
    ------
    StorageError
        If it cannot be read.
    FormatError
        If it is too large.
    """
    try:
        with open(path, "rb") as file:
            # A pipe has no size to look at: one byte more than allowed is enough to know.
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
    """Return UTF-8 text, with or without a byte-order mark.

    Raises
    ------
    FormatError
        If it is not UTF-8; names the line.
    """
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise FormatError(
            f"byte 0x{data[error.start]:02x} is not UTF-8 text", where=f"{where}, line {line}", hint="Save it as UTF-8"
        ) from None
