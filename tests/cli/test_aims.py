# SPDX-License-Identifier: Apache-2.0
"""Objectives, constraints and gaps on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.commands import call

from syclsched.model.plan import Plan

GRAPH = ("cholesky", "--n", "1024", "--tile", "256", "--platform", "xeon-8480,max1550")


def test_plan_under_constraints(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    out = tmp_path / "plan.json"
    limits = ("--subject-to", "memory[max1550] <= 2MiB", "--subject-to", "makespan <= 10s")
    done = call(capsys, "plan", *GRAPH, "--minimize", "throughput", *limits, "--out", out)
    assert done.code == 0, done.err
    assert "above the optimum" in done.out
    assert "minimize interval subject to memory[max1550] <= 2.000 MiB, makespan <= 10.00 s" in done.out
    plan = Plan.from_json(out.read_text())
    assert plan.peak_bytes.get("max1550", 0) <= 2 * 2**20
    simulated = call(capsys, "simulate", out)
    assert "above the optimum" in simulated.out


@pytest.mark.parametrize("command", ["plan --policy", "compare --policies", "simulate --policies"])
def test_plans_keep_to_a_limit_on_memory(capsys: pytest.CaptureFixture[str], command: str) -> None:
    name, option = command.split()
    limit = ("--memory-limit", "max1550=1MiB,xeon-8480=1MiB")  # two of the three arrays of a task
    done = call(capsys, name, *GRAPH, *limit, option, "single:max1550")
    assert "needed at once, there are" in " ".join(done.err.split() + done.out.split())


def test_the_plan_that_is_written_has_the_limit(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    out = tmp_path / "plan.json"
    done = call(capsys, "plan", *GRAPH, "--policy", "heft", "--memory-limit", "max1550=2MiB", "--out", out)
    assert done.code == 0, done.err
    plan = Plan.from_json(out.read_text())
    assert plan.platform.space("max1550").capacity_bytes == 2 * 2**20
    assert plan.peak_bytes.get("max1550", 0) <= 2 * 2**20


def test_mistakes_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, message in (
        (("--minimize", "speed"), "no metric 'speed'"),
        (("--subject-to", "makespan <= 20"), "'20' has no unit"),
        (("--subject-to", "memory[gpu] <= 1GiB"), "no memory space 'gpu'"),
        (("--subject-to", "makespan <= 1ns"), "the least makespan found"),
        (("--memory-limit", "gpu=1GiB"), "there is no memory 'gpu'"),
        (("--memory-limit", "max1550=1,5GiB"), "is not a list of sizes by name"),
    ):
        outcome = call(capsys, "plan", *GRAPH, *arguments)
        assert outcome.code == 2
        assert message in " ".join(outcome.err.split())
        assert "Traceback" not in outcome.err


def test_dry_runs_and_simulations_respect_constraints(capsys: pytest.CaptureFixture[str]) -> None:
    limits = ("--subject-to", "memory[max1550] <= 2MiB", "--json")
    ran = call(capsys, "run", *GRAPH, "--dry-run", *limits)
    assert ran.code == 0, ran.err
    report = json.loads(ran.out)
    assert report["gap"] == pytest.approx(report["predicted_makespan_s"] / report["lower_bound_s"] - 1.0)
    what_if = call(capsys, "simulate", *GRAPH, "--policies", "auto", "--subject-to", "makespan <= 1ns", "--json")
    rows = json.loads(what_if.out)["rows"]
    assert all("the least makespan found" in row["refused"] for row in rows)


def test_a_front_is_printed_and_drawn(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    picture = tmp_path / "front.png"
    done = call(capsys, "plan", *GRAPH, "--front", picture, "--front-metrics", "makespan,memory[max1550]")
    assert done.code == 0, done.err
    assert "Pareto front of cholesky" in done.out
    heading = next(line for line in done.out.splitlines() if "gap" in line)
    assert heading.count("makespan") == 1 and "memory" in heading
    assert picture.read_bytes().startswith(b"\x89PNG")
    wrong = call(capsys, "plan", *GRAPH, "--front", picture, "--front-metrics", "makespan")
    assert wrong.code == 2
    assert "is not two metrics" in wrong.err


def test_the_gap_of_a_table_is_that_of_the_plan(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    out = tmp_path / "plan.json"
    small = ("cholesky", "--n", "256", "--tile", "128", "--platform", "xeon-8480,max1550")
    assert call(capsys, "plan", *small, "--policy", "heft", "--out", out).code == 0
    plan = Plan.from_json(out.read_text())
    (row,) = json.loads(call(capsys, "compare", *small, "--policies", "heft", "--json").out)["rows"]
    assert (row["bound_s"], row["makespan_s"]) == (plan.lower_bound_s, plan.makespan_s)
    assert row["gap"] == plan.gap


def test_a_budget_is_seconds_of_search(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    makespans = []
    for budget in ("0", "0.3"):
        out = tmp_path / "plan.json"
        done = call(capsys, "plan", *GRAPH, "--budget", budget, "--out", out)
        assert done.code == 0, done.err
        plan = Plan.from_json(out.read_text())
        makespans.append(plan.makespan_s)
        assert budget != "0" or not any(c.policy.startswith("refined") for c in plan.candidates)
    assert makespans[1] <= makespans[0]
    assert call(capsys, "plan", *GRAPH, "--budget", "-1").code == 2
