# SPDX-License-Identifier: Apache-2.0
"""OpenCL drivers of the machine, asked for their devices in a process of their own before this process loads them.

The OpenCL loader opens every library that ``OCL_ICD_FILENAMES`` and the vendor files (``/etc/OpenCL/vendors/*.icd``, or
those in the folder ``OCL_ICD_VENDORS``) name. Some drivers end the process where they do not like the machine: PoCL 6
does so in a container without ``/sys``. Such a driver is kept out. The answers of the others are kept on disk.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from syclsched.atomic_write import write_atomically
from syclsched.folder_trust import make_private_folder, may_load_from
from syclsched.oneapi import opencl_query
from syclsched.oneapi.cache_folder import cache_root
from syclsched.oneapi.environment import ICD_VARIABLE, VENDORS_VARIABLE

#: A folder without vendor files, for a loader that is to read none.
NO_VENDOR_FILES = str(Path(__file__).parent)

_VENDOR_FOLDER = Path("/etc/OpenCL/vendors")
_TIMEOUT_S = 60.0
_LONGEST_OUTPUT = 300
_CHILD = f"import json, sys; sys.path[:] = json.loads(sys.argv[1]); from {opencl_query.__name__} import main; main()"


@dataclass(frozen=True, slots=True)
class DriverDevice:
    """A device as its OpenCL driver describes it."""

    name: str
    platform: str
    version: str  # of OpenCL
    driver: str  # the driver's own version
    spirv: str  # versions of SPIR-V that it takes; empty if none
    usm: bool  # whether it has unified shared memory


@dataclass(frozen=True, slots=True)
class Driver:
    """An OpenCL driver, the file or variable that names it, and its answer."""

    library: str  # as it is named: a path, or a name for the dynamic linker
    named_by: str  # a vendor file, or a variable
    devices: tuple[DriverDevice, ...] = ()
    failure: str | None = None  # why it shows no device, if it failed
    crashes: bool = False  # whether a process that loads it ends, or hangs


def named_drivers(own: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Return the drivers that a user's environment and the vendor files name, in the loader's order, with their origin.

    A driver that is named twice counts once, as it does for the loader.
    """
    listed = [(each, ICD_VARIABLE) for each in own.get(ICD_VARIABLE, "").split(":") if each]
    folder = Path(own[VENDORS_VARIABLE]) if own.get(VENDORS_VARIABLE) else _VENDOR_FOLDER
    first: dict[str, tuple[str, str]] = {}
    for library, origin in (*listed, *_vendor_files(folder)):
        first.setdefault(os.path.realpath(library) if "/" in library else library, (library, origin))
    return tuple(first.values())


def _vendor_files(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield the drivers named by a folder's vendor files, sorted, and the files."""
    for file in sorted(folder.glob("*.icd")):
        try:
            library = file.read_text(encoding="utf-8", errors="surrogateescape").rstrip("\n")
        except OSError:
            continue  # the loader skips it, too
        if library:
            yield library, str(file)


def ask(
    named: Iterable[tuple[str, str]], loader: Sequence[str], known: Iterable[str | None] = (), *, refresh: bool = False
) -> tuple[Driver, ...]:
    """Ask the drivers for their devices, each in a process of its own, or return the kept answers.

    ``loader`` are the libraries of the OpenCL loader, in loading order; without a loader nothing can be asked. The
    ``known`` libraries, which come with the pinned packages, are left out.
    """
    left_out = {os.path.realpath(each) for each in known if each is not None}
    wanted = [(library, origin) for library, origin in named if os.path.realpath(library) not in left_out]
    return tuple(_ask_one(*each, loader, refresh) for each in wanted) if loader else ()


def guard_file() -> Path:
    """Return the marker file that exists while a process loads such drivers (see `crash_marker`)."""
    return _folder() / "loading.running"


def _folder() -> Path:
    return cache_root() / "opencl-drivers"


def _ask_one(library: str, origin: str, loader: Sequence[str], refresh: bool) -> Driver:
    path = _folder() / f"{hashlib.sha256(json.dumps([library, *loader]).encode()).hexdigest()[:32]}.json"
    keeps = may_load_from(path.parent)
    kept = _recall(path) if keeps and not refresh else None
    if kept is not None:
        return Driver(library, origin, kept)
    answer, failure = _query(library, loader)
    if answer is None or "devices" not in answer:
        return Driver(library, origin, (), failure or str((answer or {}).get("failure")), failure is not None)
    if keeps:
        _keep(path, answer)
    return Driver(library, origin, tuple(DriverDevice(**each) for each in answer["devices"]))


def _query(library: str, loader: Sequence[str]) -> tuple[dict[str, Any] | None, str | None]:
    """Return a driver's answer, and how the process that asked it ended if it gave none."""
    command = [sys.executable, "-c", _CHILD, *map(json.dumps, (sys.path, library, list(loader)))]
    environ = {**os.environ, ICD_VARIABLE: library, VENDORS_VARIABLE: NO_VENDOR_FILES}
    try:
        ended = subprocess.run(
            command, env=environ, capture_output=True, text=True, errors="replace", timeout=_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired:
        return None, f"it gave no answer within {_TIMEOUT_S:.0f} s"
    for line in reversed(ended.stdout.splitlines()):
        try:
            document = json.loads(line)
        except ValueError:
            continue  # a driver's own output
        if isinstance(document, dict):
            return document, None
    said = " ".join(f"{ended.stdout} {ended.stderr}".split())[-_LONGEST_OUTPUT:]
    return None, f"it ended the process that loaded it ({_cause(ended.returncode)})" + (f": {said}" if said else "")


def _cause(code: int) -> str:
    try:
        return signal.Signals(-code).name if code < 0 else f"exit code {code}"
    except ValueError:
        return f"signal {-code}"


def _keep(path: Path, answer: Mapping[str, Any]) -> None:
    try:
        make_private_folder(path.parent)
        write_atomically(path, json.dumps({**answer, "state": _state(answer["file"])}).encode())
    except OSError:
        return  # with a read-only or full cache every process asks


def _recall(path: Path) -> tuple[DriverDevice, ...] | None:
    """Return a kept answer; None if there is none, or the driver's file has changed."""
    try:
        kept = json.loads(path.read_text(encoding="utf-8"))
        if kept["state"] != _state(kept["file"]):
            return None
        return tuple(DriverDevice(**each) for each in kept["devices"])
    except (OSError, ValueError, TypeError, KeyError):
        return None


def _state(file: str) -> list[int]:
    status = os.stat(file)
    return [status.st_ino, status.st_size, status.st_mtime_ns]
