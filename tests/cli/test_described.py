# SPDX-License-Identifier: Apache-2.0
"""plan, run --dry-run, simulate and trace on described hardware, and errors for every kind of bad input."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from support.commands import call, refused

from syclsched.model.plan import Plan

SMALL = ("cholesky", "--n", 256, "--tile", 64)


@pytest.fixture
def plan_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    path = tmp_path / "plan.json"
    done = call(capsys, "plan", *SMALL, "--platform", "xeon-8480,max1550", "--policy", "heft", "--out", path)
    assert done.code == 0, done.err
    return path


def test_dry_run_on_hardware_that_is_not_here(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    done = call(
        capsys, "run", *SMALL, "--platform", "xeon-8480,max1550", "--dry-run", "--json",
        "--gantt", tmp_path / "g.png", "--trace", tmp_path / "t.json", "--record", tmp_path / "r.json",
    )  # fmt: skip
    assert done.code == 0, done.err
    summary = json.loads(done.out)
    assert summary["simulated"] and summary["makespan_s"] > 0
    assert summary["makespan_s"] <= min(c["makespan_s"] for c in summary["candidates"] if c["makespan_s"]) * 1.0001
    assert sum(n for places in summary["where"].values() for n in places.values()) == 20
    assert (tmp_path / "g.png").read_bytes().startswith(b"\x89PNG")
    assert json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    shown = call(capsys, "trace", tmp_path / "r.json")
    assert shown.code == 0 and "potrf" in shown.out


def test_described_hardware_refuses_runs(capsys: pytest.CaptureFixture[str]) -> None:
    assert "--dry-run" in refused(capsys, "run", *SMALL, "--platform", "max1550")


@pytest.mark.parametrize("graph", ["cholesky", "mlp", "stencil"])
@pytest.mark.parametrize("policy", ["auto", "heft", "single:max1550"])
def test_every_graph_and_policy_plans(capsys: pytest.CaptureFixture[str], graph: str, policy: str) -> None:
    small = {"cholesky": ("--n", 128, "--tile", 64), "mlp": ("--batch", 64), "stencil": ("--n", 64, "--steps", 2)}
    done = call(capsys, "plan", graph, *small[graph], "--platform", "cpu,max1550", "--policy", policy)
    assert done.code == 0, done.err
    assert graph in done.out and "max1550" in done.out


def test_explain(capsys: pytest.CaptureFixture[str]) -> None:
    done = call(capsys, "plan", *SMALL, "--platform", "cpu,max1550", "--explain", "gemm(3,2,1)")
    assert done.code == 0, done.err
    assert "gemm(3,2,1)" in done.out and "max1550" in done.out


def test_simulate_a_plan_file(capsys: pytest.CaptureFixture[str], plan_file: Path) -> None:
    done = call(capsys, "simulate", plan_file)
    assert done.code == 0, done.err
    assert "potrf" in done.out


def test_dropped_dependency_is_refused_naming_both_tasks(capsys: pytest.CaptureFixture[str], plan_file: Path) -> None:
    document = json.loads(plan_file.read_text())
    dropped = 0
    for lane in document["lanes"]:
        for waits in lane["instructions"].get("waits", ()):
            if not waits:
                continue
            kept = waits.pop(0)
            plan_file.write_text(json.dumps(document))
            text = refused(capsys, "simulate", plan_file)
            assert "nothing orders them" in text and "task" in text and "array" in text
            waits.insert(0, kept)
            dropped += 1
            if dropped == 5:
                return
    assert dropped


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda text: text[: len(text) // 2], "Invalid JSON"),
        (lambda text: text.replace('"launch"', '"lunch"', 1), "lunch"),
        (lambda text: text.replace('"latency_s": ', '"latency_s": -', 1), "greater than or equal to 0"),
        (lambda text: text.replace('"format": "syclsched-plan/2"', '"format": "pickle"'), "syclsched-plan/2"),
        (lambda text: "[]", "Plan"),
    ],
)
def test_a_damaged_plan_names_file_place_and_expectation(
    capsys: pytest.CaptureFixture[str], plan_file: Path, change: object, expected: str
) -> None:
    text = plan_file.read_text()
    changed = change(text)  # type: ignore[operator]
    assert changed != text
    plan_file.write_text(changed)
    said = refused(capsys, "simulate", plan_file)
    assert expected in said and "plan.json" in said


def test_a_plan_of_another_size_is_refused(capsys: pytest.CaptureFixture[str], plan_file: Path) -> None:
    text = refused(capsys, "run", "cholesky", "--n", 512, "--tile", 64, "--plan", plan_file, "--dry-run")
    assert "another graph" in text


def test_a_plan_read_back_is_the_same(plan_file: Path) -> None:
    plan = Plan.from_json(plan_file.read_text())
    assert plan.to_json() == plan_file.read_text()


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("run", "choleski"), "cholesky"),
        (("run", "cholesky", "--steps", 3), "--steps"),
        (("run", "mlp", "--sizes", "784,x"), "--sizes"),
        (("run", "cholesky", "--platform", "max9999", "--dry-run"), "max9999"),
        (("run", "cholesky", "--platform", "cpu", "--dry-run", "--policy", "best"), "heft"),
        (("run", "cholesky", "--platform", "cpu", "--dry-run", "--lanes", "many"), "--lanes"),
        (("run", "cholesky", "--platform", "", "--dry-run"), "platform"),
        (("simulate", "no/such/plan.json"), "No such file"),
        (("run", "cholesky", "--input", "no/such.npy"), "such.npy"),
        (("run", "cholesky", "--n", 64, "--platform", "cpu", "--dry-run", "--gantt", "no/such/folder.png"), "folder"),
    ],
)
def test_bad_input_is_an_error_with_exit_code_2(
    capsys: pytest.CaptureFixture[str], arguments: tuple[object, ...], expected: str
) -> None:
    assert expected in refused(capsys, *arguments)


def test_a_corrupt_profile_names_file_and_place(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    from syclsched.model.text.json_serialisation import to_json
    from syclsched.profiling import load_profile

    good = to_json(load_profile("max1550"))
    path = tmp_path / "broken.json"
    for bad in (
        good[:200],
        good.replace('"value": ', '"value": -', 1),
        good.replace('"origin": "spec-sheet"', '"origin": "rumour"'),
        "{}",
    ):
        assert bad != good
        path.write_text(bad)
        said = refused(capsys, "run", *SMALL, "--dry-run", "--platform", path)
        assert "broken.json" in said


def test_a_matrix_that_is_not_symmetric_is_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.triu(np.ones((8, 8))))
    assert "symmetric" in refused(
        capsys, "run", "cholesky", "--input", tmp_path / "a.npy", "--platform", "cpu", "--dry-run"
    )


def test_usage_errors_have_exit_code_2(capsys: pytest.CaptureFixture[str]) -> None:
    done = call(capsys, "run", "cholesky", "--no-such-option")
    assert done.code == 2 and "Traceback" not in done.err


def test_the_traceback_is_shown_on_request(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    from syclsched.cli.main import main
    from syclsched.errors import ArgumentError

    monkeypatch.setattr(sys, "argv", ["syclsched", "run", "choleski", "--traceback"])
    with pytest.raises(ArgumentError):
        main()
