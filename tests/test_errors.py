# SPDX-License-Identifier: Apache-2.0
"""Suggestions in errors about unknown names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import syclsched
from syclsched.errors import ArgumentError, SyclschedError, did_you_mean
from syclsched.kernels import get

PLATFORM = syclsched.describe("cpu,max1550")


def scaled() -> syclsched.TaskGraph:
    graph = syclsched.TaskGraph()
    graph.kernel(get("scale"), name="twice", x=graph.array("x", (1000,)), alpha=2.0)
    return graph


def test_only_similar_names_are_suggested() -> None:
    assert did_you_mean("hefty", ["cpop", "heft"]) == "Did you mean 'heft'? "
    assert did_you_mean("xyz", ["cpop", "heft"]) == ""
    assert did_you_mean(3, []) == ""


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: syclsched.plan(syclsched.TaskGraph(), PLATFORM, policy="hefty"), "Did you mean 'heft'"),
        (lambda: PLATFORM.device("cup"), "Did you mean 'cpu'"),
        (lambda: PLATFORM.space("max155"), "Did you mean 'max1550'"),
        (lambda: syclsched.with_memory_limit(PLATFORM, {"cup": "1GiB"}), "Did you mean 'cpu'"),
        (lambda: syclsched.with_memory_limit(PLATFORM, {"cpu": "1Gib"}), "Did you mean 'GiB'"),
        (lambda: syclsched.plan(syclsched.TaskGraph(), PLATFORM, memory_limit={"hots": 1}), "Did you mean 'host'"),
        (lambda: syclsched.plan(syclsched.TaskGraph(), PLATFORM, policy="single:max155"), "Did you mean 'max1550'"),
        (lambda: scaled().array("y", (3,), "flaot32"), "Did you mean 'float32'"),
        (lambda: get("gem"), "Did you mean 'gemm'"),
        (lambda: scaled().kernel(get("scale"), xx="x", alpha=2.0), "unknown argument 'xx'. Did you mean 'x'"),
        (lambda: scaled().kernel(get("scale"), x="x", alfa=2.0), "unknown argument 'alfa'. Did you mean 'alpha'"),
        (lambda: scaled().find_task("twise"), "Did you mean 'twice'"),
        (lambda: syclsched.plan(scaled(), PLATFORM).explain("twise"), "Did you mean 'twice'"),
        (lambda: syclsched.Implementation("mine", "opencl", lambda _: None), "Did you mean 'opencl-c'"),
    ],
)  # fmt: skip
def test_names_that_are_nearly_right(call: Callable[[], Any], said: str) -> None:
    with pytest.raises(SyclschedError, match=said):
        call()


@pytest.mark.sycl
def test_a_selector_that_is_nearly_right() -> None:
    with pytest.raises(SyclschedError, match="Did you mean 'cpu'"):
        syclsched.discover("cup")


@pytest.mark.parametrize(
    ("call", "where"),
    [
        (lambda: syclsched.plan(scaled(), PLATFORM, policy=3), "policy"),  # type: ignore[arg-type]
        (lambda: syclsched.plan(scaled(), PLATFORM, rewrite=3), "rewrite"),  # type: ignore[arg-type]
        (lambda: syclsched.plan(scaled(), PLATFORM, minimize=3), "minimize"),  # type: ignore[arg-type]
        (lambda: syclsched.plan(scaled(), PLATFORM, progress=3), "progress"),  # type: ignore[arg-type]
        (lambda: syclsched.discover(3), "select"),  # type: ignore[arg-type]
        (lambda: syclsched.describe(3), "profiles"),  # type: ignore[arg-type]
    ],
)
def test_values_of_another_kind_are_named(call: Callable[[], Any], where: str) -> None:
    with pytest.raises(ArgumentError, match=f"^{where}: expected .*, got a value of type int"):
        call()


@pytest.mark.sycl
def test_sub_devices_are_given_as_on_the_command_line() -> None:
    with pytest.raises(SyclschedError, match="Did you mean 'numa'"):
        syclsched.discover("cpu", sub_devices="nuam")
    parts = [[each.key for each in syclsched.discover("cpu", sub_devices=how).devices] for how in (1, "1")]
    assert parts[0] == parts[1]
