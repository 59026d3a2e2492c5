# SPDX-License-Identifier: Apache-2.0
"""Repetition of the tests with one marker in another setting: other variables, or pytest's own options."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent


def marked_files(marker: str) -> list[str]:
    """Return the files with marked tests: collecting all others takes longer than many of these tests."""
    paths = sorted((ROOT / "tests").rglob("test_*.py"))
    return [str(path.relative_to(ROOT)) for path in paths if f"mark.{marker}" in path.read_text(encoding="utf-8")]


def repeat(marker: str, options: Sequence[str], variables: Mapping[str, str], name: str) -> bool:
    """Run the marked tests with these options and variables, and print the time; return whether all passed."""
    started_s = time.monotonic()
    command = [sys.executable, "-m", "pytest", "-m", marker, *options, *marked_files(marker)]
    passed = subprocess.run(command, cwd=ROOT, env={**os.environ, **variables}, check=False).returncode == 0
    print(f"{name}: {time.monotonic() - started_s:.0f} s", flush=True)
    return passed
