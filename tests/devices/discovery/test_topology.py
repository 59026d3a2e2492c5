# SPDX-License-Identifier: Apache-2.0
"""Memory spaces, reachability, links and interference of described machines."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.machines import (
    CPU,
    CUDA_GPU,
    EMULATOR,
    GIB,
    HIP_GPU,
    HOST_FACTS,
    INTEGRATED,
    ZE_GPU0,
    ZE_GPU1,
    split_facts,
)
from support.sample_profiles import pair_profile

from syclsched.devices.discovery.device_facts import DeviceFacts
from syclsched.devices.discovery.subdevices import SubDevices
from syclsched.devices.discovery.topology import (
    ASSUMED_HOST_COPY_BYTES_PER_S,
    ASSUMED_PCIE_BYTES_PER_S,
    SelectedDevice,
    build_platform,
    device_dtypes,
)
from syclsched.model.platform import HOST, Interference, Platform
from syclsched.model.text.json_serialisation import from_json, to_json
from syclsched.profiling.storage.attaching import with_profiles


def whole(name: str, facts: DeviceFacts) -> SelectedDevice:
    return SelectedDevice(name, name, facts)


def parts(name: str, facts: DeviceFacts, number: int = 2) -> list[SelectedDevice]:
    cut = split_facts(facts, SubDevices("count", str(number)))
    return [SelectedDevice(f"{name}.{index}", name, each) for index, each in enumerate(cut)]


def build(*candidates: SelectedDevice) -> Platform:
    return build_platform(candidates, HOST_FACTS, "test")


def spaces(platform: Platform) -> dict[str, str]:
    return {device.name: device.space for device in platform.devices}


def test_cpu_and_emulator() -> None:
    platform = build(whole("cpu", CPU), whole("accelerator", EMULATOR))
    assert spaces(platform) == {"cpu": "cpu", "accelerator": "accelerator", "host": "host"}
    assert platform.host.reaches == (HOST, "cpu", "accelerator")
    assert platform.device("cpu").reaches == ("cpu",)
    assert all(space.host_accessible for space in platform.spaces)
    assert platform.space(HOST).capacity_bytes == 64 * GIB
    assert platform.interference("cpu", "accelerator") == 1.0
    assert platform.device("cpu").copy_lane
    assert platform.device("cpu").lanes == 1
    assert {device.processor for device in platform.devices} == {HOST}


def test_a_cpu_alone_needs_no_copies() -> None:
    platform = build(whole("cpu", CPU))
    assert not platform.device("cpu").copy_lane
    assert len(platform.links) == 2


def test_parts_of_a_cpu_share_memory_unlike_parts_of_the_emulator() -> None:
    platform = build(*parts("cpu", CPU), *parts("accelerator", EMULATOR))
    assert spaces(platform) == {
        "cpu.0": "cpu",
        "cpu.1": "cpu",
        "accelerator.0": "accelerator.0",
        "accelerator.1": "accelerator.1",
        "host": "host",
    }
    assert len({device.key for device in platform.devices}) == 5


def test_devices_of_one_processor_interfere() -> None:
    platform = build(whole("cpu", CPU), *parts("cpu", CPU), whole("accelerator", EMULATOR))
    assert platform.interference("cpu.0", "cpu.1") == 0.0
    assert platform.interference("cpu", "cpu.0") == platform.interference("cpu", "cpu.1") == 1.0
    assert platform.interference("cpu.0", "accelerator") == platform.interference("cpu", "accelerator") == 1.0
    assert platform.interference("cpu.1", HOST) == 1.0
    emulators = build(*parts("accelerator", EMULATOR), *parts("other", replace(EMULATOR, platform="other")))
    assert emulators.interference("accelerator.0", "accelerator.1") == 0.0
    assert emulators.interference("accelerator.0", "other.1") == 1.0
    # Partitions of two kinds may have cores in common.
    halves, quarters = parts("cpu", CPU), parts("cpu", CPU, number=4)
    assert build(halves[0], replace(quarters[3], name="cpu.q3")).interference("cpu.0", "cpu.q3") == 1.0


def test_interference_measured_on_a_busy_machine_is_ignored() -> None:
    platform = build(*parts("cpu", CPU))
    keys = [device.key for device in platform.compute_devices]
    quiet = pair_profile(*keys, interference=0.25)
    noisy = replace(quiet, provenance=replace(quiet.provenance, busy=True))
    assert with_profiles(platform, {}, [noisy]).interference("cpu.0", "cpu.1") == 0.0
    assert with_profiles(platform, {}, [quiet]).interference("cpu.0", "cpu.1") == 0.25


def test_parts_of_a_gpu_share_its_memory_and_run_at_once() -> None:
    platform = build(*parts("gpu", ZE_GPU0), whole("gpu1", ZE_GPU1))
    assert spaces(platform) == {"gpu.0": "gpu", "gpu.1": "gpu", "gpu1": "gpu1", "host": "host"}
    assert platform.interferences == ()
    with_the_whole = build(whole("gpu", ZE_GPU0), *parts("gpu", ZE_GPU0))
    assert with_the_whole.interference("gpu", "gpu.1") == 1.0
    assert with_the_whole.interference("gpu.0", "gpu.1") == 0.0


def test_cards_copy_through_the_host_unless_peers() -> None:
    platform = build(
        whole("cpu", CPU),
        whole("gpu", ZE_GPU0),
        whole("gpu1", ZE_GPU1),
        whole("gpu2", CUDA_GPU),
        whole("gpu3", HIP_GPU),
    )
    assert platform.host.reaches == (HOST, "cpu")
    assert not platform.space("gpu").host_accessible
    peers = platform.link("gpu", "gpu1")
    assert peers is not None and peers.origin == "assumed"
    assert platform.link("gpu", "gpu2") is None
    assert [(n.source, n.destination) for n in platform.route("gpu", "gpu2")] == [("gpu", HOST), (HOST, "gpu2")]
    down = platform.link(HOST, "gpu3")
    assert down is not None and down.bandwidth_bytes_per_s == ASSUMED_PCIE_BYTES_PER_S
    across = platform.link(HOST, "cpu")
    assert across is not None and across.bandwidth_bytes_per_s == ASSUMED_HOST_COPY_BYTES_PER_S
    assert platform.interferences == (Interference("cpu", HOST, 1.0, "assumed"),)
    assert [d.name for d in platform.devices if d.processor == HOST] == ["cpu", HOST]


def test_the_host_reaches_an_integrated_gpu() -> None:
    platform = build(whole("gpu", INTEGRATED))
    assert platform.host.reaches == (HOST, "gpu")
    assert not platform.device("gpu").copy_lane


def test_identical_cards_have_keys_of_their_own() -> None:
    platform = build(whole("gpu", ZE_GPU0), whole("gpu1", ZE_GPU1))
    assert platform.device("gpu").key != platform.device("gpu1").key
    assert build(whole("gpu", ZE_GPU0)).device("gpu").key == platform.device("gpu").key


@pytest.mark.parametrize(
    ("aspects", "there", "missing"),
    [
        ((), {"float32", "int8", "uint64", "bool", "complex64"}, {"float16", "float64", "complex128"}),
        (("fp64",), {"float64", "complex128"}, {"float16"}),
        (("fp16",), {"float16"}, {"float64", "complex128"}),
    ],
)
def test_dtypes_follow_the_aspects(aspects: tuple[str, ...], there: set[str], missing: set[str]) -> None:
    dtypes = device_dtypes(aspects)
    assert list(dtypes) == sorted(dtypes)
    assert there <= set(dtypes)
    assert not missing & set(dtypes)


MACHINE = [CPU, EMULATOR, ZE_GPU0, ZE_GPU1, CUDA_GPU, HIP_GPU, replace(INTEGRATED, platform="other")]


@given(st.lists(st.sampled_from(MACHINE), unique=True, min_size=1), st.booleans())
def test_platforms_are_connected_and_survive_a_file(devices: list[DeviceFacts], cut: bool) -> None:
    candidates: list[SelectedDevice] = []
    for index, facts in enumerate(devices):
        candidates += parts(f"d{index}", facts) if cut else [whole(f"d{index}", facts)]
    platform = build(*candidates)
    assert from_json(Platform, to_json(platform), where="test") == platform
    names = {space.name for space in platform.spaces}
    for device in platform.devices:
        assert device.space in names and set(device.reaches) <= names and device.reaches[0] == device.space
    for source in names:
        for destination in names - {source}:
            assert 1 <= len(platform.route(source, destination)) <= 2
    assert len({device.key for device in platform.devices}) == len(platform.devices)
