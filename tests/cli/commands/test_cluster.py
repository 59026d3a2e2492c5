# SPDX-License-Identifier: Apache-2.0
"""``syclsched cluster`` and ``syclsched run --cluster``: state, plans and runs on the workers of one cluster."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.commands import CommandResult, call

from syclsched.cluster import connect
from syclsched.model.plan import Plan

pytestmark = pytest.mark.sycl

pytest.importorskip("distributed", reason="the package distributed is not installed")

SMALL = ("cholesky", "--n", "256", "--tile", "128")


@pytest.fixture(scope="module")
def scheduler() -> Iterator[str]:
    """The address of a scheduler with two workers."""
    with connect(workers=2) as cluster:
        yield cluster.scheduler


@pytest.fixture
def command(scheduler: str, capsys: pytest.CaptureFixture[str]) -> Any:
    """Call a command with the cluster's address."""

    def called(*arguments: object) -> CommandResult:
        return call(capsys, *arguments, "--cluster", scheduler)

    return called


def test_status(command: Any, scheduler: str) -> None:
    assert "Cluster of 2 workers" in command("cluster", "status").out
    found = json.loads(command("cluster", "status", "--json").out)
    assert (found["format"], found["scheduler"]) == ("syclsched-cluster-status/1", scheduler)
    assert [each["state"] for each in found["workers"]] == ["ready", "ready"]
    assert all("cpu" in each["devices"] for each in found["workers"])


def test_a_graph_is_planned_and_run(command: Any, tmp_path: Path) -> None:
    plan, trace = tmp_path / "plan.json", tmp_path / "trace.json"
    made = command("cluster", "plan", *SMALL, "--policy", "heft", "--out", plan, "--gantt", tmp_path / "plan.svg")
    assert made.code == 0 and f"plan written to {plan}" in " ".join(made.err.split())  # whatever the width
    planned = Plan.from_json(plan.read_text(), where=str(plan))
    assert {device.name.split("/")[0] for device in planned.platform.devices} == {"node0", "node1"}
    assert "node" in (tmp_path / "plan.svg").read_text()
    report = tmp_path / "run.html"
    how = ("--plan", plan, "--priority", -1, "--repeat", 2)
    ran = command("run", *SMALL, *how, "--json", "--trace", trace, "--report", report)
    found = json.loads(ran.out)
    assert (ran.code, found["result"]["ok"], len(found["makespans_s"]), found["recoveries"]) == (0, True, 2, [])
    assert all(place.startswith("node") for places in found["where"].values() for place in places)
    assert "node" in trace.read_text() and "node" in report.read_text()
    decided = command("run", *SMALL, "--plan", plan, "--dynamic", "eager", "--json")
    assert (decided.code, json.loads(decided.out)["result"]["ok"]) == (0, True)
    other = command("run", "cholesky", "--n", "512", "--tile", "128", "--plan", plan)
    assert other.code == 2 and str(plan) in other.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("cluster", "status"), "--workers 2"),
        (("cluster", "status", "--cluster", "tcp://127.0.0.1:1", "--workers", 2), "Give one of them"),
        (("run", *SMALL, "--workers", 1, "--devices", "cpu"), "--devices cannot be used on several machines"),
        (("run", *SMALL, "--workers", 1, "--dynamic", "dmdas", "--debug"), "--debug cannot be used on several"),
        (("run", *SMALL, "--workers", 1, "--dynamic", "dmda"), "dmdas"),
        (("run", *SMALL, "--priority", -1), "Add --cluster"),
        (("run", *SMALL, "--workers", 1, "--share", 0), "0.0 is no share"),
        (("cluster", "plan", "choleski", "--workers", 1), "cholesky"),
        (("cluster", "status", "--cluster", "here"), "tcp://host:8786"),
    ],
)
def test_mistakes_are_named(arguments: tuple[object, ...], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    outcome = call(capsys, *arguments)
    assert outcome.code == 2
    assert said in outcome.err
