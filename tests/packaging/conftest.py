# SPDX-License-Identifier: Apache-2.0
"""A copy of the project, and the distributions built from it once for all tests here."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
#: Files that a fresh clone does not have, or that are large and not needed by a build.
_LEFT_OUT = shutil.ignore_patterns(
    ".*", "__pycache__", "*.so", "*.egg-info", "build", "dist", "venv", "_build", "tests", "benchmarks"
)

Run = Callable[..., str]


@pytest.fixture(scope="session")
def run() -> Run:
    """Run a command and return what it prints; a failure shows all of its output."""

    def command(*words: object, cwd: Path, environment: dict[str, str] | None = None) -> str:
        ended = subprocess.run(
            [str(word) for word in words], cwd=cwd, env=environment, capture_output=True, text=True, check=False
        )
        assert ended.returncode == 0, f"{words}\n{ended.stdout}\n{ended.stderr}"
        return ended.stdout

    return command


@pytest.fixture(scope="session")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A clean copy of the project; a build in it leaves the original unchanged."""
    copy = tmp_path_factory.mktemp("checkout") / "project"
    shutil.copytree(ROOT, copy, ignore=_LEFT_OUT)
    return copy


@pytest.fixture(scope="session")
def distributions(checkout: Path, run: Run) -> Path:
    """A folder with the sdist, and with the wheel that is built from it and not from the checkout.

    Without machine code, which would take a minute.
    """
    folder, without = checkout.parent / "distributions", {**os.environ, "SYCLSCHED_MACHINE_CODE": "off"}
    command = (sys.executable, "-m", "build", "--no-isolation", "--skip-dependency-check", "--outdir", folder)
    run(*command, cwd=checkout, environment=without)
    return folder


@pytest.fixture(scope="session")
def installed(distributions: Path, run: Run) -> Path:
    """A folder with the installed wheel."""
    folder = distributions.parent / "installed"
    (wheel,) = distributions.glob("*.whl")
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "install")
    run(*pip, "--quiet", "--no-deps", "--no-index", "--target", folder, wheel, cwd=distributions)
    return folder
