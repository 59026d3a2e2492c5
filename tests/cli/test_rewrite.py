# SPDX-License-Identifier: Apache-2.0
"""``--rewrite``: plans with cut and merged tasks, and stored plans of this kind."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.commands import call

from syclsched.model.plan import Plan

#: Two tasks of hundreds of microseconds, and two devices.
MLP = ("mlp", "--batch", 16384, "--sizes", "512,512,10", "--chunks", 1)
WHERE = ("--platform", "max1100,a770")


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from syclsched import workloads
    from syclsched.api import describe, plan

    kind = workloads.get("mlp")
    graph = kind.build(kind.options(batch=16384, sizes=(512, 512, 10), chunks=1)).graph
    path = tmp_path_factory.mktemp("stored") / "plan.json"
    path.write_text(plan(graph, describe(["max1100", "a770"]), rewrite="split").to_json())
    return path


@pytest.mark.parametrize(("how", "cut"), [("auto", True), ("split", True), ("coarsen", False), ("none", False)])
def test_plan_reports_whether_tasks_were_cut(capsys: pytest.CaptureFixture[str], how: str, cut: bool) -> None:
    outcome = call(capsys, "plan", *MLP, *WHERE, "--rewrite", how)
    assert outcome.code == 0
    assert ("2 tasks cut into" in outcome.out) is cut


def test_a_stored_plan_runs_with_the_graph_that_was_given(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, stored: Path
) -> None:
    plan = Plan.from_json(stored.read_text())
    assert plan.recipe.cuts and plan.original_fingerprint is not None
    outcome = call(capsys, "run", *MLP, "--plan", stored, "--dry-run", "--json", "--gantt", tmp_path / "run.png")
    assert outcome.code == 0, outcome.err
    summary = json.loads(outcome.out)
    assert summary["rewritten"] == str(plan.recipe)
    assert summary["makespan_s"] == pytest.approx(plan.makespan_s)
    assert (tmp_path / "run.png").stat().st_size > 0
    outcome = call(capsys, "simulate", stored)
    assert outcome.code == 0 and "dense" in outcome.out
    outcome = call(capsys, "run", "mlp", "--batch", 8192, "--sizes", "512,512,10", "--plan", stored, "--dry-run")
    assert outcome.code == 2 and "another graph" in outcome.err


def test_families_of_a_rewritten_plan_are_not_misjudged(capsys: pytest.CaptureFixture[str], stored: Path) -> None:
    outcome = call(capsys, "simulate", stored, "--wrong", "dense=2")
    assert outcome.code == 2 and "no longer of family 'dense'" in outcome.err
    for wrong in ("copy=2", "random:2"):
        assert call(capsys, "simulate", stored, "--wrong", wrong).code == 0


def test_a_stored_recipe_that_was_changed_is_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, stored: Path
) -> None:
    document = json.loads(stored.read_text())
    document["recipe"]["cuts"][0]["rows"].reverse()
    (tmp_path / "changed.json").write_text(json.dumps(document))
    outcome = call(capsys, "run", *MLP, "--plan", tmp_path / "changed.json", "--dry-run")
    assert outcome.code == 2 and "recipe does not fit" in outcome.err
    document["recipe"]["cuts"][0]["rows"] = [1]
    (tmp_path / "changed.json").write_text(json.dumps(document))
    outcome = call(capsys, "run", *MLP, "--plan", tmp_path / "changed.json", "--dry-run")
    assert outcome.code == 2 and "recipe.cuts.0.rows" in outcome.err


def test_explain_takes_the_names_of_the_graph_that_was_given(capsys: pytest.CaptureFixture[str]) -> None:
    outcome = call(capsys, "plan", *MLP, *WHERE, "--rewrite", "split", "--explain", "dense(1,0)")
    assert outcome.code == 0
    assert "dense(1,0): cut into chunks, in" in outcome.out
    assert "dense(1,0)[0:" in outcome.out


def test_compare_and_simulate_show_rewrites(capsys: pytest.CaptureFixture[str]) -> None:
    outcome = call(capsys, "compare", *MLP, *WHERE, "--policies", "heft,auto", "--json")
    rows = {row["policy"]: row for row in json.loads(outcome.out)["rows"]}
    assert rows["heft"]["rewritten"] is None and "cut into" in rows["auto"]["rewritten"]
    assert rows["auto"]["makespan_s"] < rows["heft"]["makespan_s"]
    assert all(row["makespan_s"] >= row["bound_s"] for row in rows.values())
    outcome = call(capsys, "compare", *MLP, *WHERE, "--policies", "heft", "--rewrite", "both")
    assert "heft: rewritten, 2 tasks cut into" in outcome.out
    outcome = call(capsys, "simulate", *MLP, *WHERE, "--policies", "heft", "--rewrite", "split", "--json")
    rows = {row["platform"]: row for row in json.loads(outcome.out)["rows"]}
    assert "cut into" in rows["max1100,a770"]["rewritten"]


def test_an_unknown_rewrite_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    outcome = call(capsys, "plan", *MLP, *WHERE, "--rewrite", "melt")
    assert outcome.code == 2
    assert "'melt'" in outcome.err and "coarsen" in outcome.err
