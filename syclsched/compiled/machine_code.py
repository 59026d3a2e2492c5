# SPDX-License-Identifier: Apache-2.0
"""The package's own machine code: an extension module for each instruction set it was built for.

The module for the best instruction set that the processor has is loaded. Its functions are named by a digest of the
compiled function, the argument types and the sources, so that stale machine code is not found.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import os
from collections.abc import Callable
from functools import cache
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.metadata import PackageNotFoundError, version
from itertools import takewhile
from pathlib import Path
from types import ModuleType
from typing import Any

from syclsched.compiled.argument_types import type_of
from syclsched.compiled.source_stamps import stamp_of
from syclsched.processor_flags import read_flags

#: Variable: instruction sets to build for, such as ``v2,v3,v4``; ``off`` builds none, and loads none.
VARIABLE = "SYCLSCHED_MACHINE_CODE"
#: The levels of the x86-64 psABI, the lowest first, with flags of /proc/cpuinfo that each adds.
LEVELS = {
    "v2": "cx16 lahf_lm popcnt sse4_1 sse4_2 ssse3",
    "v3": "abm avx avx2 bmi1 bmi2 f16c fma movbe xsave",
    "v4": "avx512bw avx512cd avx512dq avx512f avx512vl",
}


@cache
def stem() -> str:
    """Return the beginning of the names of the extension modules, of which each is for one release of numba."""
    try:
        return stem_for(version("numba"))
    except PackageNotFoundError:
        return stem_for("0._missing")


def stem_for(numba: str) -> str:
    """Return the beginning of these names for a version of numba, such as 0.59.1."""
    return f"_machine_code_numba{numba.split('.')[1]}_"


@cache
def processor_levels() -> tuple[str, ...]:
    """Return the levels that the processor has, the lowest first."""
    flags = read_flags()
    return tuple(takewhile(lambda level: flags.issuperset(LEVELS[level].split()), LEVELS))


@cache
def loaded() -> tuple[ModuleType | None, str]:
    """Return the extension module, and its instruction set, or the reason why there is none."""
    if os.environ.get(VARIABLE) == "off":
        return None, f"switched off ({VARIABLE}=off)"
    found = Path(__file__).parent.glob(f"{stem()}*{EXTENSION_SUFFIXES[0]}")
    built = sorted(path.name.split(".")[0].removeprefix(stem()) for path in found)
    if not built:
        return None, "not built: building the package needs a C and C++ compiler"
    for level in reversed(processor_levels()):
        if level in built:
            try:
                return importlib.import_module(f"syclsched.compiled.{stem()}{level}"), level
            except ImportError as error:
                return None, f"cannot be loaded: {error}"
    return None, f"built for {', '.join(f'x86-64-{level}' for level in built)}, which the processor is not"


def entry_name(function: str, types: list[Any], stamp: str) -> str:
    """Return the name of a function's machine code for these argument types."""
    return hashlib.sha256(f"{function}\n{json.dumps(types)}\n{stamp}".encode()).hexdigest()[:32]


def find(function: str, types: list[Any], stamp: str) -> Callable[..., Any] | None:
    """Return a function's machine code for these argument types; its docstring is empty unless it returns objects."""
    module, _ = loaded()
    return getattr(module, entry_name(function, types, stamp), None)


def is_built(function: Any, arguments: tuple[Any, ...]) -> bool:
    """Return whether a compiled function has machine code for the types of these arguments."""
    types = [type_of(each) for each in arguments]
    return find(function.name, types, stamp_of(function.py_func)) is not None


@cache
def fingerprinter() -> Callable[[tuple[Any, ...]], bytes | None]:
    """Return a function: a short key for the types of some arguments, or None if they have no machine code."""
    module, _ = loaded()
    return _no_fingerprint if module is None else module.fingerprint


def _no_fingerprint(_: tuple[Any, ...]) -> bytes | None:
    return None
