# SPDX-License-Identifier: Apache-2.0
"""Record of the graphs that are planned during a test."""

from __future__ import annotations

from typing import Any

import pytest

from syclsched.model.graph import TaskGraph
from syclsched.planner import graph_planner


def record_planned(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list to which the name of each planned graph is added."""
    names: list[str] = []
    plan_contenders = graph_planner.plan_contenders

    def counted(graph: TaskGraph, *args: Any, **named: Any) -> Any:
        names.append(graph.name)
        return plan_contenders(graph, *args, **named)

    monkeypatch.setattr(graph_planner, "plan_contenders", counted)
    return names
