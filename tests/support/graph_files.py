# SPDX-License-Identifier: Apache-2.0
"""Small valid graph files, one of every format, and helpers of their tests."""

from __future__ import annotations

import json
from typing import Any

import pytest

from syclsched.errors import FormatError
from syclsched.frontends import Limits, parse_graph
from syclsched.model.cost_only import StatedCost, stated_cost
from syclsched.model.graph import TaskGraph

WFFORMAT_15: dict[str, Any] = {
    "name": "three",
    "schemaVersion": "1.5",
    "workflow": {
        "specification": {
            "tasks": [
                {"name": "split", "id": "split_1", "parents": [], "children": ["work_1", "work_2"],
                 "inputFiles": ["in.txt"], "outputFiles": ["half.1", "half.2"]},
                {"name": "work", "id": "work_1", "parents": ["split_1"], "children": [],
                 "inputFiles": ["half.1", "in.txt"], "outputFiles": ["out.1"]},
                {"name": "work", "id": "work_2", "parents": ["split_1"], "children": [],
                 "inputFiles": ["half.2", "in.txt"], "outputFiles": ["out.2"]},
            ],
            "files": [
                {"id": "in.txt", "sizeInBytes": 1000},
                {"id": "half.1", "sizeInBytes": 500},
                {"id": "half.2", "sizeInBytes": 500},
                {"id": "out.1", "sizeInBytes": 7},
                {"id": "out.2", "sizeInBytes": 0},
            ],
        },
        "execution": {
            "makespanInSeconds": 10,
            "executedAt": "2024-01-01T00:00:00Z",
            "tasks": [
                {"id": "split_1", "runtimeInSeconds": 1.5, "command": {"program": "/usr/bin/split", "arguments": []}},
                {"id": "work_1", "runtimeInSeconds": 4, "coreCount": 2, "priority": 7},
                {"id": "work_2", "runtimeInSeconds": 3.25, "machines": ["node"]},
            ],
            "machines": [{"nodeName": "node", "cpu": {"coreCount": 48, "speedInMHz": 1200}}],
        },
    },
}  # fmt: skip

WFFORMAT_14: dict[str, Any] = {
    "name": "two",
    "schemaVersion": "1.4",
    "workflow": {
        "makespanInSeconds": 10,
        "executedAt": "2022-01-01T00:00:00Z",
        "machines": [{"nodeName": "node", "cpu": {"count": 8, "speed": 2400}}],
        "tasks": [
            {"name": "make_ID1", "id": "ID1", "category": "make", "type": "compute", "runtimeInSeconds": 2.5,
             "parents": [], "children": ["use_ID2"], "cores": 4,
             "files": [{"name": "a", "sizeInBytes": 10, "link": "input"},
                       {"name": "b", "sizeInBytes": 20, "link": "output", "path": "/data/"}]},
            {"name": "use_ID2", "id": "ID2", "type": "compute", "runtimeInSeconds": 1.0, "parents": ["make_ID1"],
             "files": [{"name": "b", "sizeInBytes": 20, "link": "input", "path": "/data/"}]},
        ],
    },
}  # fmt: skip

GRAPH_FILE: dict[str, Any] = {
    "format": "syclsched-graph/1",
    "name": "own",
    "arrays": [
        {"name": "x", "nbytes": 4096},
        {"name": "y", "shape": [16, 16], "dtype": "float32", "temporary": True},
    ],
    "tasks": [
        {"name": "a", "seconds": 0.5, "accesses": [{"array": "x", "mode": "read"}, {"array": "y", "mode": "write"}]},
        {"name": "b", "family": "gemm", "seconds_on": {"gpu": 0.01}, "accesses": [{"array": "y", "mode": "update"}]},
        {"name": "wall", "kind": "barrier"},
        {"name": "c", "seconds": 1, "cores": 8, "priority": 3, "after": ["a"]},
    ],
}

STG = """          3
          0          0          0
          1         20          1          0
          2          3          1          0
          3          4          2          1          2
          4          0          1          3
# Standard Task Graph Set Project
#   CP Length : 24
"""

STG_PAIRS = """3 2
0 0 0
1 20 1
  0 5
2 3 1
  0 0
3 4 2
  1 2
  2 7
4 0 1
  3 1
"""

DOT = """/* three tasks */
strict digraph "my graph" {
  rankdir=LR; node [shape=box, cost=3];   // defaults
  a [seconds=1.5, seconds_cpu=2, "cost_xeon-8480"=500, label=<b<i>x</i>>];
  a -> b -> c [bytes=100, weight=9];
  subgraph cluster_0 { edge [weight=2]; d; e [family="pot" + "rf", cores=4, priority=-3]; d -> e } -> c:n:ne
}
"""

GRAPHML = """<?xml version="1.0" encoding="UTF-8"?>
<graphml xmlns="http://graphml.graphdrawing.org/xmlns">
  <key id="d0" for="node" attr.name="cost" attr.type="double"><default>4</default></key>
  <key id="d1" for="edge" attr.name="bytes" attr.type="long"/>
  <key id="d2" for="node" attr.name="seconds_gpu" attr.type="double"/>
  <key id="d3" for="node" yfiles.type="nodegraphics"/>
  <graph id="G" edgedefault="directed">
    <node id="a"><data key="d0">2.5</data><data key="d3"><shape>text <b>here</b></shape></data></node>
    <node id="b"><data key="d2">1e-3</data></node>
    <edge source="a" target="b"><data key="d1">17</data></edge>
    <edge source="a" target="b"/>
  </graph>
</graphml>
"""

#: Name (whose ending gives the format) and content.
SAMPLES: dict[str, bytes] = {
    "wf15.json": json.dumps(WFFORMAT_15, indent=1).encode(),
    "wf14.json": json.dumps(WFFORMAT_14).encode(),
    "own.json": json.dumps(GRAPH_FILE).encode(),
    "plain.stg": STG.encode(),
    "pairs.stg": STG_PAIRS.encode(),
    "small.dot": DOT.encode(),
    "small.graphml": GRAPHML.encode(),
}


def cost_of(graph: TaskGraph, task: str) -> StatedCost:
    """Return the costs of a task of an imported graph."""
    signature = graph.find_task(task).signature
    assert signature is not None
    return stated_cost(signature)


def modes_of(graph: TaskGraph, task: str) -> dict[str, str]:
    """Return the access mode of each array of a task."""
    return {access.array: access.mode.value for access in graph.find_task(task).accesses}


def refused(content: str | bytes | dict[str, Any], name: str, limits: Limits | None = None) -> str:
    """Return the text of the error with which a file is refused."""
    if isinstance(content, dict):
        content = json.dumps(content)
    data = content.encode() if isinstance(content, str) else content
    with pytest.raises(FormatError) as caught:
        parse_graph(data, where=name, limits=limits)
    assert caught.value.where is not None
    assert caught.value.where.startswith(name)
    return str(caught.value)
