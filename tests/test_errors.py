# SPDX-License-Identifier: Apache-2.0
"""Errors for names that do not exist name the one that was meant."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import syclsched
from syclsched.errors import SyclschedError, did_you_mean

PLATFORM = syclsched.describe("cpu,max1550")


def test_only_what_is_much_alike_is_suggested() -> None:
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
