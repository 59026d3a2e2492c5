# SPDX-License-Identifier: Apache-2.0
"""Platforms: look-up, routes and selection."""

from __future__ import annotations

import json
import math
import pickle
from dataclasses import replace

import pytest
from hypothesis import given
from support.strategies import platforms

from syclsched.errors import DeviceNotFoundError, EmptyPlatformError, FormatError, PlatformError
from syclsched.model.operation import DeviceLimits
from syclsched.model.platform import HOST, Device, Interference, Link, MemorySpace, Platform
from syclsched.model.text.json_serialisation import from_json, to_json


def device(name: str, space: str, *more: str, kind: str = "gpu") -> Device:
    return Device(name, name, kind, "opencl", "", space, (space, *more), max_work_group_size=8, compute_units=2)  # type: ignore[arg-type]


THE_HOST = Device(HOST, HOST, HOST, HOST, "", HOST, (HOST, "cpu"))
PLATFORM = Platform(
    "desk",
    (device("cpu", "cpu", kind="cpu"), device("gpu", "gpu"), device("gpu1", "gpu1", "gpu"), THE_HOST),
    tuple(MemorySpace(n, 100) for n in ("cpu", "gpu", "gpu1", HOST)),
    (
        Link("cpu", HOST, 1e-6, 1e9),
        Link(HOST, "cpu", 1e-6, 1e9),
        Link(HOST, "gpu", 1e-5, 1e8),
        Link("gpu", "gpu1", 1e-7, 1e10),
    ),
    (Interference("cpu", HOST, 0.5), Interference("gpu", "gpu", 1.0)),
)


def test_finding_by_name() -> None:
    assert PLATFORM.device("gpu").space == "gpu"
    assert PLATFORM.space("gpu").capacity_bytes == 100
    assert PLATFORM.host is THE_HOST
    assert [d.name for d in PLATFORM.compute_devices] == ["cpu", "gpu", "gpu1"]
    assert PLATFORM.device("cpu").limits == DeviceLimits(8, 2, 0)
    assert replace(PLATFORM.device("gpu"), sub_group_sizes=(8, 16)).limits == DeviceLimits(8, 2, 0, (8, 16))
    assert THE_HOST.is_host
    assert not PLATFORM.device("cpu").is_host


def test_missing_names_are_reported_with_the_present_names() -> None:
    with pytest.raises(DeviceNotFoundError, match=r"'desk': no device 'tpu'.*cpu, gpu, gpu1, host"):
        PLATFORM.device("tpu")
    with pytest.raises(PlatformError, match="no memory space 'disk'"):
        PLATFORM.space("disk")
    with pytest.raises(PlatformError, match="no host device"):
        _ = Platform("bare", (), ()).host
    with pytest.raises(DeviceNotFoundError, match="It has none"):
        Platform("bare", (), ()).device("cpu")


def test_routes_are_direct_or_through_the_host() -> None:
    assert PLATFORM.route("gpu", "gpu") == ()
    assert PLATFORM.route("gpu", "gpu1") == (PLATFORM.links[3],)
    assert PLATFORM.route("cpu", "gpu") == (PLATFORM.links[0], PLATFORM.links[2])
    with pytest.raises(PlatformError, match="no link from 'gpu1' to 'cpu'"):
        PLATFORM.route("gpu1", "cpu")
    assert PLATFORM.link("gpu1", "gpu") is None


def test_a_link_costs_latency_and_bandwidth() -> None:
    assert Link("a", "b", 2.0, 10.0).seconds(50) == 7.0
    assert Link("a", "b", 2.0, 10.0).seconds(0) == 2.0


