# SPDX-License-Identifier: Apache-2.0
"""Status files of processes, in a folder of the user's runtime directory to which no other user can write.

A file is named by its process, so that the files of processes that have ended can be found and removed.
"""

from __future__ import annotations

import os
import stat
import warnings
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from syclsched.atomic_write import write_atomically
from syclsched.errors import FormatError, StorageError
from syclsched.folder_trust import make_private_folder, why_untrusted
from syclsched.model.text.json_serialisation import from_json, to_json
from syclsched.monitoring.process_identity import ProcessIdentity
from syclsched.monitoring.status import ProcessStatus

_SUFFIX: Final = ".json"
#: Upper bound of a file's size; real ones have some kilobytes, and a few hundred with many lanes.
MAX_FILE_BYTES: Final = 4 << 20
_HINT: Final = "Set XDG_RUNTIME_DIR to a folder that belongs to you and that nobody else can write to"


@dataclass(frozen=True, slots=True)
class StatusFiles:
    """Result of reading the status files."""

    processes: tuple[ProcessStatus, ...]  # by their number
    unreadable: tuple[str, ...]  # why files were left out, one text a file


def status_folder() -> Path:
    """Return the folder of status files, which need not exist.

    Raises
    ------
    StorageError
        If others could have put files there.
    """
    import platformdirs

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # without XDG_RUNTIME_DIR there is a folder, too
        try:
            folder = Path(platformdirs.user_runtime_dir("syclsched", appauthor=False))
        except OSError as error:
            raise StorageError(
                f"no folder for status files: {error.strerror or error}", where="monitoring", hint=_HINT
            ) from error
    reason = why_untrusted(folder)
    if reason is not None:
        raise StorageError(f"status files are not safe there: {reason}", where=str(folder), hint=_HINT)
    return folder


class StatusFile:
    """The status file of this process."""

    def __init__(self) -> None:
        folder = status_folder()
        try:
            make_private_folder(folder)
        except OSError as error:
            raise _not_written(folder, error) from error
        _remove_files_of_ended(folder)
        self.path = folder / f"{ProcessIdentity.own()}{_SUFFIX}"

    def write(self, status: ProcessStatus) -> None:
        """Replace the file's content; raise `StorageError` if it cannot be written."""
        try:
            write_atomically(self.path, to_json(status, indent=None).encode(), private=True)
        except OSError as error:
            raise _not_written(self.path, error) from error

    def remove(self) -> None:
        """Remove the file."""
        with suppress(OSError):
            self.path.unlink()


def read_status_files() -> StatusFiles:
    """Read the status files of all processes that run, and remove those of processes that have ended.

    Raises
    ------
    StorageError
        If others could have put files into the folder.
    """
    folder = status_folder()
    _remove_files_of_ended(folder)
    processes, unreadable = [], []
    for path, identity in sorted(_files(folder), key=lambda found: found[1].pid):
        if path.suffix != _SUFFIX or not identity.is_here:
            continue
        try:
            processes.append(from_json(ProcessStatus, _read(path), where=path.name))
        except FileNotFoundError:
            continue  # the process has just ended
        except FormatError as error:
            unreadable.append(f"{path.name}: {error.what}")
        except OSError as error:
            unreadable.append(f"{path.name}: {error.strerror or error}")
    return StatusFiles(tuple(processes), tuple(unreadable))


# --- inside ---------------------------------------------------------------------------------------


def _files(folder: Path) -> Iterator[tuple[Path, ProcessIdentity]]:
    """Yield the status files, and those that were being written when their process was killed, with the process."""
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        return
    except OSError as error:
        raise StorageError(
            f"cannot be read: {error.strerror or error}", where=str(folder), hint="Check its permissions"
        ) from error
    for name in names:
        identity = ProcessIdentity.parse(name.lstrip(".").partition(".")[0])
        if identity is not None:
            yield folder / name, identity


def _remove_files_of_ended(folder: Path) -> None:
    for path, identity in _files(folder):
        if identity.is_here and not identity.is_alive:
            with suppress(OSError):
                path.unlink()


def _read(path: Path) -> bytes:
    """Return the content of a file of this user; raise `FormatError` for anything else of that name."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise FormatError("not a file", where=path.name)
        if status.st_uid != os.geteuid():
            raise FormatError("it belongs to another user", where=path.name)
        if status.st_size > MAX_FILE_BYTES:
            raise FormatError(f"{status.st_size} bytes, a status has {MAX_FILE_BYTES} at most", where=path.name)
        return file.read(MAX_FILE_BYTES + 1)


def _not_written(path: Path, error: OSError) -> StorageError:
    return StorageError(f"cannot be written: {error.strerror or error}", where=str(path), hint=_HINT)
