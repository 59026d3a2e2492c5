# SPDX-License-Identifier: Apache-2.0
"""plan, compare and simulate on graph files and described hardware."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from support.commands import CommandResult, call, refused
from support.graph_files import SAMPLES

from syclsched.cli.commands.simulate import platforms_of
from syclsched.cli.views.comparison import ComparisonRow, notes, policy_names, table
from syclsched.model.plan import Plan

PLATFORM = ("--platform", "xeon-8480,max1550")

#: Four tasks of 1 s and a fifth after them; each device alone takes 5 s if all are equally fast.
FORK = "5\n0 0 0\n1 1 1 0\n2 1 1 0\n3 1 1 0\n4 1 1 0\n5 1 4 1 2 3 4\n6 0 1 5\n"


@pytest.fixture
def fork(tmp_path: Path) -> Path:
    path = tmp_path / "fork.stg"
    path.write_text(FORK)
    return path


def done(capsys: pytest.CaptureFixture[str], *arguments: object) -> CommandResult:
    outcome = call(capsys, *arguments)
    assert outcome.code == 0, outcome.err
    return outcome


@pytest.mark.parametrize("name", SAMPLES)
def test_plan_takes_every_format(capsys: pytest.CaptureFixture[str], tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(SAMPLES[name])
    out, chart = tmp_path / "plan.json", tmp_path / "plan.png"
    page = tmp_path / "plan.html"
    done(capsys, "plan", path, *PLATFORM, "--policy", "heft", "--out", out, "--gantt", chart, "--report", page)
    assert "heft" in page.read_text() and "Timeline" in page.read_text()
    plan = Plan.from_json(out.read_text())
    assert plan.makespan_s > 0
    assert chart.read_bytes().startswith(b"\x89PNG")
    assert "Plan of" not in done(capsys, "simulate", out).err


def test_same_speed_and_time_unit(capsys: pytest.CaptureFixture[str], fork: Path, tmp_path: Path) -> None:
    out = tmp_path / "plan.json"
    options = ("--same-speed", "--time-unit", 1, "--policy", "heft", "--out", out)
    done(capsys, "plan", fork, *PLATFORM, *options)
    # Two devices do two tasks each, then one does the last; beside the seconds there are microseconds of submission.
    assert Plan.from_json(out.read_text()).makespan_s == pytest.approx(3.0, rel=1e-3)


def test_compare_ranks_policies(capsys: pytest.CaptureFixture[str], fork: Path, tmp_path: Path) -> None:
    chart = tmp_path / "chart.svg"
    options = ("--same-speed", "--time-unit", 1, "--policies", "single:xeon-8480,heft,single:nowhere", "--chart", chart)
    shown = done(capsys, "compare", fork, *PLATFORM, *options).out
    lines = shown.splitlines()
    places = [next(i for i, line in enumerate(lines) if line.startswith(name)) for name in ("heft", "single:xeon")]
    assert places == sorted(places)
    assert "nowhere" in lines[-2] or "nowhere" in shown
    assert "refused" in shown
    assert "<svg" in chart.read_text()


def test_compare_as_json(capsys: pytest.CaptureFixture[str], fork: Path) -> None:
    shown = done(capsys, "compare", fork, *PLATFORM, "--same-speed", "--time-unit", 1, "--json")
    found = json.loads(shown.out)
    assert (found["graph"], found["tasks"]) == ("fork", 7)
    rows = {row["policy"]: row for row in found["rows"]}
    assert {"auto", "heft", "single:xeon-8480", "single:max1550"} <= rows.keys()
    spans = [row["makespan_s"] for row in found["rows"] if row["makespan_s"] is not None]
    assert spans == sorted(spans)
    assert rows["auto"]["makespan_s"] <= min(spans) * 1.001
    assert rows["single:max1550"]["makespan_s"] == pytest.approx(5.0, rel=1e-3)
    assert rows["single:max1550"]["utilisation"] == pytest.approx(0.5, rel=1e-2)
    assert all(row["planning_s"] > 0 for row in found["rows"])
    for row in rows.values():
        if row["bound_s"] is not None and row["makespan_s"] is not None:
            assert row["makespan_s"] >= row["bound_s"] * (1 - 1e-9)
            assert row["gap"] == pytest.approx(row["makespan_s"] / row["bound_s"] - 1)


def test_compare_takes_ready_graphs(capsys: pytest.CaptureFixture[str]) -> None:
    shown = done(
        capsys,
        "compare",
        "cholesky",
        "--n",
        256,
        "--tile",
        64,
        *PLATFORM,
        "--policies",
        "heft",
        "--policies",
        "single:max1550",
    ).out
    assert "20 tasks" in shown and "single:max1550" in shown


def test_two_fastest_plans_on_one_page(capsys: pytest.CaptureFixture[str], fork: Path, tmp_path: Path) -> None:
    page = tmp_path / "two.html"
    policies = "single:max1550,heft,single:xeon-8480"
    shown = done(capsys, "compare", fork, "--platform", "xeon-8480,max1550", "--policies", policies, "--report", page)
    ranked = [line.split()[0] for line in shown.out.splitlines()[2:5]]
    assert set(ranked) == set(policies.split(","))
    text = page.read_text()
    assert [f"<h2>{name}</h2>" in text for name in ranked] == [True, True, False]
    assert f"<td>{ranked[2]}</td>" in text  # the table has all policies


def test_what_if(capsys: pytest.CaptureFixture[str], fork: Path, tmp_path: Path) -> None:
    chart, gantt = tmp_path / "chart.png", tmp_path / "gantt.png"
    options = ("--same-speed", "--time-unit", 1, "--policies", "heft", "--chart", chart, "--gantt", gantt, "--json")
    options += ("--report", tmp_path / "fastest.html")
    shown = done(capsys, "simulate", fork, *PLATFORM, *options)
    rows = {row["platform"]: row["makespan_s"] for row in json.loads(shown.out)["rows"]}
    assert rows.keys() == {"xeon-8480", "max1550", "xeon-8480,max1550"}
    assert rows["xeon-8480"] == pytest.approx(5.0, rel=1e-3)
    assert rows["xeon-8480,max1550"] == pytest.approx(3.0, rel=1e-3)
    for path in (chart, gantt):
        assert path.read_bytes().startswith(b"\x89PNG")
    assert "3.000 s" in (tmp_path / "fastest.html").read_text()


def test_what_if_on_chosen_platforms(capsys: pytest.CaptureFixture[str], fork: Path) -> None:
    options = ("--platform", "max1550,a770", "--platform", "xeon-8480", "--lanes", "xeon-8480=4", "--policies", "heft")
    shown = done(capsys, "simulate", fork, *options).out
    assert [line.split()[0] for line in shown.splitlines()[2:4]] == ["max1550,a770", "xeon-8480"]


def test_the_platforms_of_one_list_are_each_alone_and_all() -> None:
    assert platforms_of(["a, b,c"]) == ("a", "b", "c", "a,b,c")
    assert platforms_of(["a"]) == ("a",)
    assert platforms_of(["a,b", "c", "a,b"]) == ("a,b", "c")


@pytest.mark.parametrize(
    ("command", "options", "expected"),
    [
        ("plan", (*PLATFORM, "--max-tasks", 3), "--max-tasks"),
        ("plan", (*PLATFORM, "--max-edges", 3), "--max-edges"),
        ("plan", (*PLATFORM, "--max-file-mib", 0), "--max-file-mib"),
        ("plan", (*PLATFORM, "--n", 3), "--n does not belong to"),
        ("plan", (*PLATFORM, "--format", "dot"), "expected digraph"),
        ("plan", (*PLATFORM, "--format", "word"), "no format 'word'"),
        ("plan", (*PLATFORM, "--time-unit", -1), "unit of time"),
        ("compare", (*PLATFORM, "--policies", "heft,best"), "no policy 'best'"),
        ("compare", (*PLATFORM, "--policies", ","), "no policy is named"),
        ("compare", (*PLATFORM, "--policies", "single:nowhere"), "nowhere"),
        ("compare", (*PLATFORM, "--policies", "heft", "--chart", "no/such/chart.png"), "chart"),
        ("compare", (*PLATFORM, "--policies", "hybrid:"), "policy 'hybrid:'"),
        ("compare", (*PLATFORM, "--policies", "hybrid:eager"), "'eager' makes no plan that it could follow"),
        ("compare", (*PLATFORM, "--policies", "hybrid:best"), "hybrid:peft"),
        ("plan", (*PLATFORM, "--explain", "T33"), "no task 'T33'"),
        ("simulate", (), "--platform"),
        ("simulate", ("--platform", "max9999"), "max9999"),
        ("run", ("--platform", "cpu", "--dry-run"), "it can be planned and simulated, not run"),
    ],
)
def test_bad_input_is_an_error_with_exit_code_2(
    capsys: pytest.CaptureFixture[str], fork: Path, command: str, options: tuple[object, ...], expected: str
) -> None:
    assert expected in refused(capsys, command, fork, *options)


def test_unwritable_outputs_are_refused_before_planning(
    capsys: pytest.CaptureFixture[str], fork: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("syclsched.planner.plan_graph", None)
    missing, closed = tmp_path / "no" / "file", tmp_path / "closed"
    (tmp_path / "taken.png").mkdir()
    closed.mkdir(mode=0o500)
    for command, option in (
        ("plan", "--out"), ("plan", "--gantt"), ("plan", "--front"), ("compare", "--chart"),
        ("simulate", "--chart"), ("simulate", "--trace"), ("simulate", "--gantt"), ("simulate", "--report"),
        ("plan", "--report"), ("compare", "--report"),
    ):  # fmt: skip
        for path, expected in (
            (missing.with_suffix(".png"), "there is no folder"), (tmp_path / "taken.png", "it is a folder"),
            (fork / "x.png", "is not a folder"),
            *([(closed / "x.png", "Permission denied")] if os.geteuid() else []),
        ):  # fmt: skip
            assert expected in refused(capsys, command, fork, *PLATFORM, option, path)
        if option not in ("--out", "--trace", "--report"):
            assert "format 'xyz'" in refused(capsys, command, fork, *PLATFORM, option, tmp_path / "x.xyz")


def test_a_plan_can_be_written_to_a_pipe(capsys: pytest.CaptureFixture[str], fork: Path, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        done(capsys, "plan", fork, "--platform", "cpu", "--policy", "heft", "--out", pipe)
        assert os.read(read, 1 << 20).startswith(b"{")
    finally:
        os.close(read)


def test_attributes_can_be_named(capsys: pytest.CaptureFixture[str], tmp_path: Path, fork: Path) -> None:
    (tmp_path / "g.dot").write_text("digraph { a [time=5]; b [time=3]; a -> b [size=4] }")
    assert "--task-cost" in refused(capsys, "plan", tmp_path / "g.dot", *PLATFORM)
    out = tmp_path / "plan.json"
    named = ("--task-cost", "time", "--edge-cost", "size", "--time-unit", 1, "--same-speed", "--out", out)
    done(capsys, "plan", tmp_path / "g.dot", *PLATFORM, "--policy", "heft", *named)
    assert Plan.from_json(out.read_text()).makespan_s == pytest.approx(8.0, rel=1e-3)
    assert "DOT and GraphML" in refused(capsys, "compare", fork, *PLATFORM, "--edge-cost", "size")


def test_a_plan_is_no_graph(capsys: pytest.CaptureFixture[str], fork: Path, tmp_path: Path) -> None:
    out = tmp_path / "plan.json"
    done(capsys, "plan", fork, *PLATFORM, "--policy", "heft", "--out", out)
    for command in ("simulate", "plan"):
        assert "it is a plan, not a graph" in refused(capsys, command, out, *PLATFORM)


def test_all_policies_in_a_loop_are_listed_once(fork: Path) -> None:
    from syclsched import describe, read_graph

    graph, platform = read_graph(fork), describe(["max1550"])
    planned, in_loop = policy_names(["all"], graph, platform), policy_names(["all"], graph, platform, in_loop=True)
    assert "dynamic:eager" in planned and "eager" not in planned
    assert "eager" in in_loop and not any(name.startswith("dynamic:") for name in in_loop)
    assert len(set(in_loop)) == len(in_loop)


def test_other_bad_input(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert "no ready graph and no file 'fork'" in refused(capsys, "compare", "fork", *PLATFORM)
    assert "a file: an ONNX model, which ends in .onnx" in refused(capsys, "run", "resnet50")
    assert "missing.json" in refused(capsys, "plan", tmp_path / "missing.json", *PLATFORM)
    assert "--max-tasks does not belong to cholesky" in refused(capsys, "plan", "cholesky", *PLATFORM, "--max-tasks", 9)
    assert "it is a graph, not a plan" in refused(capsys, "simulate", "cholesky")
    (tmp_path / "g.dot").write_text("digraph {\n a }")
    assert "g.dot, line 2: error" not in (text := refused(capsys, "compare", tmp_path / "g.dot", *PLATFORM))
    assert "task 'a' has no cost" in text and "g.dot, line 2" in text


def test_a_task_that_fits_no_device_is_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "g.dot").write_text("digraph { a [seconds_h100=1] }")
    text = refused(capsys, "plan", tmp_path / "g.dot", *PLATFORM)
    assert "costs are stated for h100 only" in text


def test_names_from_files_are_no_markup(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "g.dot").write_text('digraph "[red]x[/blue]" { a [seconds=1] }')
    assert "[red]x[/blue]" in done(capsys, "compare", tmp_path / "g.dot", *PLATFORM, "--policies", "heft").out


def test_the_table_has_a_gap_only_where_there_is_a_bound() -> None:
    row = ComparisonRow("p", "heft", 3.0, 2.0, 0.5, 10, 0.01)
    assert row.gap == 0.5
    assert [c.header for c in table([row], platforms=True).columns] == [
        "platform", "policy", "makespan", "gap", "utilisation", "moved", "planning",
    ]  # fmt: skip
    unbounded = ComparisonRow("p", "heft", 3.0, None, 0.5, 10, 0.01)
    assert unbounded.gap is None
    assert "gap" not in [c.header for c in table([unbounded], platforms=False).columns]
    assert notes([row, ComparisonRow("p", "dls", None, 2.0, None, None, 0.01, "no")], platforms=True) == [
        "no schedule on p is shorter than 2.000 s",
        "p, dls: no",
    ]
