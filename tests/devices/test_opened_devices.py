# SPDX-License-Identifier: Apache-2.0
"""Open devices: queues created once, in the right context, and only on present and trusted devices."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from support.machines import CPU, HOST_FACTS, ZE_GPU0, ZE_GPU1

from syclsched.devices import discover, open_devices
from syclsched.devices.discovery.topology import SelectedDevice, build_platform
from syclsched.devices.opened_devices import OpenDevices, find_root, match_roots
from syclsched.errors import DeviceNotFoundError, PlatformError, UntrustedDeviceError
from syclsched.model.platform import Device, Partition, Platform

SOURCE = "__kernel void add1(__global float* a) { a[get_global_id(0)] += 1.0f; }"


# --- on made-up facts ----------------------------------------------------------------------------------


def described(**changes: Any) -> Device:
    platform = build_platform(
        (SelectedDevice("gpu", "gpu", ZE_GPU0), SelectedDevice("gpu1", "gpu1", ZE_GPU1)), HOST_FACTS, "test"
    )
    return replace(platform.device("gpu1"), **changes)


def test_identical_devices_are_distinguished_by_filter_string() -> None:
    assert find_root(described(), (CPU, ZE_GPU0, ZE_GPU1)) is ZE_GPU1


def test_a_device_is_found_where_its_number_has_moved() -> None:
    assert find_root(described(), (CPU, ZE_GPU0)) is ZE_GPU0


def pair() -> tuple[Device, Device]:
    return described(name="gpu", filter_string=ZE_GPU0.filter_string), described()


def test_two_identical_cards_stay_two() -> None:
    moved = tuple(replace(ZE_GPU0, filter_string=f"level_zero:gpu:{n}", backend_index=n) for n in (1, 2))
    assert match_roots(pair(), moved) == {"gpu": moved[0], "gpu1": moved[1]}
    assert match_roots(pair(), (ZE_GPU1, ZE_GPU0)) == {"gpu": ZE_GPU0, "gpu1": ZE_GPU1}
    with pytest.raises(DeviceNotFoundError, match=r"not on this machine"):
        match_roots(pair(), (CPU, ZE_GPU0))


def test_the_parts_of_a_moved_card_stay_on_one_card() -> None:
    parts = [described(name=f"gpu1.{index}", partition=Partition("count", "2", index)) for index in range(2)]
    moved = tuple(replace(ZE_GPU0, filter_string=f"level_zero:gpu:{n}") for n in (2, 3))
    assert set(match_roots(parts, moved).values()) == {moved[0]}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"description": "Another card"}, "Another card.*not on this machine"),
        ({"driver_version": "0.9"}, "driver 0.9: not on this machine"),
        ({"backend": "cuda"}, "not on this machine"),
        ({"filter_string": None}, "described, not discovered"),
    ],
)
def test_a_missing_device_is_named_with_the_present_devices(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(DeviceNotFoundError, match=message) as caught:
        find_root(described(**changes), (CPU, ZE_GPU1))
    assert caught.value.where == "device 'gpu1'"
    assert "opencl:cpu:0" in str(caught.value)


def test_another_driver_of_the_same_product_serves() -> None:
    newer = replace(ZE_GPU1, driver_version="9.9", aspects=("fp64",))
    assert match_roots([described(aspects=("fp64", "old"))], (newer,), any_driver=True) == {"gpu1": newer}
    for fewer in ({"aspects": ()}, {"name": "Another card"}):
        with pytest.raises(DeviceNotFoundError):
            find_root(described(aspects=("fp64",)), (replace(newer, **fewer),), any_driver=True)


# --- on this machine ---------------------------------------------------------------------------------


def run_add1(queue: Any, memory: Any, items: int) -> None:
    from dpctl.program import create_program_from_source

    kernel = create_program_from_source(queue, SOURCE).get_sycl_kernel("add1")
    queue.submit_async(kernel, [memory], [items]).wait()


@pytest.fixture(scope="module")
def platform() -> Platform:
    return discover()


@pytest.fixture
def live(platform: Platform) -> Iterator[OpenDevices]:
    with open_devices(platform) as opened:
        yield opened


@pytest.mark.sycl
def test_queues_are_in_order_profiling_and_made_once(live: OpenDevices) -> None:
    queue = live.queue("cpu")
    assert queue.is_in_order and queue.has_enable_profiling
    assert live.queue("cpu", "compute", 0) is queue
    lanes = {id(live.queue("cpu", kind, index)) for kind in ("compute", "copy") for index in range(2)}  # type: ignore[arg-type]
    assert len(lanes) == 4
    assert len({live.queue("cpu", "compute", index) for index in range(2)}) == 2


@pytest.mark.sycl
def test_arrays_made_on_default_queues_are_in_the_same_context(live: OpenDevices, platform: Platform) -> None:
    import dpctl
    import dpnp

    for device in platform.compute_devices:
        default = dpctl.SyclQueue(device.filter_string)
        assert live.context(device.name) == default.sycl_context
        assert live.queue(device.name).sycl_context == default.sycl_context
    array = dpnp.arange(10, device="cpu", dtype="float32")
    run_add1(live.queue("cpu"), array.get_array().usm_data, 10)
    assert np.array_equal(dpnp.asnumpy(array), np.arange(1, 11))


@pytest.mark.gpu_shape
@pytest.mark.sycl
@pytest.mark.parametrize("kind", ["MemoryUSMShared", "MemoryUSMHost", "MemoryUSMDevice"])
def test_memory_of_a_space_is_reached_by_all_its_devices(kind: str) -> None:
    from dpctl import memory

    if discover(selector="cpu").device("cpu").compute_units < 2:
        pytest.skip("the CPU device has one compute unit")
    # Every device of the machine in two parts, and the whole devices.
    for platform in (discover(sub_devices=2), discover(selector="cpu,cpu.*")):
        with open_devices(platform) as live:
            for space in platform.spaces:
                members = [device for device in platform.compute_devices if device.space == space.name]
                if not members:
                    continue
                block = getattr(memory, kind)(400, queue=live.allocator_queue(space.name))
                block.copy_from_host(np.zeros(100, dtype=np.float32).view(np.uint8))
                for device in members:
                    run_add1(live.queue(device.name), block, 100)
                assert np.array_equal(block.copy_to_host().view(np.float32), np.full(100, len(members)))


@pytest.mark.gpu_shape
@pytest.mark.sycl
def test_one_context_a_space(platform: Platform) -> None:
    parts = discover(selector="cpu", sub_devices=platform.device("cpu").compute_units)
    parts = parts.select([device.name for device in parts.compute_devices if device.space == "cpu"])
    with open_devices(parts) as live:
        contexts = {live.context(device.name) for device in parts.compute_devices}
        assert len(contexts) == 1
        assert live.allocator_queue("cpu").sycl_context in contexts
        assert [live.sycl_device(d.name).max_compute_units for d in parts.compute_devices] == [
            d.compute_units for d in parts.compute_devices
        ]


@pytest.mark.sycl
def test_the_hosts_memory_is_allocated_where_a_device_reaches_it(live: OpenDevices) -> None:
    from dpctl import memory

    queue = live.allocator_queue("host")
    block = memory.MemoryUSMHost(400, queue=queue)
    np.asarray(block)[:] = 0
    run_add1(live.queue(live.platform.compute_devices[0].name), block, 100)
    assert np.array_equal(np.asarray(block).view(np.float32), np.ones(100))


@pytest.mark.gpu_shape
@pytest.mark.sycl
@pytest.mark.other_device
def test_the_hosts_memory_is_pinned_for_the_device_that_copies_it(platform: Platform) -> None:
    other = platform.compute_devices[-1]
    spaces = tuple(replace(s, host_accessible=s.host_accessible and s.name != other.space) for s in platform.spaces)
    with open_devices(replace(platform, spaces=spaces)) as live:
        assert live.allocator_queue("host").sycl_context == live.context(other.name)


@pytest.mark.sycl
def test_closed_devices_refuse_queues_and_memory(platform: Platform) -> None:
    live = open_devices(platform)
    live.queue("cpu")
    live.close()
    live.close()
    assert live.queues() == ()
    for ask in (lambda: live.queue("cpu"), lambda: live.sycl_device("cpu"), lambda: live.allocator_queue("cpu")):
        with pytest.raises(PlatformError, match="closed"):
            ask()


@pytest.mark.sycl
def test_unknown_devices_spaces_and_lanes_are_refused(live: OpenDevices) -> None:
    with pytest.raises(DeviceNotFoundError, match="no device 'gpu9'"):
        live.queue("gpu9")
    with pytest.raises(PlatformError, match="host has no SYCL device"):
        live.queue("host")
    with pytest.raises(PlatformError, match="no memory space 'moon'"):
        live.allocator_queue("moon")
    with pytest.raises(PlatformError, match="no lane"):
        live.queue("cpu", "compute", -1)


def changed(platform: Platform, **changes: Any) -> Platform:
    devices = tuple(replace(d, **changes) if d.name == "cpu" else d for d in platform.devices)
    return replace(platform, devices=devices)


@pytest.mark.sycl
def test_a_platform_with_a_vanished_device_is_not_opened(platform: Platform) -> None:
    with pytest.raises(DeviceNotFoundError, match=r"device 'cpu'.*not on this machine"):
        open_devices(changed(platform, driver_version="1999.1"))
    moved = replace(changed(platform, driver_version="1999.1"), generation="another")
    with open_devices(moved) as opened:
        assert opened.queue("cpu").is_in_order
    units = platform.device("cpu").compute_units
    with pytest.raises(DeviceNotFoundError, match="no such sub-device"):
        open_devices(changed(platform, partition=Partition("count", str(units + 1), 0)))
    with pytest.raises(DeviceNotFoundError, match="no part 7"):
        open_devices(changed(platform, partition=Partition("count", "1", 7)))


@pytest.mark.sycl
def test_an_untrusted_device_is_not_opened(platform: Platform, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UntrustedDeviceError, match="not trusted: wrong sums"):
        open_devices(changed(platform, distrust="wrong sums"))
    # A file may say that a device is trusted: opening checks it all the same.
    monkeypatch.setattr("syclsched.devices.opened_devices.distrust", lambda found: "wrong today")
    with pytest.raises(UntrustedDeviceError, match="wrong today"):
        open_devices(platform)
