# SPDX-License-Identifier: Apache-2.0
"""Repeat the tests marked ``instruction_sets`` with code for older instruction sets than the processor's own.

Usage: ``python tools/instruction_sets.py [pytest's options]``. The OpenCL CPU device, oneDNN and OpenBLAS are limited
to one instruction set at a time. A set that the processor lacks is left out with a message, and so is AVX2 on a
processor without later ones: all tests run with it there.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Final

from repeated_tests import repeat

from syclsched.oneapi.processor import TARGET_ARCH_VARIABLE, instruction_sets, missing_flags
from syclsched.processor_flags import read_flags

#: The CPU device's name of each instruction set, and the variables that limit the libraries to it.
INSTRUCTION_SETS: Final = {
    "corei7-avx": {"ONEDNN_MAX_CPU_ISA": "SSE41", "OPENBLAS_CORETYPE": "Nehalem"},
    "core-avx2": {"ONEDNN_MAX_CPU_ISA": "AVX2", "OPENBLAS_CORETYPE": "Haswell"},
}
MARKER: Final = "instruction_sets"


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
        if name == "core-avx2" and instruction_sets(flags)[-1] == "AVX2":
            print(f"{said}: not run, they are this processor's own", flush=True)
            continue
        print(said, flush=True)
        failed |= not repeat(MARKER, options, variables, name)
    return int(failed)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:], read_flags()))
