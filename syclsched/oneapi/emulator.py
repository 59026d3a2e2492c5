# SPDX-License-Identifier: Apache-2.0
"""The FPGA emulator, made from the OpenCL CPU runtime's library in the user's cache folder.

The 2024 wheel of the runtime registers an emulator but lacks its library, which is the CPU runtime's library under
another name with another configuration file. It is copied, not linked, because the OpenCL loader recognises a library
that it has loaded already; its companions (built-in functions, compiler) can be links.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from syclsched.atomic_write import write_atomically
from syclsched.folder_trust import explained, make_private_folder, why_untrusted
from syclsched.oneapi.cache_folder import cache_root

_SWITCH_VARIABLE = "SYCLSCHED_FPGA_EMULATOR"
EMULATOR_LIBRARY = "libintelocl_emu.so"
#: Runtimes up to this year act as an emulator under the other name; later ones show a second CPU device instead.
_LAST_EMULATOR_YEAR = 2024
_COMPANIONS = ("clbltfn*", "cllibrary*", "__ocl_svml_*", "libcommon_clang*")
_CONFIGURATIONS = ("cl.cfg", "cl.fpga_emu.cfg")
_RECORD = "source.json"
_ABANDONED_AFTER_S = 3600.0
#: Properties of a file that change whenever its content does; no user but root can set the last one.
_UNCHANGED = ("st_ino", "st_size", "st_mtime_ns", "st_ctime_ns")


@dataclass(frozen=True, slots=True)
class Emulator:
    """The outcome of preparing the emulator: its library's path, or None and the reason."""

    library: str | None
    note: str | None = None


def supported(runtime_version: str | None) -> bool:
    """Return whether a version of ``intel-opencl-rt`` can be made into an emulator."""
    year = (runtime_version or "").split(".")[0]
    return year.isdigit() and int(year) <= _LAST_EMULATOR_YEAR


def switched_off(environ: Mapping[str, str]) -> bool:
    """Return whether the user has switched off the emulator (``SYCLSCHED_FPGA_EMULATOR=0``)."""
    return environ.get(_SWITCH_VARIABLE, "").strip().lower() in {"0", "no", "off", "false"}


def prepare(
    source: str | None, version: str | None, environ: Mapping[str, str], folder: Path | None = None
) -> Emulator:
    """Return the emulator's library, making its folder if it does not exist yet."""
    if switched_off(environ):
        return Emulator(None, f"the FPGA emulator is switched off ({_SWITCH_VARIABLE})")
    if source is None:
        return Emulator(None, "no FPGA emulator: the OpenCL CPU runtime it is made from was not found")
    own = Path(source).parent / EMULATOR_LIBRARY
    if own.is_file():
        return Emulator(str(own))
    if not supported(version):
        return Emulator(None, f"no FPGA emulator: intel-opencl-rt {version or 'of unknown version'} cannot become one")
    root = folder if folder is not None else cache_root() / "fpga-emulator"
    try:
        make_private_folder(root)
        if (reason := why_untrusted(root)) is not None:
            return Emulator(None, f"no FPGA emulator: nothing is loaded from {root}: {explained(reason)}")
        return Emulator(str(_ensure(Path(source), str(version), root)))
    except (OSError, RuntimeError) as error:
        why = (error.strerror if isinstance(error, OSError) else None) or str(error)
        return Emulator(None, f"no FPGA emulator: its folder {root} could not be made ({why})")


def _ensure(source: Path, version: str, root: Path) -> Path:
    """Return the library of a complete folder for this source, built by this process or by another one."""
    identity = _identity(source, version)
    final = root / hashlib.sha256(json.dumps(identity).encode()).hexdigest()[:16]
    library = final / EMULATOR_LIBRARY
    if _complete(final, identity):
        return library
    remove_stale(root)
    temporary = Path(tempfile.mkdtemp(prefix=".building-", dir=root))
    try:
        _build(source, temporary, identity)
        _move_into_place(temporary, final, identity)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)  # does not exist any more if the move succeeded
    return library


def _identity(source: Path, version: str) -> dict[str, str | int]:
    """Return the properties of the source library that make a folder stale when they change."""
    status = source.stat()
    return {
        "library": str(source),
        "size_bytes": status.st_size,
        "modified_ns": status.st_mtime_ns,
        "version": version,
    }


