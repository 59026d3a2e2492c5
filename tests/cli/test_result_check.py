# SPDX-License-Identifier: Apache-2.0
"""Checks of the results of repeated runs: every run is checked, equal bits only once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from syclsched.cli.result_check import ResultChecker
from syclsched.model.graph import TaskGraph
from syclsched.workloads import CheckResult, Workload


def counted(calls: list[int]) -> Workload:
    """A workload whose result is right where it is not negative."""

    def check(results: Mapping[str, Any]) -> CheckResult:
        calls.append(int(results["x"][0]))
        return CheckResult(bool(results["x"][0] >= 0), float(-results["x"][0]), 0.0, "below 0")

    return Workload("signs", TaskGraph("signs"), ("x",), check)


def test_the_same_bits_are_checked_once() -> None:
    calls: list[int] = []
    checks = ResultChecker(counted(calls))
    for value in (1, 1, 2, 2, 1):
        checks.add({"x": np.array([value])})
    assert calls == [1, 2, 1]
    assert checks.verdict is not None and checks.verdict.ok


def test_one_wrong_result_makes_the_verdict() -> None:
    calls: list[int] = []
    checks = ResultChecker(counted(calls))
    for value in (1, -7, -7, 1, 2):
        checks.add({"x": np.array([value])})
    assert calls == [1, -7, -7, 2]
    assert checks.verdict is not None and not checks.verdict.ok and checks.verdict.residual == 7
