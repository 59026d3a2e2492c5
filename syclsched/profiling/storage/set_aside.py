# SPDX-License-Identifier: Apache-2.0
"""Damaged files of measurements: renamed, with a warning, so that plans are made without them."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable
from contextlib import suppress
from itertools import count
from pathlib import Path

from syclsched.errors import FormatError

#: Files that this process has warned of and could not rename.
_left: set[str] = set()


def set_aside(path: Path, error: FormatError, remedy: str, *, companions: Iterable[str] = ()) -> bool:
    """Rename a damaged file and warn of it; return whether its name is free.

    ``companions`` are endings of files that belong to it. A file that cannot be renamed is warned of once.
    """
    target = _free_name(path)
    try:
        os.rename(path, target)
    except FileNotFoundError:  # another process has set it aside
        return True
    except OSError as refused:
        if str(path) not in _left:
            _left.add(str(path))
            why = refused.strerror or refused
            _warn(f"{path} is damaged and not used ({error.what}); it cannot be renamed ({why}): remove it. {remedy}")
        return False
    for ending in companions:
        with suppress(OSError):
            os.rename(f"{path}{ending}", f"{target}{ending}")
    _warn(f"{path} was damaged and is now {target} ({error.what}). {remedy}")
    return True


def _warn(text: str) -> None:
    warnings.warn(text, UserWarning, stacklevel=3)


def _free_name(path: Path) -> Path:
    """Return a name beside the file that no file has."""
    for number in count(1):
        name = path.with_name(f"{path.name}.damaged" + (f"-{number}" if number > 1 else ""))
        if not os.path.lexists(name):
            return name
    raise AssertionError("unreachable")
