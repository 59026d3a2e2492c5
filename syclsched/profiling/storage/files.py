# SPDX-License-Identifier: Apache-2.0
"""Profile files: validated reading and atomic writing of single profiles and profile sets."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from annotated_types import MaxLen, MinLen

from syclsched.atomic_write import write_atomically
from syclsched.errors import FormatError, StorageError
from syclsched.model.profile import DeviceProfile, PairProfile
from syclsched.model.text.json_serialisation import Serialisable, from_json, to_json
from syclsched.profiling.storage.limits import check_device_profile, check_pair_profile

SET_FORMAT: Literal["syclsched-profiles/1"] = "syclsched-profiles/1"

#: Upper bound of a file's size; real profiles have some kilobytes.
MAX_FILE_BYTES = 16 << 20


@dataclass(frozen=True, slots=True)
class ProfileSet(Serialisable):
    """The profiles of several devices and of pairs of them, in one file."""

    devices: Annotated[tuple[DeviceProfile, ...], MinLen(1), MaxLen(4096)]  # at least one
    pairs: tuple[PairProfile, ...] = ()  # pairs of these devices
    format: Literal["syclsched-profiles/1"] = SET_FORMAT  # the format's name and version


def parse_device_profile(text: str | bytes, *, where: str) -> DeviceProfile:
    """Read a device profile from JSON text."""
    return check_device_profile(from_json(DeviceProfile, text, where=where), where=where)


def parse_pair_profile(text: str | bytes, *, where: str) -> PairProfile:
    """Read a pair profile from JSON text; see `parse_device_profile`."""
    return check_pair_profile(from_json(PairProfile, text, where=where), where=where)


def parse_profile_set(text: str | bytes, *, where: str) -> ProfileSet:
    """Read a set of profiles, or a single device profile as a set of one; see `parse_device_profile`."""
    if not _is_set(text):
        return ProfileSet((parse_device_profile(text, where=where),))
    profiles = from_json(ProfileSet, text, where=where)
    for index, device in enumerate(profiles.devices):
        check_device_profile(device, where=f"{where}, devices.{index}")
    for index, pair in enumerate(profiles.pairs):
        check_pair_profile(pair, where=f"{where}, pairs.{index}")
    return profiles


def _is_set(text: str | bytes) -> bool:
    """Return whether JSON text is a profile set, by its format field; invalid JSON is not."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return False
    return isinstance(document, dict) and document.get("format") == SET_FORMAT


def read_file(path: Path) -> bytes:
    """Return a file's contents."""
    try:
        size = path.stat().st_size
        if size > MAX_FILE_BYTES:
            raise FormatError(f"{size} bytes, a profile has {MAX_FILE_BYTES} at most", where=str(path))
        return path.read_bytes()
    except OSError as error:
        raise StorageError(
            f"cannot be read: {error.strerror or error}", where=str(path), hint="Check the path and its permissions"
        ) from error


def write_file(path: Path, value: DeviceProfile | PairProfile | ProfileSet) -> None:
    """Write a profile as JSON; other processes see the old file or the whole new one."""
    text = to_json(value) + "\n"
    try:
        write_atomically(path, text.encode(), folders=True, lasting=True)
    except OSError as error:
        raise StorageError(
            f"cannot be written: {error.strerror or error}",
            where=str(path),
            hint="Choose another place (--output FILE, or XDG_DATA_HOME), or free space and permissions",
        ) from error
