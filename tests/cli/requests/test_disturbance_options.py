# SPDX-License-Identifier: Apache-2.0
"""Options of ``simulate`` for noise, slow-downs and failures: its output, and errors for wrong options."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.commands import CommandResult, call

from syclsched.cli.requests.disturbance_options import parse_seconds
from syclsched.errors import ArgumentError

GRAPH = ("cholesky", "--n", 256, "--tile", 64)
PLATFORM = ("--platform", "xeon-8480,max1550", "--platform", "max1550")


@pytest.fixture
def plan_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    path = tmp_path / "plan.json"
    done = call(capsys, "plan", *GRAPH, "--platform", "xeon-8480,max1550", "--policy", "heft", "--out", path)
    assert done.code == 0, done.err
    return path


def done(capsys: pytest.CaptureFixture[str], *arguments: object) -> CommandResult:
    outcome = call(capsys, "simulate", *arguments)
    assert outcome.code == 0, outcome.err
    return outcome


def rows(capsys: pytest.CaptureFixture[str], *arguments: object) -> dict[tuple[str, str], dict[str, object]]:
    document = json.loads(done(capsys, *GRAPH, *PLATFORM, *arguments, "--json").out)
    return {(row["platform"], row["policy"]): row for row in document["rows"]}


def refused(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    outcome = call(capsys, "simulate", *arguments)
    assert outcome.code == 2, outcome
    assert "Traceback" not in outcome.err
    return " ".join(outcome.err.split())


def test_static_and_dynamic_policies_in_one_table_and_chart(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    chart = tmp_path / "chart.svg"
    shown = done(
        capsys, *GRAPH, *PLATFORM, "--policy", "heft,dmdas,hybrid", "--noise", 0.3, "--wrong", "random:3", "--runs", 5,
        "--chart", chart,
    ).out  # fmt: skip
    assert shown.splitlines()[1].split() == ["platform", "policy", "makespan", "gap", "median", "MAD", "worst"]
    for policy in ("heft", "dmdas", "hybrid"):
        assert sum(f" {policy} " in line for line in shown.splitlines()) == 2
    drawn = chart.read_text()
    assert "median of 5 runs" in drawn and "dmdas" in drawn


def test_the_seed_decides(capsys: pytest.CaptureFixture[str]) -> None:
    options = ("--policies", "heft,hybrid,stealing", "--noise", 0.4)
    first, again = rows(capsys, *options, "--seed", 7), rows(capsys, *options, "--seed", 7)
    other = rows(capsys, *options, "--seed", 8)
    for key, row in first.items():
        assert row["median_s"] == again[key]["median_s"] != other[key]["median_s"]
        assert row["makespan_s"] == other[key]["makespan_s"]
    several = rows(capsys, *options, "--seed", 7, "--runs", 2)
    for key, row in several.items():
        both = [first[key]["median_s"], other[key]["median_s"]]
        assert row["worst_s"] == max(both)
        assert row["median_s"] == pytest.approx(sum(both) / 2)


def test_costs_that_are_wrong_for_a_family(capsys: pytest.CaptureFixture[str]) -> None:
    found = rows(capsys, "--policies", "heft", "--wrong", "gemm=50", "--wrong", "copy=2")
    for row in found.values():
        assert row["median_s"] > row["makespan_s"]
        assert (row["runs"], row["incomplete"], row["mad_s"]) == (1, 0, 0.0)


def test_a_failure_stops_plans_and_not_dynamic_policies(capsys: pytest.CaptureFixture[str]) -> None:
    options = ("--policies", "single:max1550,hybrid,eager", "--fail", "max1550@50us")
    found = rows(capsys, *options)
    for platform in ("max1550", "xeon-8480,max1550"):
        static = found[platform, "single:max1550"]
        assert (static["incomplete"], static["median_s"]) == (1, None)
        assert static["undone"] and static["lost"]
        assert found[platform, "hybrid"]["incomplete"] + found[platform, "eager"]["incomplete"] == 0
    shown = done(capsys, *GRAPH, *PLATFORM, *options).out
    assert "single:max1550: incomplete:" in shown and "tasks not done" in shown


def test_events_of_a_missing_device_are_reported_as_ignored(
    capsys: pytest.CaptureFixture[str],
) -> None:
    shown = done(capsys, *GRAPH, *PLATFORM, "--policies", "heft", "--slow", "xeon-8480@1us=3").err
    assert "max1550: has no xeon-8480, so its events are ignored there" in shown


def test_contention_model_follows_the_option(capsys: pytest.CaptureFixture[str]) -> None:
    free = rows(capsys, "--policies", "heft", "--contention", "none")
    shared = rows(capsys, "--policies", "heft", "--contention", "one-port")
    assert all(free[key]["makespan_s"] <= shared[key]["makespan_s"] * 1.5 for key in free)
    document = json.loads(done(capsys, *GRAPH, *PLATFORM, "--policies", "heft", "--contention", "fair", "--json").out)
    assert document["contention"] == "fair"


def test_a_plan_under_a_disturbance(capsys: pytest.CaptureFixture[str], plan_file: Path, tmp_path: Path) -> None:
    shown = done(capsys, plan_file, "--noise", 0.2, "--runs", 10, "--gantt", tmp_path / "g.png").out
    assert "potrf" in shown and "worst" in shown
    assert (tmp_path / "g.png").read_bytes().startswith(b"\x89PNG")
    document = json.loads(done(capsys, plan_file, "--slow", "max1550@0=4", "--json").out)
    (row,) = document["rows"]
    assert document["events"] == [{"device": "max1550", "at_s": 0.0, "factor": 4.0}]
    assert row["median_s"] > row["makespan_s"] > 0
    assert json.loads(done(capsys, plan_file, "--json").out)["rows"][0]["runs"] == 0


def test_objectives_are_refused_for_dynamic_policies(capsys: pytest.CaptureFixture[str]) -> None:
    found = rows(capsys, "--policies", "heft,eager", "--minimize", "memory")
    assert "--minimize" in str(found["max1550", "eager"]["refused"])
    assert found["max1550", "heft"]["refused"] is None


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (("--noise", -1), "--noise: sigma is -1.0"),
        (("--noise", "nan"), "--noise: sigma is nan"),
        (("--wrong", "gemm"), "--wrong: 'gemm' cannot be read"),
        (("--wrong", "gemm=fast"), "'fast' in 'gemm=fast' is not a factor"),
        (("--wrong", "gemm=0"), "must be positive"),
        (("--wrong", "gem=2"), "no task is of family 'gem'"),
        (("--wrong", "gemm=2", "--wrong", "gemm=3"), "family 'gemm' is given twice"),
        (("--wrong", "random:0.5"), "--wrong: spread is 0.5"),
        (("--wrong", "random:2", "--wrong", "random:2"), "'random' is given twice"),
        (("--slow", "max1550@1ms"), "DEVICE@TIME=FACTOR"),
        (("--slow", "max1550=2"), "'max1550=2' cannot be read"),
        (("--slow", "max1550@1ms=-2"), "must be positive"),
        (("--slow", "cpu@1ms=2"), "--slow: there is no device 'cpu'"),
        (("--fail", "max1550"), "DEVICE@TIME"),
        (("--fail", "max1550@soon"), "'soon' is not a time"),
        (("--fail", "max1550@-1"), "'-1' is not a time"),
        (("--fail", "max1550@1m"), "'1m' is not a time"),
        (("--contention", "some"), "none, one-port and fair"),
        (("--seed", 1), "--seed: nothing is random"),
        (("--runs", 3, "--fail", "max1550@1ms"), "--runs: nothing is random"),
        (("--policies", "eagre"), "no policy 'eagre'"),
        (("--policies", "hybrid:eagre"), "no policy 'eagre'"),
    ],
)
def test_wrong_options_exit_with_code_2_and_a_hint(
    capsys: pytest.CaptureFixture[str], options: tuple[object, ...], expected: str
) -> None:
    text = refused(capsys, *GRAPH, *PLATFORM, *options)
    what, _, where = expected.rpartition(": ")
    assert (where if what.startswith("--") else expected) in text
    assert not what.startswith("--") or f"where: {what}" in text
    assert "to do:" in text


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (("--runs", 0), "Invalid value"), (("--noise", "much"), "Invalid value"), (("--seed", -1), "Invalid value"),
        (("--policies", "heft"), "--policies does not belong to a plan"), (("--n", 3), "--n does not belong to a plan"),
        (("--fail", "a770@1ms"), "no device 'a770'"), (("--wrong", "conv=2"), "no task is of family 'conv'"),
    ],
)  # fmt: skip
def test_mistakes_with_a_plan(
    capsys: pytest.CaptureFixture[str], plan_file: Path, options: tuple[object, ...], expected: str
) -> None:
    assert expected in refused(capsys, plan_file, *options)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("0", 0.0), ("1.5", 1.5), ("2ms", 2e-3), (" 3 us", 3e-6), ("4µs", 4e-6), ("1e3ns", 1e-6), ("1e-3s", 1e-3)],
)
def test_times_have_units(text: str, expected: float) -> None:
    assert parse_seconds(text, "--fail") == pytest.approx(expected)


@pytest.mark.parametrize("text", ["", "ms", "1.2.3", "1 h", "inf", "-1ms", "1e"])
def test_invalid_times_are_refused(text: str) -> None:
    with pytest.raises(ArgumentError, match="is not a time"):
        parse_seconds(text, "--fail")


@pytest.mark.parametrize("options", [("--noise", 0.1), ("--wrong", "gemm=4")])
def test_graphs_are_not_rewritten_where_durations_differ(
    capsys: pytest.CaptureFixture[str], options: tuple[object, ...]
) -> None:
    many = ("mlp", "--batch", 16384, "--sizes", "512,512,10", "--chunks", 1, "--platform", "max1100,a770")
    wrong = ("--wrong", "dense=4") if options[0] == "--wrong" else options
    shown = done(capsys, *many, "--policies", "auto", *wrong)
    assert "planned with --rewrite none" in shown.err and "rewritten, " not in shown.out
    assert "rewritten, " in done(capsys, *many, "--policies", "auto", "--slow", "a770@1ms=2").out


@pytest.mark.parametrize("how", ["coarsen", "split", "both"])
def test_wrong_families_of_rewritten_graphs_are_refused(capsys: pytest.CaptureFixture[str], how: str) -> None:
    text = refused(capsys, *GRAPH, *PLATFORM, "--wrong", "gemm=4", "--rewrite", how)
    assert f"--wrong with --rewrite {how}" in text and "'gemm'" in text and "to do:" in text


@pytest.mark.parametrize(
    ("options", "expected"),
    [(("--rewrite", "nope"), "'nope'"), (("--policies", "dmdas", "--rewrite", "split"), "dmdas")],
)
def test_inapplicable_rewrites_are_refused_before_any_output(
    capsys: pytest.CaptureFixture[str], options: tuple[object, ...], expected: str
) -> None:
    outcome = call(capsys, "simulate", *GRAPH, *PLATFORM, *options)
    assert (outcome.code, outcome.out) == (2, "")
    assert expected in outcome.err


def test_a_plan_that_stopped_has_no_makespan_and_no_chart(
    capsys: pytest.CaptureFixture[str], plan_file: Path, tmp_path: Path
) -> None:
    chart = tmp_path / "chart.svg"
    shown = done(
        capsys, plan_file, "--fail", "host@0", "--fail", "max1550@0", "--fail", "xeon-8480@0", "--chart", chart
    )
    assert "0 failed, 20 cancelled" in shown.out and "incomplete: stopped at" in shown.out
    assert "Makespan" not in shown.out
    assert "no chart written" in shown.err and not chart.exists()


def test_charts_name_the_disturbances(capsys: pytest.CaptureFixture[str], plan_file: Path, tmp_path: Path) -> None:
    gantt, chart = tmp_path / "gantt.svg", tmp_path / "chart.svg"
    options = ("--noise", 0.3, "--wrong", "gemm=2", "--slow", "max1550@2us=4")
    done(capsys, plan_file, *options, "--gantt", gantt, "--chart", chart)
    for path in (gantt, chart):
        drawn = path.read_text()
        assert all(part in drawn for part in ("noise 0.3", "gemm=2"))
    assert "slow max1550@2.000" in gantt.read_text()
    assert gantt.read_text().count("predicted: ") == gantt.read_text().count("simulated: ") > 0


def test_rows_of_equal_makespan_keep_their_order(capsys: pytest.CaptureFixture[str]) -> None:
    for names in (["heft", "peft"], ["peft", "heft"]):
        asked = ("--platform", "max1550", "--policies", ",".join(names), "--json")
        found = json.loads(call(capsys, "compare", "cholesky", "--n", 64, "--tile", 64, *asked).out)
        assert found["rows"][0]["makespan_s"] == found["rows"][1]["makespan_s"]
        assert [row["policy"] for row in found["rows"]] == names
