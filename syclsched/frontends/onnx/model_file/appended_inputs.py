# SPDX-License-Identifier: Apache-2.0
"""Results of a graph in which Concat appends to an input of the model, within branches of If, too."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from syclsched.frontends.onnx.model_file.onnx_model import ModelGraph, ModelNode


@dataclass(frozen=True, slots=True)
class Appended:
    """An input of the model to which a result appends."""

    name: str
    axis: int
    #: Inputs of the model that are conditions, and the truth values with which it does so.
    conditions: frozenset[tuple[str, bool]] = frozenset()


def appended_inputs(graph: ModelGraph, ranks: Mapping[str, int]) -> dict[str, Appended]:
    """Return the outputs of a graph in which Concat appends to an input; ``ranks`` has the model's inputs."""
    wanted = {each.name for each in graph.outputs}
    found: dict[str, Appended] = {}
    for node in graph.nodes:
        if node.operator == "Concat" and node.outputs[0] in wanted and ranks.get(node.inputs[0]):
            rank = ranks[node.inputs[0]]
            found[node.outputs[0]] = Appended(node.inputs[0], node.integer("axis") % rank)
        elif node.operator == "If" and node.inputs[0] in ranks and not wanted.isdisjoint(node.outputs):
            found |= {name: each for name, each in _of_branches(node, ranks).items() if name in wanted}
    return found


def _of_branches(node: ModelNode, ranks: Mapping[str, int]) -> dict[str, Appended]:
    """Return the results of If in which one of its branches, or each, appends to an input."""
    found: dict[str, Appended] = {}
    for attribute, truth in (("then_branch", True), ("else_branch", False)):
        branch = node.attributes[attribute]
        own = appended_inputs(branch, ranks)
        for output, result in zip(node.outputs, branch.outputs, strict=True):
            each = own.get(result.name)
            if each is None:
                continue
            conditions = each.conditions | {(node.inputs[0], truth)}
            if output in found:  # of the other branch, too
                conditions &= found[output].conditions
            found[output] = Appended(each.name, each.axis, conditions)
    return found
