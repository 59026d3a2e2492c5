# SPDX-License-Identifier: Apache-2.0
"""Dask collections as task graphs: one task for each of Dask's, in an order that its dependencies allow."""

from __future__ import annotations

import sys
import weakref
from typing import Any

import numpy as np
import pytest

import syclsched
from syclsched.errors import ArgumentError, RuntimeMissingError
from syclsched.frontends.dask_graph import import_graph

dask = pytest.importorskip("dask", reason="Dask is not installed")


def double(x: int) -> int:
    return 2 * x


def executed(dask_graph: dict[Any, Any], *keys: Any) -> tuple[list[Any], Any]:
    """Return the results of keys after calls of the tasks in the graph's order, and the graph."""
    graph, result = import_graph(dask_graph, keys, "by hand")
    for name in graph.order():
        task = graph.find_task(name)
        task.operation.implementations[0].load(task.signature)(result=np.zeros(1, "uint8"))
    return [result(key) for key in keys], graph


def test_every_task_of_dask_becomes_one_that_waits_for_its_inputs() -> None:
    pairs = [dask.delayed(double)(n) for n in range(3)]
    graph = syclsched.from_dask(dask.delayed(sum)(pairs), name="sums")
    doubles = ["double", "double#1", "double#2"]
    assert (graph.name, sorted(task.name for task in graph.tasks)) == ("sums", [*doubles, "sum"])
    assert set(syclsched.to_networkx(graph).edges) == {(name, "sum") for name in doubles}
    assert {task.kind for task in graph.tasks} == {"host"}


def test_constants_and_aliases_are_no_tasks() -> None:
    graph = {"one": 1, "also": "one", "two": (double, "also"), "four": (double, "two"), "again": "four"}
    found, made = executed(graph, "again", "two", "one")
    assert found == [4, 2, 1]
    assert [task.name for task in made.tasks] == ["two", "four"]


def test_results_are_kept_until_their_last_reader_or_if_requested() -> None:
    kept: list[weakref.ref[Result]] = []

    class Result:
        """Something that can be referred to weakly."""

    def make() -> Result:
        kept.append(weakref.ref(made := Result()))
        return made

    def count(*results: Result) -> int:
        return sum(each() is not None for each in kept)

    graph = {"a": (make,), "b": (count, "a"), "c": (count, "a"), "d": (lambda *_: count(), "b", "c")}
    found, _ = executed(graph, "b", "c", "d")
    assert found == [1, 1, 0]
    kept.clear()
    found, _ = executed(graph, "d", "a")
    assert found == [1, kept[0]()]


def test_given_sizes_become_array_sizes() -> None:
    graph = syclsched.from_dask(dask.delayed(double)(dask.delayed(double)(1)), optimize=False, nbytes=lambda key: 4096)
    assert sum(array.nbytes for array in graph.arrays.values()) == 2 * 4096


def test_functions_of_one_kind_share_their_measured_times() -> None:
    one, other = dask.delayed(double)(1), dask.delayed(double)(2)
    triple = dask.delayed(lambda x: 3 * x)(3)
    graph = syclsched.from_dask([one, other, triple])
    first, second, third = (graph.find_task(name).operation for name in ("double", "double#1", "lambda"))
    assert first.name == second.name == "double"
    revisions = [each.implementations[0].revision for each in (first, second, third)]
    assert revisions[0] == revisions[1] != revisions[2]


def test_objects_other_than_collections_are_refused() -> None:
    with pytest.raises(ArgumentError, match="int is no Dask collection"):
        syclsched.from_dask([1])


def test_without_dask_the_error_names_the_package_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "dask", None)
    with pytest.raises(RuntimeMissingError, match=r"syclsched\[cluster\]"):
        syclsched.from_dask(object())
