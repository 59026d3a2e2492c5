# SPDX-License-Identifier: Apache-2.0
"""Packs: files with the SPIR-V of Python kernels by content, for use without a compiler.

A pack is JSON: the minor version of Python whose code its keys are made of, and name and SPIR-V of each kernel.
"""

from __future__ import annotations

import base64
import json
import os
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from syclsched.errors import ArgumentError
from syclsched.model.operation import SpirvModule

#: Variable: packs that every process loads when it needs a Python kernel, separated by colons.
VARIABLE: Final = "SYCLSCHED_KERNEL_PACKS"
_FORMAT: Final = 1

_LOCK = threading.Lock()
_LOADED: dict[str, SpirvModule] = {}
#: The recordings in use.
_RECORDINGS: list[Recording] = []


def python_version() -> str:
    """Return the minor version of this Python."""
    return "{}.{}".format(*sys.version_info)


def load_pack(path: str | os.PathLike[str]) -> int:
    """Load a pack of compiled kernels, so that this process compiles none of them.

    Parameters
    ----------
    path : str or path-like
        A file made by ``syclsched kernels build``.

    Returns
    -------
    int
        The number of kernels in it.

    Raises
    ------
    ArgumentError
        If the file cannot be read, is no pack, or is for another minor version of Python.

    Examples
    --------
    >>> import syclsched
    >>> syclsched.load_pack("my.pack")
    Traceback (most recent call last):
    syclsched.errors.ArgumentError: my.pack: it cannot be read: No such file or directory
    """
    kernels = read_pack(path)
    with _LOCK:
        _LOADED.update(kernels)
    return len(kernels)


def read_pack(path: str | os.PathLike[str]) -> dict[str, SpirvModule]:
    """Return the kernels of a pack by key; see `load_pack` for the errors."""
    where = os.fspath(path)
    try:
        document = json.loads(Path(where).read_text(encoding="utf-8"))
        python, kernels = document["python"], kernels_in(document)
        if document["format"] != _FORMAT:
            raise ValueError("another format")
    except OSError as error:
        raise ArgumentError(f"it cannot be read: {error.strerror}", where=where) from error
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ArgumentError(
            "it is no pack of compiled kernels", where=where, hint="Make one with: syclsched kernels build"
        ) from error
    if python != python_version():
        raise ArgumentError(
            f"it is for Python {python}, and this is {python_version()}",
            where=where,
            hint="Make it again with this Python: syclsched kernels build",
        )
    return kernels


def pack_text(kernels: Mapping[str, SpirvModule], versions: Mapping[str, str]) -> str:
    """Return the text of a pack; the versions of the packages that made it are for people only."""
    document = {
        "format": _FORMAT,
        "python": python_version(),
        "versions": dict(versions),
        "kernels": {
            key: {"name": each.kernel_name, "spirv": base64.b64encode(each.code).decode()}
            for key, each in sorted(kernels.items())
        },
    }
    return json.dumps(document, indent=1) + "\n"


def kernels_in(document: Any) -> dict[str, SpirvModule]:
    """Return the kernels of a pack's JSON by key; raises errors of Python if it is no pack."""
    return {
        key: SpirvModule(base64.b64decode(each["spirv"], validate=True), each["name"])
        for key, each in document["kernels"].items()
    }


def find(key: str) -> SpirvModule | None:
    """Return the SPIR-V of a key in the packs that were loaded, or that `VARIABLE` names; None if there is none."""
    _load_named()
    return _LOADED.get(key)


@lru_cache(maxsize=1)
def _load_named() -> None:
    for each in os.environ.get(VARIABLE, "").split(os.pathsep):
        if each.strip():
            load_pack(each.strip())


@dataclass(frozen=True, slots=True)
class Recording:
    """The Python kernels that were compiled, or found compiled, by key; and the names of those that have no key."""

    kernels: dict[str, SpirvModule] = field(default_factory=dict)
    without_key: set[str] = field(default_factory=set)


def note(key: str | None, module: SpirvModule) -> None:
    """Note that a kernel is used, for `recording`."""
    for each in _RECORDINGS:
        if key is None:
            each.without_key.add(module.kernel_name)
        else:
            each.kernels[key] = module


@contextmanager
def recording() -> Iterator[Recording]:
    """Record the Python kernels that this process needs for the first time."""
    made = Recording()
    _RECORDINGS.append(made)
    try:
        yield made
    finally:
        _RECORDINGS.remove(made)
