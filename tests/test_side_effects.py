# SPDX-License-Identifier: Apache-2.0
"""Host functions with side effects: called by runs only, once for each task."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import syclsched

pytestmark = pytest.mark.sycl


def test_a_first_run_calls_host_functions_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))  # no measurements of earlier runs
    called: list[str] = []

    def change(x: Any) -> None:
        called.append("change")
        x += 1

    def total(x: Any) -> float:
        called.append("total")
        return float(x.sum())

    graph = syclsched.TaskGraph("side effects")
    x = graph.array("x", data=np.zeros(4))
    graph.host(change, x=x.update())
    graph.submit(total, x)
    syclsched.calibrate(graph, syclsched.discover())
    assert called == []
    with syclsched.run(graph) as run:
        run.wait()
    assert called == ["change", "total"]
