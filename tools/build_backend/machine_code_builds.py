# SPDX-License-Identifier: Apache-2.0
"""Machine code in a checkout: its inputs, its instruction sets, and the reuse of an earlier build.

Where it is up to date, a build needs neither numba nor NumPy, whose installation takes longer than the rest.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import os
import re
import sys
import sysconfig
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
COMPILED = ROOT / "syclsched" / "compiled"
TOOLS = ROOT / "tools" / "machine_code"

# The module itself, not its package; it imports from syclsched.
sys.path.insert(0, str(ROOT))
_spec = importlib.util.spec_from_file_location("_syclsched_machine_code", COMPILED / "machine_code.py")
assert _spec is not None and _spec.loader is not None
_machine_code = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_machine_code)
LEVELS, VARIABLE = _machine_code.LEVELS, _machine_code.VARIABLE


def numba_version(required: str) -> str:
    """Return the version of numba in this environment; in one without, the required version."""
    try:
        return importlib.metadata.version("numba")
    except importlib.metadata.PackageNotFoundError:
        return required


def module_name(level: str, numba: str) -> str:
    """Return the name of the extension module for an instruction set and a version of numba."""
    return f"{_machine_code.stem_for(numba)}{level}"


def levels_to_build() -> list[str]:
    """Return the instruction sets for which machine code is made."""
    asked = os.environ.get(VARIABLE, "")
    if asked == "off":
        return []
    if asked:
        unknown = set(asked.split(",")) - set(LEVELS)
        if unknown:
            sys.exit(f"{VARIABLE} has {', '.join(sorted(unknown))}; known are {', '.join(LEVELS)}, and off")
        return asked.split(",")
    # The functions use few long vectors: v4 gains nothing, and machines share folders and images.
    return [level for level in _machine_code.processor_levels() if level != "v4"][-1:]


def made_from(numba: str) -> str:
    """Return a digest of all inputs of machine code, for a version of numba."""
    digest = hashlib.sha256(f"{sys.version} numba {numba}".encode())
    for path in sorted((ROOT / "syclsched").rglob("*.py")):
        content = path.read_bytes()
        if path.parent == COMPILED or re.search(rb"@compiled|@lean|NamedTuple", content):
            digest.update(content)
    for path in (COMPILED / "_machine_code.c", *sorted(TOOLS.glob("*.py")), TOOLS / "argument_types.json"):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:32]


def kept(level: str, numba: str) -> Path | None:
    """Return the extension module of an earlier build for an instruction set, if it is up to date."""
    path = COMPILED / f"{module_name(level, numba)}{sysconfig.get_config_var('EXT_SUFFIX')}"
    return path if path.is_file() and made_from(numba).encode() in path.read_bytes() else None
