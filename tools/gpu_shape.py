# SPDX-License-Identifier: Apache-2.0
"""Repeat tests with a device that is shown as a GPU with memory of its own; see ``tests/support/gpu_shape.py``.

Usage: ``python tools/gpu_shape.py [--all] [--platform NAME] [pytest's options]``. The device is the FPGA emulator,
where there is none a second CPU device, or that of the platform with ``NAME`` in its name. By default only the tests
marked ``gpu_shape`` are repeated; with ``--all`` every test that needs a device. A test whose process dies fails by its
name, and the others go on in another process.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Final

from repeated_tests import repeat

AUTO: Final = "auto"


def main(arguments: Sequence[str]) -> int:
    """Run the tests; return 1 if some fail."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--all", action="store_true", help="every test that needs a device")
    parser.add_argument("--platform", default=AUTO, help="part of the platform's name")
    chosen, options = parser.parse_known_args(arguments)
    processes = () if any(each.startswith("-n") for each in options) else ("-n", "1")  # a test process may die
    options = ["--gpu-shape", chosen.platform, *processes, *options]
    return int(
        not repeat("sycl" if chosen.all else "gpu_shape", options, {}, f"a GPU-shaped device ({chosen.platform})")
    )


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
