# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from onnx import helper
from support.examples import examples
from support.networks import Builder, assert_same, assert_whole, kinds, networks
from support.small_models import imported, model_of

from syclsched.errors import ArgumentError
from syclsched.frontends.onnx.rewrites import DEFAULT_PASSES, PASSES, rewrite


@pytest.mark.parametrize("name", DEFAULT_PASSES)
def test_every_single_pass_keeps_the_results(name: str) -> None:
    @given(networks())
    @settings(max_examples=examples(25), deadline=None, suppress_health_check=list(HealthCheck))
    def check(made: Builder) -> None:
        network = made.network(*made.last)
        rewritten = rewrite(network, passes=(name,)).network
        assert_whole(rewritten)
        assert_same(network, rewritten, made.given())

    check()


@pytest.mark.parametrize("passes", [("constant_folding",), DEFAULT_PASSES])
def test_random_nodes_are_not_folded(passes: tuple[str, ...]) -> None:
    draws = [helper.make_node("RandomNormal", [], [name], shape=[2, 3]) for name in "ab"]
    joins = [helper.make_node("Add", ["x", "a"], ["c"]), helper.make_node("Add", ["c", "b"], ["y"])]
    network = imported(model_of([*draws, *joins], {"x": (2, 3)}, ["y"]))
    assert kinds(rewrite(network, passes=passes).network).count("reference") == 2


@given(networks())
@settings(max_examples=examples(80), deadline=None, suppress_health_check=list(HealthCheck))
def test_all_passes_keep_the_results_and_are_idempotent(made: Builder) -> None:
    network = made.network(*made.last)
    first = rewrite(network)
    assert_whole(first.network)
    assert_same(network, first.network, made.given())
    second = rewrite(first.network)
    assert not second.changes
    assert second.network is first.network


@given(networks())
@settings(max_examples=examples(15), deadline=None, suppress_health_check=list(HealthCheck))
def test_without_any_one_pass_the_others_are_right(made: Builder) -> None:
    network = made.network(*made.last)
    for name in DEFAULT_PASSES:
        assert_same(network, rewrite(network, without=(name,)).network, made.given())


def test_the_given_network_is_unchanged() -> None:
    made = Builder()
    image = made.input("image", (1, 3, 8, 8))
    network = made.network(made.elementwise(("relu", 0), made.batch_norm(made.conv(image, 4))))
    nodes, constants = network.nodes, dict(network.constants)
    rewrite(network)
    assert network.nodes is nodes
    assert dict(network.constants) == constants


def test_the_report_lists_changes_by_node() -> None:
    made = Builder()
    image = made.input("image", (1, 3, 8, 8))
    network = made.network(made.elementwise(("relu", 0), made.batch_norm(made.conv(image, 4))))
    done = rewrite(network)
    assert "3 nodes became 3" in done.report
    assert "batch_norm: into the conv before it: 1 (batch_norm1)" in done.report
    assert done.nodes_before == 3
    assert {deed.rewrite for deed in done.changes} == {"batch_norm", "post_ops", "layout"}


def test_a_pass_can_be_left_out_by_name() -> None:
    made = Builder()
    image = made.input("image", (1, 3, 8, 8))
    network = made.network(made.batch_norm(made.conv(image, 4)))
    assert [node.kind for node in rewrite(network, without=["batch_norm", "layout"]).network.nodes] == [
        "conv",
        "batch_norm",
    ]


def test_an_unknown_pass_is_refused_with_the_known_passes() -> None:
    with pytest.raises(ArgumentError, match=r"no rewrite 'speed'.*batch_norm"):
        rewrite(Builder().network(), without=["speed"])
    assert all(each.does for each in PASSES.values())
