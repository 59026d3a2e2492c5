# SPDX-License-Identifier: Apache-2.0
"""Suggestions for misspelt values of options that are chosen from a list."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.commands import call

import syclsched
from syclsched.kernels import get
from syclsched.model.text.json_serialisation import to_json

#: A graph on described hardware: nothing is measured or opened.
DESCRIBED = ("cholesky", "--n", "64", "--tile", "32", "--platform", "cpu,max1550")


@pytest.mark.parametrize(
    ("line", "meant"),
    [
        (("plan", "choleski", *DESCRIBED[1:]), "cholesky"),
        (("plan", *DESCRIBED, "--dtype", "flaot32"), "float32"),
        (("plan", *DESCRIBED, "--policy", "hefft"), "heft"),
        (("plan", *DESCRIBED, "--policy", "sinlge:max1550"), "single:max1550"),
        (("plan", *DESCRIBED, "--policy", "single:max155"), "max1550"),
        (("plan", *DESCRIBED, "--policy", "dynamic:eagr"), "eager"),
        (("plan", *DESCRIBED, "--minimize", "enrgy"), "energy"),
        (("plan", *DESCRIBED, "--minimize", "memory[max155]"), "max1550"),
        (("plan", *DESCRIBED, "--subject-to", "enrgy <= 5J"), "energy"),
        (("plan", *DESCRIBED, "--subject-to", "makespan <= 5mss"), "ms"),
        (("plan", *DESCRIBED, "--subject-to", "memory[hosst] <= 5MiB"), "host"),
        (("plan", *DESCRIBED, "--rewrite", "coarsn"), "coarsen"),
        (("plan", *DESCRIBED, "--lanes", "max155=2"), "max1550"),
        (("plan", *DESCRIBED, "--memory-limit", "max155=1GiB"), "max1550"),
        (("plan", *DESCRIBED, "--memory-limit", "1GiBB"), "GiB"),
        (("plan", "cholesky", "--platform", "max155"), "max1550"),
        (("simulate", *DESCRIBED, "--contention", "fiar"), "fair"),
        (("simulate", *DESCRIBED, "--wrong", "trms=2"), "trsm"),
        (("simulate", *DESCRIBED, "--fail", "max155@1ms"), "max1550"),
        (("simulate", *DESCRIBED, "--slow", "max155@1ms=2"), "max1550"),
        (("compare", *DESCRIBED, "--policies", "heft,peftt"), "peft"),
        (("run", *DESCRIBED[:5], "--dynamic", "eagr"), "eager"),
        (("history", "show", "--source", "calibratoin"), "calibration"),
        (("history", "show", "--sort", "opration"), "operation"),
        (("paln", "cholesky"), "plan"),
    ],
)
def test_a_misspelt_value_gets_a_suggestion(
    capsys: pytest.CaptureFixture[str], line: tuple[str, ...], meant: str
) -> None:
    done = call(capsys, *line)
    assert done.code == 2
    assert f"Did you mean '{meant}'?" in done.err


def test_a_file_for_another_command_suggests_that_command(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    plan, record = tmp_path / "plan.json", tmp_path / "run.json"
    made = syclsched.plan(workload_graph(), syclsched.describe("cpu"), policy="heft")
    plan.write_text(made.to_json())
    record.write_text(to_json(syclsched.simulate(made)))
    assert f"syclsched run GRAPH --plan {plan}" in call(capsys, "run", str(plan)).err
    for command in ("run", "simulate"):
        done = call(capsys, command, str(record))
        assert done.code == 2 and f"Use syclsched trace {record}" in done.err
    plan.write_text(made.to_json()[:-2])
    assert "Expected a Plan" in call(capsys, "simulate", str(plan)).err


def workload_graph() -> syclsched.TaskGraph:
    graph = syclsched.TaskGraph("scaled")
    graph.kernel(get("scale"), x=graph.array("x", (1000,)), alpha=2.0)
    return graph


@pytest.mark.sycl
@pytest.mark.parametrize(
    ("option", "value", "meant"),
    [
        ("--devices", "cppu", "cpu"),
        ("--devices", "opncl:cpu", "opencl"),
        ("--devices", "opencl:cppu", "cpu"),
        ("--sub-devices", "nuam", "numa"),
        ("--sub-devices", "unit:1", "units"),
    ],
)
def test_a_misspelt_device_gets_a_suggestion(
    capsys: pytest.CaptureFixture[str], option: str, value: str, meant: str
) -> None:
    done = call(capsys, "plan", *DESCRIBED[:5], option, value)
    assert done.code == 2
    assert f"Did you mean '{meant}'?" in done.err
