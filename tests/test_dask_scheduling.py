# SPDX-License-Identifier: Apache-2.0
"""Dask collections computed under plans: results and task errors of Dask's own scheduler."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.examples import examples

import syclsched
from syclsched.execution.core.history_feed import FEED
from syclsched.model.trace import Trace
from syclsched.profiling import HistoryStore

dask = pytest.importorskip("dask", reason="Dask is not installed")

pytestmark = pytest.mark.sycl


@pytest.fixture
def ours() -> Any:
    """Return the package's scheduler, for one CPU device and the host."""
    return syclsched.dask_scheduler(syclsched.discover("cpu"))


@dask.delayed
def plus_one(x: int) -> int:
    return x + 1


def test_delayed_values_of_any_kind_are_computed(ours: Any) -> None:
    text = dask.delayed("{} and {}".format)(plus_one(1), plus_one(plus_one(1)))
    with dask.config.set(scheduler=ours):
        assert text.compute() == "2 and 3"
        assert dask.compute(plus_one(1), [text, {"a": plus_one(2)}], 7) == (2, ["2 and 3", {"a": 3}], 7)


def test_bags_and_arrays_are_computed(ours: Any) -> None:
    bag = pytest.importorskip("dask.bag", reason="Dask's bags are not installed")
    array = pytest.importorskip("dask.array", reason="Dask's arrays are not installed")
    squares = bag.from_sequence(range(50), npartitions=4).map(lambda x: x * x).filter(lambda x: x % 2)
    assert squares.sum().compute(scheduler=ours) == sum(x * x for x in range(50) if x % 2)
    values = np.random.default_rng(0).normal(size=(60, 40))
    x = array.from_array(values, chunks=(17, 13))
    np.testing.assert_allclose((x @ x.T + 1).sum(axis=0).compute(scheduler=ours), (values @ values.T + 1).sum(axis=0))


@given(
    st.lists(st.tuples(st.sampled_from(["add", "mul", "sub"]), st.integers(0, 99), st.integers(0, 99)), max_size=25),
    st.sets(st.integers(0, 99), min_size=1, max_size=4),
)
@settings(max_examples=examples(30), deadline=None)
def test_random_graphs_have_the_results_of_dask(tasks: list[tuple[str, int, int]], asked: set[int]) -> None:
    graph: dict[str, Any] = {"t0": 2, "t1": 3}
    for name, one, other in tasks:
        count = len(graph)
        graph[f"t{count}"] = (getattr(operator, name), f"t{one % count}", f"t{other % count}")
    keys = [f"t{number % len(graph)}" for number in sorted(asked)]
    assert syclsched.dask_scheduler()(graph, [keys, keys[:1]]) == dask.get(graph, [keys, keys[:1]])


def test_an_error_of_a_task_is_raised_unchanged(ours: Any) -> None:
    @dask.delayed
    def failing(x: int) -> int:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        plus_one(failing(1)).compute(scheduler=ours)
    assert plus_one(1).compute(scheduler=ours) == 2


def test_a_collection_that_a_task_computes_is_computed_there(ours: Any) -> None:
    @dask.delayed
    def nested(x: int) -> int:
        result: int = plus_one(plus_one(x)).compute()
        return result

    with dask.config.set(scheduler=ours):
        assert dask.delayed(sum)([nested(1), nested(2)]).compute() == 7


def test_task_times_are_measured_and_runs_shown(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    traces: list[Trace] = []
    scheduler = syclsched.dask_scheduler(
        syclsched.discover("cpu"), policy="heft", on_run=lambda run: traces.append(run.trace())
    )
    total = dask.delayed(sum)([plus_one(n) for n in range(4)])
    assert [total.compute(scheduler=scheduler) for _ in range(2)] == [10, 10]
    assert sorted(span.task for span in traces[0].spans if span.kind == "host") == sorted(
        ["plus_one", "plus_one#1", "plus_one#2", "plus_one#3", "sum"]
    )
    FEED.flush()
    with HistoryStore() as history:
        assert "plus_one" in {key.operation for key, _ in history.entries()}  # of `sum` there were only first calls
