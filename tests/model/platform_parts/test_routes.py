# SPDX-License-Identifier: Apache-2.0
"""Routes as arrays, compared with routes that a platform finds one by one, on one machine and on several."""

from __future__ import annotations

import pickle
from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.examples import examples
from support.strategies import platforms

import syclsched
from syclsched.cluster import NetworkPath, joined
from syclsched.errors import PlatformError
from syclsched.model.platform import HOST, Link, Platform
from syclsched.model.platform_parts.links import LinkTable
from syclsched.model.platform_parts.routes import NOTHING, find_routes


def several_machines(kinds: dict[str, str]) -> Platform:
    machines = {name: syclsched.describe(kind) for name, kind in kinds.items()}
    pairs = permutations([HOST, *machines], 2)
    return joined(machines, [NetworkPath(*pair, 1e-4 * (n + 1), 1e9 + n) for n, pair in enumerate(pairs)])


def agree(platform: Platform) -> None:
    names = [space.name for space in platform.spaces]
    routes = find_routes(platform.links, names)
    for one, source in enumerate(names):
        for other, destination in enumerate(names):
            try:
                route = platform.route(source, destination)
            except PlatformError:
                assert routes.stop[one, other] == NOTHING and np.isinf(routes.latency_s[one, other])
                continue
            assert routes.stop[one, other] == (other if len(route) < 2 else names.index(route[0].destination))
            assert routes.latency_s[one, other] == pytest.approx(sum(link.latency_s for link in route))
            assert routes.s_per_byte[one, other] == pytest.approx(sum(1 / n.bandwidth_bytes_per_s for n in route))
            used = {channel for link in route for channel in link.channels}
            assert len({*routes.channel[one, other].tolist()} - {NOTHING}) == min(2, len(used))


@given(platforms())
@settings(max_examples=examples(30), deadline=None)
def test_on_one_machine(platform: Platform) -> None:
    agree(platform)


@given(st.lists(st.sampled_from(["cpu", "max1550", "max1550,a770", "xeon-8480,max1550"]), min_size=1, max_size=3))
@settings(max_examples=examples(10), deadline=None)
def test_on_several_machines(kinds: list[str]) -> None:
    agree(several_machines({f"m{n}": kind for n, kind in enumerate(kinds)}))


def test_copies_within_a_machine_go_through_its_own_host() -> None:
    """Before, they went through the connecting process, and over the network twice."""
    platform = several_machines({"a": "max1550,a770", "b": "cpu"})
    assert [(link.source, link.destination) for link in platform.route("a/max1550", "a/a770")] == [
        ("a/max1550", "a/host"),
        ("a/host", "a/a770"),
    ]


def test_links_between_many_machines_connect_their_hosts() -> None:
    platform = several_machines({f"m{n}": "max1550,a770" for n in range(5)})
    assert len(platform.links) == 5 * 4 + 6 * 5
    (link,) = platform.route("m0/max1550", "m4/a770")
    assert link.channels == ("m0 sends", "m4 receives")


def test_links_that_are_kept_are_found_again_after_pickling() -> None:
    links = LinkTable([Link(HOST, "a", 1.0, 2.0)])
    assert find_routes(links, [HOST, "a"]) is find_routes(links, [HOST, "a"])
    again = pickle.loads(pickle.dumps(links))
    assert again == links and again.between(HOST, "a") == links[0]


def test_a_slash_in_a_name_makes_no_machine() -> None:
    platform = syclsched.describe("max1550,a770")
    names = {"max1550": "gpu/max1550", "a770": "gpu/a770", HOST: HOST}
    renamed = replace(
        platform,
        devices=tuple(replace(d, space=names[d.space], reaches=()) for d in platform.devices),
        spaces=tuple(replace(s, name=names[s.name]) for s in platform.spaces),
        links=tuple(replace(n, source=names[n.source], destination=names[n.destination]) for n in platform.links),
    )
    assert [link.destination for link in renamed.route("gpu/max1550", "gpu/a770")] == [HOST, "gpu/a770"]
    agree(renamed)


def test_a_part_of_a_cluster_keeps_the_links_between_its_machines() -> None:
    platform = several_machines({"a": "max1550", "b": "max1550"})
    left = platform.restricted_to(platform.compute_devices)
    assert left.route("a/max1550", "b/max1550") == platform.route("a/max1550", "b/max1550")


def test_composed_links_occupy_the_channels_of_the_network() -> None:
    platform = several_machines({"a": "max1550", "b": "max1550"})
    bare = replace(platform, links=tuple(replace(n, channel=None, arrival_channel=None) for n in platform.links))
    (link,) = bare.route("a/max1550", "b/max1550")
    assert link.channels == ("a/host->b/host",)
    agree(bare)
