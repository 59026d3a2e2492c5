# SPDX-License-Identifier: Apache-2.0
"""Run the tests whose results may differ between generations of SYCL packages, in an environment of the other one.

Usage: ``python tools/generation_tests.py [pytest's options]``. The tests left out are of pure Python and compiled
functions, which get the same plans from every generation; the listed ones show that they get the same inputs.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent

#: Folder or file of tests, and the reason why it is run with each generation.
CHOSEN: Final = {
    "tests/oneapi": "finds and loads the runtime's libraries, and names what is wrong with an installation",
    "tests/compiled": "uses internals of numba: its cache, its dispatchers, machine code made by the build",
    "tests/devices": "calls dpctl, its C interface and the OpenCL runtime",
    "tests/kernels": "compiles kernels by each generation's compiler, and calls oneDNN and oneMKL of its release",
    "tests/kernel_compiler": "uses internals of numba and LLVM's SPIR-V target",
    "tests/test_dpex.py": "launches kernels of the compiler",
    "tests/execution/dispatch": "submits through dpctl",
    "tests/execution/lanes": "queues and events of dpctl",
    "tests/execution/memory": "USM memory of dpctl, and NumPy's arrays",
    "tests/execution/test_copies.py": "copies between memory spaces by each runtime",
    "tests/packaging/test_import.py": "imports in each generation's environment",
}

_LONG: Final = "takes long; its kernels are made of what those of the other files are made of"

#: Files in those folders that are left out, and the reason why.
LEFT_OUT: Final = {
    "tests/kernels/nn/convolution": _LONG,
    "tests/kernels/nn/normalisation": _LONG,
    "tests/kernels/nn/pooling": _LONG,
    "tests/kernels/nn/product": _LONG,
    "tests/kernels/nn/test_norms.py": _LONG,
    "tests/kernels/tensor/reductions": _LONG,
    "tests/kernels/tensor/test_picking.py": _LONG,
    "tests/kernels/tensor/test_groups.py": _LONG,
    "tests/kernels/nn/test_dtypes.py": _LONG,
    "tests/kernels/nn/test_activation.py": _LONG,
    "tests/oneapi/test_opencl_drivers.py": "replaces OpenCL drivers by ones that crash, the same for each generation",
    "tests/kernels/tensor/test_elementwise.py": _LONG,
    "tests/kernels/tensor/test_moving.py": _LONG,
    "tests/devices/test_submission_fuzzed.py": "replaces the SYCL runtime by a mock, the same for each generation",
}


def main(options: Sequence[str]) -> int:
    """Run the chosen tests with these options; return pytest's exit code."""
    left_out = [f"--ignore={path}" for path in LEFT_OUT]
    command = [sys.executable, "-m", "pytest", *options, *left_out, *CHOSEN]
    print("tests:", *CHOSEN, flush=True)
    return subprocess.run(command, cwd=ROOT, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
