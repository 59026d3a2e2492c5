# SPDX-License-Identifier: Apache-2.0
"""Arguments of the main functions: errors for wrong kinds, and defaults."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import syclsched
from syclsched.errors import ArgumentError
from syclsched.kernels import get


def graph() -> syclsched.TaskGraph:
    made = syclsched.TaskGraph("one")
    made.kernel(get("scale"), x=made.array("x", data=np.ones(4)), alpha=2.0)
    return made


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: syclsched.run(3), r"graph: expected a TaskGraph, got a value of type int"),
        (lambda: syclsched.bind(None), r"graph: expected a TaskGraph"),
        (lambda: syclsched.plan(graph(), "cpu"), r"platform: expected a Platform, got .* str.*discover\('cpu'\)"),
        (lambda: syclsched.run(graph(), plan="plan.json"), r"plan: expected a Plan.*Plan.from_json"),
        (lambda: syclsched.calibrate(graph(), "cpu"), r"platform: expected a Platform"),
        (lambda: syclsched.verify("plan.json"), r"plan: expected a Plan, got a value of type str"),
        (lambda: syclsched.bind(graph(), trace=-1), r"trace: -1 is no number of runs. Give True"),
        (lambda: syclsched.plan(graph(), subject_to=3), r"subject_to: expected a list of texts, got 3"),
        (lambda: syclsched.simulate(graph()), r"plan: expected a Plan, got a value of type TaskGraph"),
    ],
)  # fmt: skip
def test_wrong_kinds_are_named(call: Callable[[], Any], said: str) -> None:
    with pytest.raises(ArgumentError, match=said):
        call()


def test_profiles_in_one_string() -> None:
    platform = syclsched.describe("cpu,max1550")
    assert platform == syclsched.describe(["cpu", "max1550"])
    assert repr(platform) == "<Platform 'described': cpu, max1550, host; 3 memory spaces>"


@pytest.mark.sycl
def test_plan_takes_all_devices_by_default() -> None:
    made = syclsched.plan(graph())
    assert [each.name for each in made.platform.devices] == [each.name for each in syclsched.discover().devices]
