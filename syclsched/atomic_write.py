# SPDX-License-Identifier: Apache-2.0
"""Atomic file writes: readers never see a partial file, and a full disk leaves the old content."""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from pathlib import Path


def write_atomically(
    path: Path, content: bytes, *, folders: bool = False, lasting: bool = False, private: bool = False
) -> None:
    """Write a file under a temporary name in its folder and rename it into place.

    ``lasting`` adds an fsync; a ``private`` file can be read by this user only.
    """
    path = Path(os.path.realpath(path))
    if path.exists() and not path.is_file():
        path.write_bytes(content)
        return
    if folders:
        path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            if lasting:
                file.flush()
                os.fsync(file.fileno())
        if not private:
            umask = os.umask(0)
            os.umask(umask)
            os.chmod(temporary, 0o666 & ~umask)
        os.replace(temporary, path)
    except BaseException:
        with suppress(FileNotFoundError):  # an interrupt came when it had been renamed
            os.unlink(temporary)
        raise
