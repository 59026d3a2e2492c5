# SPDX-License-Identifier: Apache-2.0
"""On-disk cache of compiled device programs: binaries of the drivers, and SPIR-V made by numba-dpex.

Every file is named by a digest of all that its content depends on and begins with a digest of the content, because
drivers crash on damaged programs. Files are written under another name and renamed, so that several processes may share
the folder. When the folder outgrows its limit, the files that were not used for the longest time are removed.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import threading
import time
from contextlib import suppress
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Final

from syclsched import oneapi, processor_flags
from syclsched.atomic_write import write_atomically
from syclsched.devices.native.sycl_types import SyclDevice
from syclsched.folder_trust import make_private_folder, may_load_from
from syclsched.model.operation import SpirvModule
from syclsched.oneapi.cache_folder import cache_root
from syclsched.oneapi.environment import variables_for

#: Variable: ``0`` switches the cache off.
VARIABLE: Final = "SYCLSCHED_PROGRAM_CACHE"
#: The format of the files' content: another one makes other keys.
_FORMAT: Final = 1
_LIMIT_BYTES: Final = 256 << 20
_DIGEST_BYTES: Final = 32
#: The time of last use is noted only if it is older than this.
_USE_NOTED_S: Final = 24 * 3600.0
#: A file under a temporary name is left by a process that died if it is older than this.
_ABANDONED_AFTER_S: Final = 3600.0

logger = logging.getLogger("syclsched")


class ProgramCache:
    """A folder of the user's cache with a bound on its size, of content by key."""

    def __init__(self, folder: Path, limit_bytes: int = _LIMIT_BYTES) -> None:
        self.folder = folder
        self._limit_bytes = limit_bytes
        self._lock = threading.Lock()
        #: Bytes that may still be written before the folder is measured again; unknown at first.
        self._left_bytes = 0

    @cached_property
    def _is_trusted(self) -> bool:
        return may_load_from(self.folder)

    def read(self, key: str) -> bytes | None:
        """Return the content of a key; None if there is none, it is damaged, or others may have written it."""
        if not self._is_trusted:
            return None
        path = self.folder / key
        try:
            stored = path.read_bytes()
            if time.time() - path.stat().st_mtime > _USE_NOTED_S:
                os.utime(path)
        except OSError:
            return None
        content = stored[_DIGEST_BYTES:]
        return content if hashlib.sha256(content).digest() == stored[:_DIGEST_BYTES] else None

    def write(self, key: str, content: bytes) -> None:
        """Store the content of a key; without effect if the folder cannot be written, or others can write to it."""
        if not self._is_trusted:
            return
        stored = hashlib.sha256(content).digest() + content
        with suppress(OSError), self._lock:
            make_private_folder(self.folder)
            if len(stored) > self._left_bytes:
                self._left_bytes = self._limit_bytes - self._shrink(self._limit_bytes - len(stored))
            if len(stored) <= self._left_bytes:
                write_atomically(self.folder / key, stored)
                self._left_bytes -= len(stored)

    def read_spirv(self, key: str) -> SpirvModule | None:
        """Return the SPIR-V of a key; None as for `read`."""
        stored = self.read(key)
        if stored is None:
            return None
        name, _, code = stored.partition(b"\n")
        logger.debug("loaded the SPIR-V of kernel %s from the cache", name.decode())
        return SpirvModule(code, name.decode())

    def write_spirv(self, key: str, module: SpirvModule) -> None:
        """Store SPIR-V as `write` does."""
        self.write(key, module.kernel_name.encode() + b"\n" + module.code)

    def _shrink(self, limit_bytes: int) -> int:
        """Remove the oldest files if all are larger than a limit, down to half of it; return the bytes left."""
        entries = []
        for entry in os.scandir(self.folder):
            with suppress(FileNotFoundError):  # removed by another process
                status = entry.stat()
                if not entry.name.startswith("."):
                    entries.append((status.st_mtime, status.st_size, entry.path))
                elif time.time() - status.st_mtime > _ABANDONED_AFTER_S:
                    os.unlink(entry.path)
        total = sum(size for _, size, _ in entries)
        if total > limit_bytes:
            for _, size, path in sorted(entries):
                if total <= limit_bytes // 2:
                    break
                Path(path).unlink(missing_ok=True)
                total -= size
        return total


def program_cache() -> ProgramCache | None:
    """Return the cache of this process, or None if it is switched off."""
    if os.environ.get(VARIABLE, "").strip().lower() in {"0", "no", "off", "false"}:
        return None
    return _cache_at(cache_root() / "programs")


@lru_cache(maxsize=16)
def _cache_at(folder: Path) -> ProgramCache:
    return ProgramCache(folder)


def code_inputs(device: SyclDevice) -> dict[str, object]:
    """Return all that the code generated for a device depends on, besides its source.

    Device and driver, instruction sets of the processor, variables of the environment, versions of the packages.
    """
    runtime = oneapi.load()
    return {
        "device": [device.name, device.vendor, device.driver_version, device.backend.name, device.device_type.name],
        "processor": sorted(processor_flags.read_flags()),
        "environment": variables_for(device.sycl_platform.name.strip(), runtime.boot_environment),
        "versions": runtime.versions,
    }


def key_of(device: SyclDevice, *parts: str | bytes) -> str:
    """Return the key of a program that is compiled for a device from these parts."""
    digest = hashlib.sha256(f"{_FORMAT}\0{_code_inputs_text(device)}".encode())
    for part in parts:
        content = part.encode() if isinstance(part, str) else part
        digest.update(b"%d\0" % len(content) + content)
    return digest.hexdigest()


@lru_cache(maxsize=64)
def _code_inputs_text(device: SyclDevice) -> str:
    return json.dumps(code_inputs(device), sort_keys=True)
