# SPDX-License-Identifier: Apache-2.0
"""The roofline model: the longer of computing and moving bytes, against results by hand and properties."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from syclsched.costs.rates import Rates
from syclsched.costs.roofline import checked_efficiency, checked_work, roofline_seconds, working_set
from syclsched.errors import ArgumentError
from syclsched.model.operation import Implementation, Operation, Signature, Work

RATES = Rates("modelled", 1e-5, {"float64": 1e11}, 1e10, (), 4)


def seconds(work: Work, efficiency: float = 1.0) -> float:
    return roofline_seconds(work, 1e6, efficiency, RATES)


def test_bound_by_computing() -> None:
    assert math.isclose(seconds(Work(1e11, 1e9)), 1e-5 + 1.0)


def test_bound_by_memory() -> None:
    assert math.isclose(seconds(Work(1e10, 1e10)), 1e-5 + 1.0)


def test_efficiency_divides_all_but_the_launch() -> None:
    assert math.isclose(seconds(Work(1e11, 0.0), 0.25), 1e-5 + 4.0)


def test_too_few_work_items_get_their_share() -> None:
    assert math.isclose(seconds(Work(1e11, 0.0, parallelism=1)), 1e-5 + 4.0)
    assert math.isclose(seconds(Work(1e11, 0.0, parallelism=4)), 1e-5 + 1.0)


def test_a_task_without_work_takes_a_launch() -> None:
    assert seconds(Work(0.0, 0.0)) == 1e-5


numbers = st.floats(0.0, 1e15)


@given(numbers, numbers, numbers, st.floats(1.0, 1e9), st.floats(0.01, 1.0))
def test_more_work_never_takes_less(flops: float, nbytes: float, more: float, items: float, share: float) -> None:
    less = seconds(Work(flops, nbytes, parallelism=items), share)
    assert less <= seconds(Work(flops + more, nbytes, parallelism=items), share)
    assert less <= seconds(Work(flops, nbytes + more, parallelism=items), share)
    assert less >= seconds(Work(flops, nbytes, parallelism=2 * items), share) >= RATES.launch_s


@pytest.mark.parametrize(
    "work",
    [
        Work(math.nan, 0.0),
        Work(-1.0, 0.0),
        Work(math.inf, 0.0),
        Work(0.0, math.nan),
        Work(1.0, 1.0, parallelism=0.0),
        Work(0.0, 1.0, parallelism=0.0),
        Work(0.0, 0.0, parallelism=-1.0),
        Work(0.0, 0.0, parallelism=math.nan),
    ],
)
def test_impossible_work_is_refused(work: Work) -> None:
    operation = Operation("op", (), (), work=lambda _: work)
    with pytest.raises(ArgumentError, match="task 't': operation 'op' states impossible work"):
        checked_work(operation, Signature({}, {}), "task 't'")


def test_a_task_without_work_may_have_no_parallelism() -> None:
    nothing = Work(0.0, 0.0, parallelism=0.0)
    operation = Operation("op", (), (), work=lambda _: nothing)
    assert checked_work(operation, Signature({}, {}), "task 't'") == nothing
    assert seconds(nothing) == RATES.launch_s


@pytest.mark.parametrize("efficiency", [0.0, -0.5, math.nan, math.inf])
def test_impossible_efficiency_is_refused(efficiency: float) -> None:
    bad = Implementation("i", "host", load=lambda _: None, efficiency=efficiency)
    with pytest.raises(ArgumentError, match="impossible efficiency"):
        checked_efficiency(bad, "task 't'")


def test_the_working_set_is_the_arrays() -> None:
    signature = Signature({"a": (10, 10), "b": (5,)}, {"a": "float64", "b": "int32"})
    assert working_set(signature, Work(0.0, 1.0)) == 820
    assert working_set(Signature({}, {}), Work(0.0, 7.0)) == 7.0