def _complete(folder: Path, identity: Mapping[str, str | int]) -> bool:
    """Return whether a folder has the library as it was made, and all links in it are valid."""
    try:
        record = json.loads((folder / _RECORD).read_text(encoding="utf-8"))
        return (
            why_untrusted(folder) is None
            and record["source"] == identity
            and all((folder / name).is_file() for name in _CONFIGURATIONS)
            and all(path.exists() for path in folder.iterdir())
            and _is_as_made(folder, record)
        )
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _is_as_made(folder: Path, record: Mapping[str, Any]) -> bool:
    """Return whether the library has the recorded content; it is read only if it may have changed, as it is large."""
    library = folder / EMULATOR_LIBRARY
    if record["copy"] == _state(library):
        return True
    if record["sha256"] != _digest(library):
        return False
    # Copied or given other permissions. Without the new state the next process reads it again.
    with contextlib.suppress(OSError):
        write_atomically(folder / _RECORD, json.dumps({**record, "copy": _state(library)}).encode())
    return True


def _state(file: Path) -> list[int]:
    """Return the attributes that change with a file's content."""
    status = file.lstat()
    return [getattr(status, name) for name in _UNCHANGED]


def _digest(file: Path) -> str:
    digest = hashlib.sha256()
    with file.open("rb") as opened:
        while piece := opened.read(1 << 20):
            digest.update(piece)
    return digest.hexdigest()


def _build(source: Path, folder: Path, identity: Mapping[str, str | int]) -> None:
    shutil.copyfile(source, folder / EMULATOR_LIBRARY)
    (folder / EMULATOR_LIBRARY).chmod(0o755)
    for pattern in _COMPANIONS:
        for companion in source.parent.glob(pattern):
            (folder / companion.name).symlink_to(companion)
    configuration = _emulator_configuration((source.parent / "cl.cfg").read_text(encoding="utf-8"))
    for name in _CONFIGURATIONS:
        (folder / name).write_text(configuration, encoding="utf-8")
    # Written last, because a folder without it counts as incomplete.
    library = folder / EMULATOR_LIBRARY
    record = {"source": identity, "sha256": _digest(library), "copy": _state(library)}
    (folder / _RECORD).write_text(json.dumps(record), encoding="utf-8")


def _emulator_configuration(cpu_configuration: str) -> str:
    """Return the runtime's configuration with the emulator as its only device."""
    kept = [line for line in cpu_configuration.splitlines() if not line.startswith("CL_CONFIG_DEVICES")]
    return "\n".join([*kept, "CL_CONFIG_DEVICES = fpga-emu", ""])


def _move_into_place(temporary: Path, final: Path, identity: Mapping[str, str | int]) -> None:
    """Rename a built folder to its final name; if another process was faster, use its folder."""
    for _ in range(2):
        try:
            os.rename(temporary, final)
            return
        except OSError:
            if not final.exists():
                raise
            if _complete(final, identity):
                return
            _remove(final)  # damaged, for example by a partly emptied cache
    if not _complete(final, identity):
        raise RuntimeError(f"{final} is there but incomplete and could not be replaced")


def remove_stale(root: Path) -> None:
    """Remove folders whose source library is missing or changed, and builds left by killed processes."""
    for folder in root.iterdir():
        # Another process may remove the same folders.
        with contextlib.suppress(FileNotFoundError):
            if _abandoned(folder) if folder.name.startswith(".building-") else _stale(folder):
                _remove(folder)


def _abandoned(folder: Path) -> bool:
    return time.time() - folder.stat().st_mtime > _ABANDONED_AFTER_S


def _stale(folder: Path) -> bool:
    try:
        source = json.loads((folder / _RECORD).read_text(encoding="utf-8"))["source"]
        return bool(source != _identity(Path(source["library"]), source["version"]))
    except (OSError, ValueError, KeyError, TypeError):
        return True


def _remove(folder: Path) -> None:
    """Rename a folder, then delete it, so that it is never seen half empty under its name."""
    renamed = folder.with_name(f".building-removed-{os.getpid()}-{folder.name.lstrip('.')}")
    os.rename(folder, renamed)
    shutil.rmtree(renamed, ignore_errors=True)
