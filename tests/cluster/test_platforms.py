# SPDX-License-Identifier: Apache-2.0
"""Platforms of several machines: names, costs of copies, shared network ports, and refusals."""

from __future__ import annotations

from itertools import permutations

import pytest

import syclsched
from syclsched.cluster import NetworkPath, joined
from syclsched.cluster.platforms import machine_names
from syclsched.errors import PlatformError
from syclsched.kernels import get
from syclsched.model.platform import HOST, Platform
from syclsched.model.platform_parts.machines import local_name, machine_of

MACHINE = syclsched.describe("max1550")


def cluster(*machines: str, latency_s: float = 1e-4, bandwidth: float = 1e9) -> Platform:
    paths = [NetworkPath(*pair, latency_s, bandwidth) for pair in permutations([HOST, *machines], 2)]
    return joined(dict.fromkeys(machines, MACHINE), paths)


def test_devices_carry_their_machine() -> None:
    platform = cluster("a", "b")
    assert machine_names(platform) == ("a", "b")
    assert [device.name for device in platform.devices] == ["a/max1550", "a/host", "b/max1550", "b/host"]
    assert (machine_of("a/max1550"), local_name("a/max1550")) == ("a", "max1550")
    assert (machine_of(HOST), local_name(HOST)) == ("", HOST)


def test_copy_between_machines_uses_every_link() -> None:
    platform, nbytes = cluster("a", "b"), 1e6
    space = MACHINE.compute_devices[0].space
    (link,) = platform.route(f"a/{space}", f"b/{space}")
    within = sum(each.seconds(nbytes) for pair in ((space, HOST), (HOST, space)) for each in MACHINE.route(*pair))
    assert link.seconds(nbytes) == pytest.approx(within + 1e-4 + 1e-3)
    assert link.channels == ("a sends", "b receives")


def test_copies_from_one_machine_wait_for_its_port() -> None:
    graph = syclsched.TaskGraph("spread")
    x = graph.array("x", (1 << 20,))
    graph.kernel(get("fill"), name="make", x=x, value=1.0)
    for name in ("b", "c"):
        graph.kernel(get("copy"), name=name, y=graph.array(name, (1 << 20,)), x=x)
    from tests.support.running import plan_by

    plan = plan_by(graph, cluster("a", "b", "c"), lambda name: (f"{'a' if name == 'make' else name}/max1550", 0, _kind))
    sent = sorted((i.start_s, i.finish_s) for _, i in plan.instructions() if i.kind == "copy")
    assert len(sent) == 2
    assert sent[1][0] >= sent[0][1] - 1e-9


_kind = next(i.name for i in get("copy").implementations if i.kind == "opencl-c")


@pytest.mark.parametrize("name", ["", "a/b", "host"])
def test_names_that_would_be_ambiguous_are_refused(name: str) -> None:
    with pytest.raises(PlatformError, match="cannot be the name of a machine"):
        joined({name: MACHINE}, [])


def test_a_missing_path_is_named() -> None:
    with pytest.raises(PlatformError, match="no network path from 'host' to 'a'"):
        joined({"a": MACHINE}, [])


def test_a_plan_for_a_described_cluster_is_verified_and_saved() -> None:
    graph = syclsched.TaskGraph("saved")
    for number in range(2):
        x = graph.array(f"x{number}", (1 << 22,))
        graph.kernel(get("fill"), name=f"fill{number}", x=x, value=1.0)
        for step in range(10):
            graph.kernel(get("scale"), name=f"scale{number}.{step}", x=x, alpha=2.0)
    plan = syclsched.plan(graph, cluster("a", "b", bandwidth=1e15, latency_s=1e-9))
    syclsched.verify(plan, graph)
    assert {machine_of(a.device) for a in plan.schedule.assignments} == {"a", "b"}
    assert syclsched.Plan.from_json(plan.to_json()) == plan
    assert syclsched.simulate(plan).makespan_s > 0
