# SPDX-License-Identifier: Apache-2.0
"""Copies that share channels: cases computed by hand, and properties of all plans."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Literal

import pytest
from hypothesis import given
from support.plans import copy, launch, plan_on, platform_of, random_plans

from syclsched.errors import IncompletePlanError, PlatformError
from syclsched.model.plan import Plan
from syclsched.model.platform import HOST, Link, Platform
from syclsched.simulation import simulate, time_plan

A, B = "a", "b"


def sharing(
    contention: Literal["none", "one-port", "fair"], channel: str | None = "bus", latency_s: float = 0.0
) -> Platform:
    """Return a platform whose links from the host carry 1 and 3 bytes a second, on one channel or each on its own."""
    links = (
        Link(HOST, A, latency_s, 1.0, channel=channel), Link(HOST, B, latency_s, 3.0, channel=channel),
        Link(A, HOST, latency_s, 1.0), Link(B, HOST, latency_s, 3.0),
    )  # fmt: skip
    return platform_of(A, B, links=links, contention=contention)


def finishes(plan: Plan) -> dict[int, float]:
    return {number: timing.finish_s for number, timing in time_plan(plan).items()}


def test_without_contention_copies_are_independent() -> None:
    plan = plan_on(sharing("none"), a__copy=[copy(0, 4.0, HOST, A)], b__copy=[copy(1, 4.0, HOST, B)])
    assert finishes(plan) == {0: 4.0, 1: 4.0}


def test_one_port_copies_go_in_the_order_of_submission() -> None:
    # Ready at 1 s, 0 s and 0 s: number 1 is submitted before 2, and both are done before 0 is ready at 5 s.
    plan = plan_on(
        sharing("one-port"),
        a__0=[launch(3, 5.0)],
        a__copy=[copy(0, 1.0, HOST, A, 3)],
        b__copy=[copy(2, 2.0, HOST, B)],
        a__1=[copy(1, 1.0, HOST, A)],
    )
    assert finishes(plan) == {3: 5.0, 1: 1.0, 2: 3.0, 0: 6.0}
    times = time_plan(plan)
    assert times[2].start_s == 1.0


def test_directions_and_links_are_channels_of_their_own() -> None:
    plan = plan_on(
        sharing("one-port", channel=None),
        a__copy=[copy(0, 2.0, HOST, A)], b__copy=[copy(1, 2.0, HOST, B)], a__0=[copy(2, 2.0, A, HOST)],
        b__0=[copy(3, 2.0, HOST, B)],
    )  # fmt: skip
    assert finishes(plan) == {0: 2.0, 1: 2.0, 2: 2.0, 3: 4.0}


def test_a_copy_through_the_host_takes_both_channels_in_order() -> None:
    # 1 goes from a to b: it needs a->host, used by 0 until 2 s, and host->b, which it blocks for 2 meanwhile.
    plan = plan_on(
        sharing("one-port", channel=None),
        a__copy=[copy(0, 2.0, A, HOST)], a__0=[copy(1, 3.0, A, B)], b__copy=[copy(2, 1.0, HOST, B)],
        b__0=[copy(3, 1.0, B, HOST)],
    )  # fmt: skip
    assert finishes(plan) == {0: 2.0, 1: 5.0, 2: 6.0, 3: 1.0}


def test_copies_that_take_no_time_wait_for_no_channel() -> None:
    plan = plan_on(sharing("one-port"), a__copy=[copy(0, 3.0, HOST, A)], b__copy=[copy(1, 0.0, HOST, B)])
    assert finishes(plan) == {0: 3.0, 1: 0.0}


def test_a_fair_channel_is_halved_while_two_want_more_than_half() -> None:
    # The bus carries 3 bytes a second. Both could use 3: each gets 1.5 until 0 has its 3 bytes at 2 s; 1 has 6 left.
    links = (Link(HOST, A, 0.0, 3.0, channel="bus"), Link(HOST, B, 0.0, 3.0, channel="bus"))
    platform = platform_of(A, B, links=links, contention="fair")
    plan = plan_on(platform, a__copy=[copy(0, 1.0, HOST, A, nbytes=3)], b__copy=[copy(1, 3.0, HOST, B, nbytes=9)])
    assert finishes(plan) == pytest.approx({0: 2.0, 1: 4.0})


def test_copies_below_the_fair_share_leave_the_rest_to_others() -> None:
    # The bus carries 3: 0 alone runs at 1, so that two bytes a second are left for 1, which could use 3.
    plan = plan_on(
        sharing("fair"), a__copy=[copy(0, 6.0, HOST, A, nbytes=6)], b__copy=[copy(1, 2.0, HOST, B, nbytes=6)]
    )
    assert finishes(plan) == pytest.approx({0: 6.0, 1: 3.0})


def test_latencies_pass_side_by_side() -> None:
    links = (Link(HOST, A, 1.0, 2.0, channel="bus"), Link(HOST, B, 1.0, 2.0, channel="bus"))
    platform = platform_of(A, B, links=links, contention="fair")
    plan = plan_on(platform, a__copy=[copy(0, 2.0, HOST, A, nbytes=2)], b__copy=[copy(1, 2.0, HOST, B, nbytes=2)])
    # Both move from 1 s on at half the speed.
    assert finishes(plan) == pytest.approx({0: 3.0, 1: 3.0})


def test_a_copy_through_the_host_shares_both_fair_channels() -> None:
    # a->b alone: 1 byte a second up, 3 down, 3/4 through both. host->b beside it gets the rest of 3.
    plan = plan_on(
        sharing("fair", channel=None),
        a__copy=[copy(0, 4.0, A, B, nbytes=3)], b__copy=[copy(1, 3.0, HOST, B, nbytes=9)],
    )  # fmt: skip
    assert finishes(plan) == pytest.approx({0: 4.0, 1: 4.0})


def test_a_copy_without_a_link_is_an_error_where_links_are_shared() -> None:
    platform = platform_of(A, B, contention="one-port")
    with pytest.raises(PlatformError, match="no link from 'host' to 'a'"):
        time_plan(plan_on(platform, a__copy=[copy(0, 1.0, HOST, A)]))


def completes(plan: Plan) -> bool:
    try:
        time_plan(plan)
    except IncompletePlanError:
        return False
    return True


@given(random_plans(contention="one-port"))
def test_no_two_copies_are_on_a_one_port_channel_at_once(plan: Plan) -> None:
    if not completes(plan):
        return
    channels: dict[str, list[tuple[float, float]]] = {}
    times = time_plan(plan)
    for _, i in plan.instructions():
        if i.kind == "copy" and i.duration_s > 0:
            timing = times[i.id]
            for link in plan.platform.route(i.uses[0].space, i.uses[1].space):
                for name in link.channels:
                    channels.setdefault(name, []).append((timing.start_s, timing.finish_s))
    for intervals in channels.values():
        for first, second in pairwise(sorted(intervals)):
            assert second[0] >= first[1] - 1e-9


@given(random_plans(contention="fair"))
def test_shared_channels_respect_bandwidth_and_single_copy_time(plan: Plan) -> None:
    """No channel exceeds its bandwidth, and every copy lasts at least its time alone."""
    if not completes(plan):
        return
    times = time_plan(plan)
    carried: dict[str, float] = {}
    spans: dict[str, tuple[float, float]] = {}
    for _, i in plan.instructions():
        if i.kind != "copy":
            continue
        begun, ended = times[i.id].start_s, times[i.id].finish_s
        assert ended - begun >= i.duration_s - 1e-9
        route = plan.platform.route(i.uses[0].space, i.uses[1].space)
        latency_s = sum(link.latency_s for link in route)
        if i.duration_s <= latency_s:
            continue
        # The bytes follow from the duration, which cannot be shorter than the channel's bandwidth allows.
        for link in route:
            most = max(n.bandwidth_bytes_per_s for n in plan.platform.links if set(link.channels) & set(n.channels))
            name = link.channels[0]
            carried[name] = carried.get(name, 0.0) + min(i.nbytes, (i.duration_s - latency_s) * most) / most
            low, high = spans.get(name, (begun, ended))
            spans[name] = min(low, begun), max(high, ended)
    for name, seconds in carried.items():
        assert seconds <= spans[name][1] - spans[name][0] + 1e-9


@pytest.mark.parametrize("contention", ["one-port", "fair"])
def test_copies_on_channels_of_their_own_are_as_without_contention(contention: Literal["one-port", "fair"]) -> None:
    plan = plan_on(
        sharing(contention, channel=None, latency_s=0.5),
        a__copy=[copy(0, 2.5, HOST, A, nbytes=2), copy(2, 1.0, HOST, A)],
        b__copy=[copy(1, 1.5, HOST, B, nbytes=3), copy(3, 0.25, HOST, B, nbytes=0)],
        a__0=[launch(4, 1.0, 2)],
    )
    alone = replace(plan, platform=replace(plan.platform, contention="none"))
    assert finishes(plan) == pytest.approx(finishes(alone))
    assert simulate(plan).makespan_s == pytest.approx(4.5)
