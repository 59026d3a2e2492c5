# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from support.networks import Builder, kinds, rewritten


def test_nodes_without_influence_on_outputs_are_removed() -> None:
    made = Builder(dtype="float64")
    x = made.input("x", (3, 4))
    made.softmax(made.elementwise(("exp", 0), x), 1)
    wanted = made.elementwise(("sin", 0), x)
    network = rewritten(made, "dead_code", outputs=(wanted,))
    assert kinds(network) == ["elementwise"]
    assert set(network.values) == {"x", wanted}


def test_an_unread_output_of_a_node_is_dropped() -> None:
    made = Builder(dtype="float64")
    x = made.input("x", (3, 4))
    values = made.add("topk", (x,), (3, 2), k=2, axis=1, largest=True, sorted=True)
    made.nodes[-1] = type(made.nodes[-1])("topk", "topk", ("x",), (values, "indices"), made.nodes[-1].attributes)
    made.values["indices"] = type(made.values[x])("indices", (3, 2), "int64")
    (node,) = rewritten(made, "dead_code", outputs=(values,)).nodes
    assert node.outputs == (values, None)
