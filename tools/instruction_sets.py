# SPDX-License-Identifier: Apache-2.0
"""Repeat the tests marked ``instruction_sets`` with code for older instruction sets than the processor's own.

Usage: ``python tools/instruction_sets.py [pytest's options]``. The OpenCL CPU device, oneDNN and OpenBLAS are held to
one instruction set at a time. One that the processor lacks is left out, and said to be.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from syclsched.oneapi.processor import TARGET_ARCH_VARIABLE, missing_flags
from syclsched.processor_flags import read_flags

ROOT: Final = Path(__file__).resolve().parent.parent
#: The CPU device's name of each instruction set, and the variables that hold the libraries to it.
INSTRUCTION_SETS: Final = {
    "corei7-avx": {"ONEDNN_MAX_CPU_ISA": "SSE41", "OPENBLAS_CORETYPE": "Nehalem"},
    "core-avx2": {"ONEDNN_MAX_CPU_ISA": "AVX2", "OPENBLAS_CORETYPE": "Haswell"},
}
_MARK: Final = "mark.instruction_sets"


def marked_files() -> list[str]:
    """Return the files with marked tests: collecting all others takes longer than many of these tests."""
    paths = sorted((ROOT / "tests").rglob("test_*.py"))
    return [str(path.relative_to(ROOT)) for path in paths if _MARK in path.read_text(encoding="utf-8")]


def main(options: Sequence[str], flags: frozenset[str]) -> int:
    """Run the tests for each instruction set; return 1 if some fail."""
    failed = False
    for name, libraries in INSTRUCTION_SETS.items():
        variables = {TARGET_ARCH_VARIABLE: name, **libraries}
        said = ", ".join(f"{variable}={value}" for variable, value in variables.items())
        missing = missing_flags(name, flags)
        if missing:
            print(f"{said}: not run, this processor lacks {', '.join(sorted(missing))}", flush=True)
            continue
        print(said, flush=True)
        started_s = time.monotonic()
        command = [sys.executable, "-m", "pytest", "-m", "instruction_sets", *options, *marked_files()]
        failed |= subprocess.run(command, cwd=ROOT, env={**os.environ, **variables}, check=False).returncode != 0
        print(f"{name}: {time.monotonic() - started_s:.0f} s", flush=True)
    return int(failed)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:], read_flags()))
