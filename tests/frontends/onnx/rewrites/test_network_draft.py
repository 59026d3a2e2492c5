# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numpy as np
import pytest
from support.networks import Builder, assert_same, assert_whole

from syclsched.frontends.onnx.rewrites.network_draft import NetworkDraft


def chain(length: int) -> Builder:
    made = Builder(dtype="float64")
    value = made.input("x", (2, 3))
    for _ in range(length):
        value = made.elementwise(("sin", 0), value)
    made.last = (value,)
    return made


def test_an_unchanged_draft_equals_the_network() -> None:
    made = chain(5)
    network = made.network(*made.last)
    assert NetworkDraft(network).finish() == network


def test_nodes_of_a_deep_network_are_sorted() -> None:
    made = chain(3000)
    made.nodes.reverse()
    network = NetworkDraft(made.network(*made.last)).finish()
    assert_whole(network)


def test_readers_and_reads() -> None:
    made = Builder(dtype="float64")
    x = made.input("x", (2, 3))
    y = made.elementwise(("exp", 0), x)
    made.elementwise(("add", 0, 1), y, y)
    draft = NetworkDraft(made.network(str(made.nodes[-1].outputs[0]), y))
    assert draft.reads(y) == 3
    assert draft.sole_reader(y) is None
    assert [node.name for node in draft.readers(y)] == ["elementwise1"]
    assert draft.sole_reader(x) is draft.producer(y)


@pytest.mark.parametrize("asked", [False, True])
def test_node_is_replaced_by_a_value(asked: bool) -> None:
    made = Builder(dtype="float64")
    x = made.input("x", (2, 3))
    one, other = made.softmax(x, 1), made.softmax(x, 1)
    last = made.elementwise(("mul", 0, 1), one, other)
    network = made.network(last, *([other] if asked else []))
    draft = NetworkDraft(network)
    draft.replace_node(draft.nodes["softmax1"], one)
    changed = draft.finish()
    assert_whole(changed)
    assert_same(network, changed, made.given())
    assert len(changed.nodes) == 2


def test_an_input_that_stands_for_an_output_is_copied() -> None:
    made = Builder(dtype="float64")
    x = made.input("x", (2, 3))
    last = made.elementwise(0, x)
    network = made.network(last)
    draft = NetworkDraft(network)
    assert not draft.can_redirect(last, x)
    draft.replace_node(draft.nodes["elementwise0"], x)
    changed = draft.finish()
    assert_same(network, changed, made.given())


def test_removal_includes_predecessors_without_other_readers() -> None:
    made = chain(4)
    other = made.softmax("elementwise1_y", 1)
    draft = NetworkDraft(made.network(*made.last, other))
    draft.change(draft.nodes["elementwise3"], inputs=("x",))
    draft.remove_unread("elementwise2_y")
    assert set(draft.nodes) == {"elementwise0", "elementwise1", "elementwise3", "softmax4"}


def test_names_are_new() -> None:
    made = chain(2)
    draft = NetworkDraft(made.network(*made.last))
    names = {draft.fresh("x"), draft.fresh("x~1"), draft.add_constant(np.zeros(2), "x")}
    assert len(names) == 3
    assert not names & {"x"}
