# SPDX-License-Identifier: Apache-2.0
"""The example of rewrites as a user runs it, and its output."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "split_work.py"


def test_both_graphs_are_faster_rewritten() -> None:
    ended = subprocess.run([sys.executable, str(EXAMPLE)], capture_output=True, text=True, check=False, timeout=300)
    assert ended.returncode == 0, ended.stderr
    times = [float(found) for found in re.findall(r"([\d.]+) ms on", ended.stdout)]
    assert len(times) == 4
    assert times[1] < 0.8 * times[0]
    assert times[3] < times[2]
    assert re.search(r"2 tasks cut into \d\d+ chunks", ended.stdout)
    assert re.search(r"(199|200) tasks merged into \d+\n", ended.stdout)
    assert "add50: done as a part of" in ended.stdout