def test_cores_of_a_processor_and_of_its_lanes() -> None:
    cpu, gpu, host = (PLATFORM.device(name) for name in ("cpu", "gpu", HOST))
    cpu = replace(cpu, processor="p", compute_units=8, lanes=1)
    host = replace(host, processor="p", compute_units=4, lanes=2)
    both = replace(PLATFORM, devices=(cpu, gpu, host))
    assert both.processor_cores == {"p": 4}  # those that the host may use
    assert [both.lane_cores(device) for device in both.devices] == [4, 0, 2]
    assert host.library_threads == 2
    assert replace(host, lanes=9).library_threads == 1
    alone = replace(PLATFORM, devices=(cpu, replace(host, processor=None)))
    assert alone.processor_cores == {"p": 8}
    apart = replace(both, devices=(replace(cpu, lanes=4), host), interferences=(Interference("cpu", "cpu", 0.1),))
    assert apart.lane_cores(apart.devices[0]) == 1  # lanes that do not slow each other down
    assert from_json(Platform, to_json(both), where="platform") == both


def test_interference_is_symmetric() -> None:
    assert PLATFORM.interference("cpu", HOST) == PLATFORM.interference(HOST, "cpu") == 0.5
    assert PLATFORM.interference("gpu", "gpu") == 1.0
    assert PLATFORM.interference("cpu", "cpu") == 0.0


def test_selection_keeps_the_host_and_reachable_spaces() -> None:
    for keep in (["cpu"], lambda d: d.kind == "cpu"):
        small = PLATFORM.select(keep)
        assert [d.name for d in small.devices] == ["cpu", HOST]
        assert [s.name for s in small.spaces] == ["cpu", HOST]
        assert small.links == PLATFORM.links[:2]
        assert small.interferences == PLATFORM.interferences[:1]
    assert PLATFORM.select(["gpu"]).host.reaches == (HOST,)
    assert PLATFORM.select(["gpu1"]).device("gpu1").reaches == ("gpu1",)


def test_selecting_no_or_unknown_devices_is_refused() -> None:
    for keep in ([], [HOST], lambda d: False):
        with pytest.raises(EmptyPlatformError, match=r"no device is left.*It has cpu, gpu, gpu1"):
            PLATFORM.select(keep)
    with pytest.raises(DeviceNotFoundError, match="'tpu'"):
        PLATFORM.select(["cpu", "tpu"])


@given(platforms())
def test_a_selection_is_whole(platform: Platform) -> None:
    assert platform.select([d.name for d in platform.compute_devices]) == platform
    first = platform.compute_devices[0]
    small = platform.select([first.name])
    spaces = {s.name for s in small.spaces}
    assert {s for d in small.devices for s in d.reaches} <= spaces
    assert {s for n in small.links for s in (n.source, n.destination)} <= spaces
    for one in small.devices:
        assert small.space(one.space)
        small.route(HOST, one.space)


def test_links_have_channels_of_their_own_unless_they_name_one() -> None:
    up, down = Link("a", HOST, 0.0, 1.0), Link(HOST, "a", 0.0, 1.0, channel="bus")
    assert (up.channels, down.channels) == (("a->host",), ("bus",))


def test_platforms_written_before_there_was_contention_are_read() -> None:
    platform = Platform("p", (THE_HOST,), (MemorySpace(HOST, 0, True),), (Link("a", HOST, 0.0, 1.0),))
    content = json.loads(to_json(replace(platform, contention="fair")))
    assert content.pop("contention") == "fair"
    assert [link.pop("channel") for link in content["links"]] == [None]
    assert from_json(Platform, json.dumps(content), where="old") == platform
    content["contention"] = "none of these"
    with pytest.raises(FormatError, match="contention"):
        from_json(Platform, json.dumps(content), where="new")


def test_infinite_bandwidth_can_be_written() -> None:
    link = Link("a", "b", 1e-6, math.inf)
    assert link.seconds(1e15) == 1e-6
    assert from_json(Link, to_json(link), where="link") == link


def test_links_are_found_by_their_ends_the_first_of_two_wins() -> None:
    spaces = tuple(MemorySpace(name, 0) for name in ("a", "b", HOST))
    links = (Link("a", "b", 1.0, 1.0), Link("b", "a", 2.0, 1.0), Link("a", "b", 3.0, 1.0))
    platform = Platform("linked", (), spaces, links)
    for each in (platform, replace(platform, name="other"), pickle.loads(pickle.dumps(platform))):
        assert each.link("a", "b") == links[0] and each.link("b", "a") == links[1] and each.link("a", HOST) is None
        assert each.links == links and to_json(each) == to_json(replace(each, links=links))
