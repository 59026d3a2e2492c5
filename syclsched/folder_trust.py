# SPDX-License-Identifier: Apache-2.0
"""Trust in cache folders: code and verdicts are loaded only from where no other user can have put them.

As for OpenSSH's keys, a folder is trusted if it and all folders above it belong to the user or to root and nobody else
can write to them. Folders above it may be writable if they are sticky (`/tmp`): others cannot rename what is in there.
A group that is the user's own, with nobody else in it, counts as the user. Access control lists are not considered.
"""

from __future__ import annotations

import logging
import os
import stat
from functools import lru_cache
from pathlib import Path
from typing import Final

_LOGGER = logging.getLogger("syclsched")
#: Names folders, separated as in PATH, that are trusted with all they contain, independent of their owners.
TRUSTED_VARIABLE: Final = "SYCLSCHED_TRUSTED_FOLDERS"
_WAY_OUT: Final = (
    "Remove it, or give it to yourself alone (chown, chmod go-w); name another folder with XDG_CACHE_HOME (for numba's "
    f"code NUMBA_CACHE_DIR), or trust this one with {TRUSTED_VARIABLE}"
)
_OTHERS: Final = {stat.S_IWGRP: "its group", stat.S_IWOTH: "everyone"}
_ROOT: Final = 0


def make_private_folder(folder: Path) -> None:
    """Make a folder and the missing ones above it, for the user alone."""
    for part in (*reversed(folder.parents), folder):
        if not part.is_dir():
            try:
                part.mkdir(mode=0o700)
            except FileExistsError:  # made by another process meanwhile
                if not part.is_dir():
                    raise


def may_load_from(folder: Path, beside: Path | None = None) -> bool:
    """Return whether code may be loaded from a folder; if not, log the reason and the remedy, each reason once."""
    reason = why_untrusted(folder, beside)
    if reason is not None:
        _report(reason)
    return reason is None


def why_untrusted(folder: Path, beside: Path | None = None) -> str | None:
    """Return the reason why other users could have written to a folder, or None if they could not.

    ``beside`` is the folder of the source code whose compiled code is kept: users who can change it are trusted.
    """
    folder = Path(os.path.abspath(folder))
    if _is_named(folder):
        return None
    if beside is not None:
        return _why_not_as(folder, beside)
    parts = {part: None for each in (folder, Path(os.path.realpath(folder))) for part in (each, *each.parents)}
    for part in parts:
        found = _why_not(part, is_last=part in (folder, Path(os.path.realpath(folder))))
        if found is not None:
            return found
    return None


def explained(reason: str) -> str:
    """Return a reason of `why_untrusted` with a remedy."""
    return f"{reason}. {_WAY_OUT}"


# --- inside ---------------------------------------------------------------------------------------


def _is_named(folder: Path) -> bool:
    """Return whether the user trusts a folder by name."""
    named = [Path(each) for each in os.environ.get(TRUSTED_VARIABLE, "").split(os.pathsep) if each]
    return any(folder == each or each in folder.parents for each in named)


def _why_not(part: Path, *, is_last: bool) -> str | None:
    """Return why others could replace a folder, or something in the last one."""
    try:
        status = part.lstat()
    except FileNotFoundError:
        return None  # nothing is loaded from it
    except OSError as error:
        return f"{part} cannot be examined ({error.strerror})"
    owners = {os.geteuid(), _ROOT} if is_last else {os.geteuid(), _ROOT, *_unmapped_owner()}
    if status.st_uid not in owners:
        return f"{part} belongs to another user ({_user(status.st_uid)})"
    if stat.S_ISLNK(status.st_mode) or (status.st_mode & stat.S_ISVTX and not is_last):
        return None
    for bit, whom in _OTHERS.items():
        if status.st_mode & bit and not (bit == stat.S_IWGRP and _is_own_group(status.st_gid)):
            return f"{part} can be written to by {whom} (mode {stat.S_IMODE(status.st_mode):04o})"
    return None


def _why_not_as(folder: Path, beside: Path) -> str | None:
    """Return why more users could write to a folder than to the folder of its source code."""
    try:
        status, source = folder.stat(), beside.stat()
    except OSError as error:
        return f"{folder} cannot be examined ({error.strerror})"
    if status.st_uid not in {os.geteuid(), _ROOT, source.st_uid}:
        return f"{folder} belongs to another user ({_user(status.st_uid)}), who does not own the source code"
    for bit, whom in _OTHERS.items():
        as_source = source.st_mode & bit and (bit == stat.S_IWOTH or source.st_gid == status.st_gid)
        if status.st_mode & bit and not as_source and not (bit == stat.S_IWGRP and _is_own_group(status.st_gid)):
            return (
                f"{folder} can be written to by {whom} (mode {stat.S_IMODE(status.st_mode):04o}), its source code not"
            )
    return None


def _is_own_group(group: int) -> bool:
    """Return whether a group is that of the user alone, as many systems make one for each user."""
    import grp
    import pwd

    try:
        user, found = pwd.getpwuid(os.geteuid()), grp.getgrgid(group)
    except KeyError:
        return False
    return group == user.pw_gid and found.gr_name == user.pw_name and set(found.gr_mem) <= {user.pw_name}


@lru_cache(maxsize=1)
def _unmapped_owner() -> tuple[int, ...]:
    """Return the user id as which a user namespace shows all outer users, root among them; none outside of one."""
    try:
        if Path("/proc/self/uid_map").read_text(encoding="ascii").split() == ["0", "0", "4294967295"]:
            return ()
        return (int(Path("/proc/sys/kernel/overflowuid").read_text(encoding="ascii")),)
    except (OSError, ValueError):
        return ()


def _user(number: int) -> str:
    import pwd

    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return f"user id {number}"


@lru_cache(maxsize=64)
def _report(reason: str) -> None:
    _LOGGER.warning("nothing is loaded from a cache folder: %s", explained(reason))
