# SPDX-License-Identifier: Apache-2.0
"""A misspelt value of any option that is chosen from a list is refused with the value that was meant."""

from __future__ import annotations

import pytest
from support.commands import call

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
def test_the_value_that_was_meant_is_named(
    capsys: pytest.CaptureFixture[str], line: tuple[str, ...], meant: str
) -> None:
    done = call(capsys, *line)
    assert done.code == 2
    assert f"Did you mean '{meant}'?" in done.err


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
def test_the_device_that_was_meant_is_named(
    capsys: pytest.CaptureFixture[str], option: str, value: str, meant: str
) -> None:
    done = call(capsys, "plan", *DESCRIBED[:5], option, value)
    assert done.code == 2
    assert f"Did you mean '{meant}'?" in done.err
