# SPDX-License-Identifier: Apache-2.0
"""Execution of Python code in processes without settings, like those of a new user."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Fresh = Callable[..., Any]


@pytest.fixture
def fresh(tmp_path: Path) -> Fresh:
    """Run code in a new process and return the JSON document it prints last."""

    def run(code: str, *, cache: Path | None = None, **variables: str) -> Any:
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(tmp_path),
            "PYTHONPATH": os.pathsep.join(each for each in sys.path if each),
            "XDG_CACHE_HOME": str(cache if cache is not None else tmp_path / "cache"),
            **variables,
        }
        ended = subprocess.run(
            [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False, timeout=300
        )
        assert ended.returncode == 0, ended.stderr
        return json.loads(ended.stdout.splitlines()[-1])

    return run
