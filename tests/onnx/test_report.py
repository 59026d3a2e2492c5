# SPDX-License-Identifier: Apache-2.0
"""Task names in reports: by the model's operators, also for merged and divided tasks."""

from __future__ import annotations

from pathlib import Path

import pytest

import syclsched
from syclsched.onnx.report import planned_times

pytest.importorskip("onnx", reason="the models are ONNX models")

MODEL = Path(__file__).parents[2] / "examples" / "data" / "digits.onnx"


def test_merged_tasks_are_named_after_all_they_do() -> None:
    found = syclsched.onnx.load(MODEL, shapes={"batch": 64}).specialised({"image": (64, 1, 8, 8)})
    plan = syclsched.plan(found.graph, syclsched.describe(["cpu", "max1550"]), rewrite="coarsen")
    assert plan.recipe.merges
    operators = {each.task: each.operator for each in planned_times(plan, found.origins)}
    for merge in plan.recipe.merges:
        assert operators[merge.name] == " + ".join(o for task in merge.tasks for o in found.origins[task])
    whole = sorted(part for text in operators.values() for part in text.split(" + "))
    assert whole == sorted(o for origin in found.origins.values() for o in origin)
