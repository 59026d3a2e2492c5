# SPDX-License-Identifier: Apache-2.0
"""Profile store in the user's data folder: one JSON file per device and per device pair."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from syclsched.errors import FormatError
from syclsched.model.profile import DeviceProfile, PairProfile
from syclsched.profiling.storage.files import parse_device_profile, parse_pair_profile, read_file, write_file
from syclsched.profiling.storage.set_aside import set_aside

_Profile = TypeVar("_Profile", DeviceProfile, PairProfile)

_SAFE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,119}")
_AGAIN = "Run `python -m syclsched profile` again, or remove the file"


def data_folder() -> Path:
    """Return this project's user data folder; it may not exist yet."""
    import platformdirs

    return Path(platformdirs.user_data_path("syclsched", appauthor=False))


def file_stem(key: str) -> str:
    """Return the file stem for a device key: the key if it is a safe name, else its hash."""
    if _SAFE_NAME.fullmatch(key):
        return key
    return "key-" + hashlib.sha256(key.encode()).hexdigest()[:32]


class ProfileStore:
    """Profiles kept between processes.

    A damaged file is an error with a hint how to replace it. In the user's data folder, which is used when no folder is
    given, it is set aside with a warning, and there is no profile.
    """

    def __init__(self, folder: Path | str | None = None) -> None:
        self.folder = data_folder() if folder is None else Path(folder)
        self._is_named = folder is not None

    def path(self, key: str) -> Path:
        """Return the file of a device's profile."""
        return self.folder / "profiles" / f"{file_stem(key)}.json"

    def pair_path(self, first: str, second: str) -> Path:
        """Return the file of a pair's profile."""
        return self.folder / "pairs" / f"{file_stem(first)}--{file_stem(second)}.json"

    def save(self, profile: DeviceProfile) -> Path:
        """Save a device's profile, replacing an older one."""
        path = self.path(profile.key)
        write_file(path, profile)
        return path

    def save_pair(self, pair: PairProfile) -> Path:
        """Save a pair's profile, replacing an older one."""
        path = self.pair_path(pair.first, pair.second)
        write_file(path, pair)
        return path

    def load(self, key: str) -> DeviceProfile | None:
        """Return a device's profile, or None if there is none."""

        def parse(text: bytes, *, where: str) -> DeviceProfile:
            profile = parse_device_profile(text, where=where)
            if profile.key != key:
                raise FormatError(f"at identity.key: expected {key!r}, it is {profile.key!r}", where=where)
            return profile

        return self._read(self.path(key), parse)

    def load_pair(self, first: str, second: str) -> PairProfile | None:
        """Return the profile of an ordered pair, or None if there is none."""

        def parse(text: bytes, *, where: str) -> PairProfile:
            pair = parse_pair_profile(text, where=where)
            if (pair.first, pair.second) != (first, second):
                said = f"expected the pair {first!r}, {second!r}, it is of {pair.first!r}, {pair.second!r}"
                raise FormatError(said, where=where)
            return pair

        return self._read(self.pair_path(first, second), parse)

    def _read(self, path: Path, parse: Callable[..., _Profile]) -> _Profile | None:
        if not path.exists():
            return None
        try:
            return parse(read_file(path), where=str(path))
        except FormatError as error:
            if self._is_named:
                raise FormatError(error.what, where=error.where, hint=_AGAIN) from error
            set_aside(path, error, "`python -m syclsched profile` measures again")
            return None
