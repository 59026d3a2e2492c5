# SPDX-License-Identifier: Apache-2.0
"""Workflows of WfCommons, versions 1.4 to 1.6."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from support.graph_files import WFFORMAT_14, WFFORMAT_15, cost_of, modes_of, refused

from syclsched.frontends import Units, parse_graph
from syclsched.model.cost_only import StatedCost
from syclsched.model.graph import TaskGraph


def parse(document: dict[str, Any], units: Units | None = None) -> TaskGraph:
    return parse_graph(json.dumps(document).encode(), where="w.json", units=units)


def changed(document: dict[str, Any], path: str, value: object) -> dict[str, Any]:
    """Return a copy with another value at a path such as ``workflow.tasks.0.name``; None removes it."""
    made = copy.deepcopy(document)
    *way, last = path.split(".")
    at: Any = made
    for step in way:
        at = at[int(step)] if step.isdecimal() else at[step]
    key: Any = int(last) if last.isdecimal() else last
    if value is None:
        del at[key]
    else:
        at[key] = value
    return made


def test_tasks_files_and_dependencies_of_version_15() -> None:
    graph = parse(WFFORMAT_15)
    assert graph.name == "three"
    assert [t.name for t in graph.tasks] == ["split_1", "work_1", "work_2"]
    assert [t.family for t in graph.tasks] == ["split", "work", "work"]
    assert cost_of(graph, "work_1") == StatedCost(4.0, cores=2.0)
    assert cost_of(graph, "work_2") == StatedCost(3.25)
    assert graph.find_task("work_1").priority == 7
    assert modes_of(graph, "split_1") == {"in.txt": "read", "half.1": "write", "half.2": "write"}
    assert {a.name: (a.nbytes, a.temporary) for a in graph.arrays.values()} == {
        "in.txt": (1000, False), "half.1": (500, True), "half.2": (500, True), "out.1": (7, False), "out.2": (0, False),
    }  # fmt: skip
    # The parents are those the files give: no explicit edges are needed.
    assert graph.edges == ()
    assert {(d.before, d.after, d.kind) for d in graph.dependencies()} == {
        ("split_1", "work_1", "RAW"), ("split_1", "work_2", "RAW"),
    }  # fmt: skip
    assert graph.inputs() == ("in.txt",)


def test_version_16_is_read_as_wfcommons_writes_it() -> None:
    document = changed(WFFORMAT_15, "schemaVersion", "1.6")
    before = parse(WFFORMAT_15)
    assert parse(document).fingerprint() == before.fingerprint()
    metrics = {"numberOfTasks": 3, "numberOfFiles": 5, "sumOfFileSizesInBytes": 2007, "numberOfLevels": 2}
    document["workflow"]["specification"]["metrics"] = metrics
    document["workflow"]["execution"]["metrics"] = {"sumTaskRuntimesInSeconds": 9.0, "totalNumBytesRead": 0}
    document["workflow"]["execution"]["tasks"][1] |= {"avgPowerInKWh": 3.5, "launchDir": "/run", "command": {}}
    document["workflow"]["execution"]["tasks"][1]["category"] = "analysis"
    graph = parse(document)
    assert [t.family for t in graph.tasks] == ["split", "analysis", "work"]
    assert set(graph.dependencies()) == set(before.dependencies())
    said = refused(changed(document, "workflow.execution", None), "w.json")
    assert "workflow.execution: Field required" in said and "schema version 1.5 or 1.6" in said


def test_version_14_keeps_files_with_the_tasks() -> None:
    graph = parse(WFFORMAT_14)
    assert [(t.name, t.family) for t in graph.tasks] == [("make_ID1", "make"), ("use_ID2", "use")]
    assert cost_of(graph, "make_ID1") == StatedCost(2.5, cores=4.0)
    assert modes_of(graph, "make_ID1") == {"a": "read", "/data/b": "write"}
    assert {a.name: a.nbytes for a in graph.arrays.values()} == {"a": 10, "/data/b": 20}
    assert {(d.before, d.after) for d in graph.dependencies()} == {("make_ID1", "use_ID2")}


def test_version_14_parents_may_be_ids_and_names_may_repeat() -> None:
    document = changed(WFFORMAT_14, "workflow.tasks.1.parents", ["ID1"])
    assert {(d.before, d.after) for d in parse(document).dependencies()} == {("make_ID1", "use_ID2")}
    same = changed(changed(document, "workflow.tasks.1.name", "make_ID1"), "workflow.tasks.0.children", [])
    assert [t.name for t in parse(same).tasks] == ["ID1", "ID2"]


def test_a_parent_without_a_file_is_an_edge() -> None:
    document = changed(WFFORMAT_15, "workflow.specification.tasks.2.parents", ["split_1", "work_1"])
    graph = parse(document)
    assert graph.edges == (("work_1", "work_2"),)


def test_children_alone_say_enough() -> None:
    document = changed(WFFORMAT_15, "workflow.specification.tasks.1.children", ["work_2"])
    assert parse(document).edges == (("work_1", "work_2"),)


def test_tasks_listed_before_their_parents_are_put_in_order() -> None:
    document = copy.deepcopy(WFFORMAT_15)
    document["workflow"]["specification"]["tasks"].reverse()
    graph = parse(document)
    assert [t.name for t in graph.tasks] == ["split_1", "work_2", "work_1"]
    assert {(d.before, d.after) for d in graph.dependencies()} == {("split_1", "work_1"), ("split_1", "work_2")}


def test_file_with_several_writers_keeps_parent_order() -> None:
    document = changed(WFFORMAT_15, "workflow.specification.tasks.1.outputFiles", ["half.1", "out.1"])
    document = changed(document, "workflow.specification.tasks.2.inputFiles", ["half.1", "half.2"])
    document = changed(document, "workflow.specification.tasks.2.parents", ["split_1", "work_1"])
    graph = parse(document)
    assert modes_of(graph, "work_1")["half.1"] == "update"
    assert ("work_1", "work_2", "RAW") in {(d.before, d.after, d.kind) for d in graph.dependencies()}


def test_same_speed_takes_runtimes_as_they_are() -> None:
    assert cost_of(parse(WFFORMAT_15, Units(same_speed=True)), "work_2") == StatedCost(None, {"any": 3.25})


@pytest.mark.parametrize(
    ("path", "value", "expected"),
    [
        ("schemaVersion", "1.3", "1.4, 1.5, 1.6"),
        ("workflow.execution", None, "workflow.execution: Field required"),
        ("workflow.specification.tasks.1.id", "split_1", "listed twice"),
        ("workflow.specification.tasks.1.id", "", "workflow.specification.tasks.1.id"),
        ("workflow.specification.tasks.1.id", "x" * 401, "400"),
        ("workflow.specification.tasks.1.parents", ["nobody"], "no task 'nobody'"),
        ("workflow.specification.tasks.1.children", ["nobody"], "tasks.1.children"),
        ("workflow.specification.tasks.0.parents", ["work_1"], "work_1 -> split_1 -> work_1"),
        ("workflow.specification.tasks.0.inputFiles", ["gone"], "file 'gone' is not among"),
        ("workflow.specification.tasks.0.parents", 3, "tasks.0.parents"),
        ("workflow.specification.files.2.id", "in.txt", "files.2: file 'in.txt' is listed twice"),
        ("workflow.specification.files.2.sizeInBytes", -1, "files.2.sizeInBytes"),
        ("workflow.specification.files.2.sizeInBytes", 1 << 60, "files.2.sizeInBytes"),
        ("workflow.specification.files.2.sizeInBytes", 1.5, "files.2.sizeInBytes"),
        ("workflow.execution.tasks.0.id", "nobody", "not among workflow.specification.tasks"),
        ("workflow.execution.tasks.0", None, "'split_1' has no runtime"),
        ("workflow.execution.tasks.1.id", "split_1", "listed twice"),
        ("workflow.execution.tasks.1.runtimeInSeconds", -0.5, "execution.tasks.1.runtimeInSeconds"),
        ("workflow.execution.tasks.1.runtimeInSeconds", 1e300, "execution.tasks.1.runtimeInSeconds"),
        ("workflow.execution.tasks.1.runtimeInSeconds", "soon", "execution.tasks.1.runtimeInSeconds"),
        ("workflow.execution.tasks.1.coreCount", 0, "execution.tasks.1.coreCount"),
        ("workflow.execution.tasks.1.coreCount", 1e308, "execution.tasks.1.coreCount"),
        ("workflow", [], "workflow"),
    ],
)
def test_errors_name_their_place(path: str, value: object, expected: str) -> None:
    assert expected in refused(changed(WFFORMAT_15, path, value), "w.json")


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_numbers_that_are_none(number: str) -> None:
    text = json.dumps(WFFORMAT_15).replace("3.25", number)
    assert number in text
    assert "w.json" in refused(text, "w.json")


@pytest.mark.parametrize(
    ("path", "value", "expected"),
    [
        ("workflow.tasks.1.parents", ["nobody"], "workflow.tasks.1.parents"),
        ("workflow.tasks.1.name", "make_ID1", "no task 'use_ID2'"),
        ("workflow.tasks.0.files.0.link", "sideways", "workflow.tasks.0.files.0.link"),
        ("workflow.tasks.0.runtimeInSeconds", None, "workflow.tasks.0.runtimeInSeconds"),
    ],
)
def test_errors_of_version_14_name_their_place(path: str, value: object, expected: str) -> None:
    assert expected in refused(changed(WFFORMAT_14, path, value), "w.json")
