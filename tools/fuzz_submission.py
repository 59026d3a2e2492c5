# SPDX-License-Identifier: Apache-2.0
"""Test the compiled submission loop with random sequences, under the address and undefined-behaviour sanitizers.

``python tools/fuzz_submission.py`` builds ``syclsched/devices/native/_submit*.c`` with a mock runtime
(``tests/devices/fuzz_submission.c``, ``made_up_runtime.h``) and runs it; no SYCL is needed. ``--valgrind`` uses
valgrind instead. ``--threads`` tests lanes that are the package's own threads (``tests/devices/fuzz_threads.c``) and
threads that help a caller (``fuzz_helpers.c``) under the thread sanitizer. A sequence that fails is reported with its
seed: repeat it alone with ``--first SEED --sequences 1``.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
SANITIZERS = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
THREAD_SANITIZER = ["-fsanitize=thread", "-fno-sanitize-recover=all"]


def build(
    folder: Path,
    *,
    sanitizers: list[str] = SANITIZERS,
    sources: Path | None = None,
    driver: str = "fuzz_submission",
    objects: Path | None = None,
) -> Path:
    """Build a driver with the loop's sources.

    Parameters
    ----------
    folder : Path
        Folder for the executable.
    sanitizers : list of str, optional
        The compiler's names of the sanitizers.
    sources : Path, optional
        Folder of the loop's sources; by default the package's.
    driver : str, optional
        A driver of ``tests/devices``.
    objects : Path, optional
        A folder for object files: sources unchanged since an earlier build with this folder are not compiled again.

    Returns
    -------
    Path
        The executable.
    """
    compiler = os.environ.get("CC", "cc")
    home = ROOT / "syclsched" / "devices" / "native" if sources is None else sources
    found = folder / driver
    command = [compiler, "-g", "-O1", "-pthread", "-Wall", "-Wextra", "-Werror", *sanitizers]
    drivers = ROOT / "tests" / "devices"
    shared = [
        repr(command).encode(),
        *(file.read_bytes() for file in (*sorted(home.glob("*.h")), *drivers.glob("*.h"))),
    ]
    compiled = []
    for source in (*sorted(home.glob("_submit*.c")), drivers / f"{driver}.c"):
        digest = hashlib.sha256(b"\0".join([*shared, source.read_bytes()])).hexdigest()[:16]
        compiled.append(str((objects or folder) / f"{source.stem}.{digest}.o"))
        if not Path(compiled[-1]).exists():
            one = [*command, f"-I{home}", "-c", str(source), "-o", compiled[-1]]
            subprocess.run(one, check=True, timeout=300)
    subprocess.run([*command, *compiled, "-o", str(found)], check=True, timeout=300)
    return found


def main() -> int:
    """Build and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--first", type=int, default=0, help="seed of the first sequence")
    parser.add_argument("--sequences", type=int, default=100_000, help="how many")
    parser.add_argument("--valgrind", action="store_true", help="run under valgrind, built without sanitizers")
    parser.add_argument("--threads", action="store_true", help="try threads, 50 times fewer sequences")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        sanitizers = [] if given.valgrind else THREAD_SANITIZER if given.threads else SANITIZERS
        for driver in ("fuzz_threads", "fuzz_helpers") if given.threads else ("fuzz_submission",):
            program = build(Path(folder), sanitizers=sanitizers, driver=driver)
            command = [str(program), str(given.first), str(given.sequences // (50 if given.threads else 1))]
            if given.valgrind:
                valgrind = shutil.which("valgrind")
                if valgrind is None:
                    print("valgrind is not installed", file=sys.stderr)
                    return 2
                command = [valgrind, "--quiet", "--error-exitcode=1", "--leak-check=full", *command]
            status = subprocess.run(command, check=False).returncode
            if status != 0:
                return status
    return 0


if __name__ == "__main__":
    sys.exit(main())
