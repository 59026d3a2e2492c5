# SPDX-License-Identifier: Apache-2.0
"""Platform discovery on made-up facts, and on this machine's devices."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace

import pytest
from support.machines import (
    CPU,
    EMULATOR,
    HOST_FACTS,
    OCL_GPU0,
    OCL_GPU1,
    POCL,
    WORKSTATION,
    ZE_GPU0,
    ZE_GPU1,
    split_facts,
)

from syclsched.devices import SubDevices, discover
from syclsched.devices.discovery.device_facts import DeviceFacts
from syclsched.devices.discovery.platform_discovery import choose, missing_memory, without_emulators
from syclsched.devices.discovery.selection import parse_selector
from syclsched.devices.discovery.subdevices import parse_sub_devices
from syclsched.devices.discovery.topology import SelectedDevice, build_platform
from syclsched.errors import DeviceNotFoundError, EmptyPlatformError, SelectionError, UntrustedDeviceError
from syclsched.model.platform import Device


def chosen(
    selector: str | None = None,
    sub_devices: str | None = None,
    *,
    devices: tuple[DeviceFacts, ...] = WORKSTATION,
    bad: tuple[DeviceFacts, ...] = (),
    include_untrusted: bool = False,
) -> dict[str, SelectedDevice]:
    candidates = choose(
        devices,
        parse_selector(selector),
        None if sub_devices is None else parse_sub_devices(sub_devices),
        judge=lambda facts: "wrong results" if facts in bad else None,
        splitter=split_facts,
        asker=lambda facts: (("oneDNN", "no engine"),) if facts.kind == "gpu" and facts not in bad else (),
        include_untrusted=include_untrusted,
    )
    return {candidate.name: candidate for candidate in candidates}


def test_every_piece_of_hardware_once_under_its_best_backend() -> None:
    found = chosen()
    assert list(found) == ["cpu", "accelerator", "gpu", "gpu1"]
    assert [found[name].facts.backend for name in ("gpu", "gpu1")] == ["level_zero", "level_zero"]


def test_a_selected_backend_is_used_and_names_stay() -> None:
    assert chosen("opencl:gpu")["gpu"].facts is OCL_GPU0
    assert list(chosen("level_zero:1")) == ["gpu1"]
    assert list(chosen("gpu1,cpu")) == ["cpu", "gpu1"]


def test_refusals_of_a_device_apply_to_its_parts() -> None:
    found = chosen("cpu.*,gpu.*,gpu1", bad=(ZE_GPU1, OCL_GPU1), include_untrusted=True)
    refused = {name for name, device in found.items() if device.refusals == (("oneDNN", "no engine"),)}
    assert refused == {"gpu.0", "gpu.1"}
    described = build_platform(tuple(found.values()), HOST_FACTS, "here")
    assert {device.name for device in described.devices if device.refusals} == refused


def test_a_trusted_driver_is_preferred_for_the_same_hardware() -> None:
    assert chosen("gpu0", bad=(ZE_GPU0,))["gpu"].facts is OCL_GPU0
    both = chosen("gpu0", bad=(ZE_GPU0, OCL_GPU0), include_untrusted=True)
    assert both["gpu"].facts is ZE_GPU0
    assert both["gpu"].distrust == "wrong results"


def test_untrusted_devices_are_excluded_unless_requested() -> None:
    assert "accelerator" not in chosen(bad=(EMULATOR,))
    parts = chosen("accelerator", "2", bad=(EMULATOR,), include_untrusted=True)
    assert {name: c.distrust for name, c in parts.items()} == {
        "accelerator.0": "wrong results",
        "accelerator.1": "wrong results",
    }


def test_a_named_device_that_is_untrusted_is_not_left_out_silently() -> None:
    with pytest.raises(UntrustedDeviceError, match=r"'accelerator' is not to be trusted: .*wrong results"):
        chosen("cpu,accelerator", bad=(EMULATOR,))


def test_an_error_names_why_no_device_is_trusted() -> None:
    with pytest.raises(EmptyPlatformError, match=r"cpu \(.*Xeon.*\): wrong results; accelerator \(.*"):
        chosen(devices=(CPU, EMULATOR), bad=(CPU, EMULATOR))


def test_an_empty_selection_lists_the_devices() -> None:
    with pytest.raises(EmptyPlatformError, match=r"selector 'cuda:\*'.*There are cpu \(opencl:0, .*gpu1 \(level_zero"):
        chosen("cuda:*")
    with pytest.raises(DeviceNotFoundError, match=r"no device 'gpu7'.*There are cpu"):
        chosen("cpu,gpu7")


def test_parts_replace_the_whole() -> None:
    found = chosen("cpu,gpu1", "4")
    assert list(found) == [f"{name}.{index}" for name in ("cpu", "gpu1") for index in range(4)]
    assert {found[name].root_name for name in found} == {"cpu", "gpu1"}
    assert [found[f"cpu.{index}"].facts.compute_units for index in range(4)] == [4, 4, 4, 4]


def test_indivisible_devices_stay_whole_if_others_are_divided() -> None:
    assert list(chosen("cpu,gpu1", "16")) == [*(f"cpu.{index}" for index in range(16)), "gpu1"]
    with pytest.raises(SelectionError, match="8 compute units"):
        chosen("gpu", "16")
    with pytest.raises(SelectionError, match="affinity"):
        chosen(None, "numa")


def test_parts_by_number() -> None:
    assert list(chosen("cpu.1")) == ["cpu.1"]
    assert list(chosen("cpu.3", "4")) == ["cpu.3"]
    assert list(chosen("opencl:0.*,1")) == ["cpu.0", "cpu.1", "accelerator"]
    assert list(chosen("cpu,cpu.0")) == ["cpu", "cpu.0"]
    assert list(chosen("cpu,!cpu.0", "2")) == ["cpu.1"]
    with pytest.raises(SelectionError, match=r"no sub-device cpu\.2.*It has cpu\.0, cpu\.1"):
        chosen("cpu.2")
    with pytest.raises(EmptyPlatformError, match="every sub-device is discarded"):
        chosen("cpu,!cpu.0,!cpu.1", "2")


def test_only_selected_devices_are_judged() -> None:
    asked: list[DeviceFacts] = []

    def judge(facts: DeviceFacts) -> None:
        asked.append(facts)

    choose((CPU, EMULATOR), parse_selector("cpu"), None, judge=judge, splitter=split_facts)
    assert asked == [CPU]


def test_missing_unified_shared_memory_is_reported() -> None:
    assert missing_memory(CPU) is None
    assert "usm_host_allocations" in (missing_memory(replace(CPU, aspects=("fp64", "usm_device_allocations"))) or "")
    card = replace(ZE_GPU0, aspects=("usm_device_allocations", "usm_host_allocations"))
    assert missing_memory(card) is None
    assert missing_memory(replace(card, integrated=True)) is not None


# --- this machine ------------------------------------------------------------------------------------


@pytest.mark.sycl
def test_this_machine_has_a_cpu_device_and_the_host() -> None:
    platform = discover()
    cpu, host = platform.device("cpu"), platform.host
    assert platform.devices[-1] is host
    assert cpu.distrust is None and cpu.filter_string == "opencl:cpu:0"
    assert cpu.compute_units >= 1 and cpu.global_memory_bytes > 0
    assert {"float32", "int64"} <= set(cpu.dtypes)
    assert cpu.space in host.reaches
    assert discover().device("cpu").key == cpu.key


def parts_of_the_cpu(sub_devices: int | SubDevices) -> list[Device]:
    """Return the parts of the first CPU device; another runtime may have a second one."""
    found = discover(selector="cpu", sub_devices=sub_devices).compute_devices
    return [device for device in found if device.name.startswith("cpu.")]


@pytest.mark.sycl
def test_sub_devices_of_this_machine() -> None:
    whole = discover(selector="cpu").device("cpu")
    if whole.compute_units < 2:
        pytest.skip("the CPU device has one compute unit")
    parts = parts_of_the_cpu(2)
    assert [device.name for device in parts] == ["cpu.0", "cpu.1"]
    assert sum(device.compute_units for device in parts) == whole.compute_units
    assert {device.space for device in parts} == {"cpu"}
    assert len(parts_of_the_cpu(SubDevices("equally", "1"))) == whole.compute_units
    with pytest.raises(SelectionError, match="cannot be split into"):
        discover(selector="cpu", sub_devices=whole.compute_units + 1)


@pytest.mark.sycl
def test_predicate_selects_devices() -> None:
    platform = discover(where=lambda device: device.filter_string == "opencl:cpu:0")
    assert [device.name for device in platform.compute_devices] == ["cpu"]
    assert [space.name for space in platform.spaces] == ["cpu", "host"]
    with pytest.raises(EmptyPlatformError, match="There were cpu"):
        discover(where=lambda device: False)


def in_new_process(code: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, **variables, "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=300, check=False
    )


_LIST = (
    "import json; from syclsched.devices import discover; "
    "from syclsched.devices.discovery.device_facts import find_devices;"
    "print(json.dumps([[each.facts.kind, each.facts.name] for each in find_devices()]))"  # numbering begins again
)


@pytest.mark.sycl
@pytest.mark.parametrize("selector", ["opencl:cpu", "*:fpga", "opencl:1", "opencl:0,1", "level_zero:*;OpenCL:CPU"])
def test_selectors_select_the_same_devices_as_the_runtime(selector: str) -> None:
    everything = discover(include_untrusted=True).compute_devices
    wanted = parse_selector(selector)
    facts = json.loads(in_new_process(_LIST, ONEAPI_DEVICE_SELECTOR=selector).stdout)
    ours = choose_here(wanted.text)
    assert facts == ours
    assert all(each in [[device.kind, device.description] for device in everything] for each in ours)


def choose_here(selector: str) -> list[list[str]]:
    try:
        found = discover(selector=selector, include_untrusted=True).compute_devices
        return [[device.kind, device.description] for device in found]
    except EmptyPlatformError:
        return []


@pytest.mark.sycl
def test_a_variable_that_hides_everything_is_named() -> None:
    code = (
        "from syclsched.devices import discover; from syclsched.errors import EmptyPlatformError\n"
        "try: discover()\n"
        "except EmptyPlatformError as error: print(error)"
    )
    said = in_new_process(code, ONEAPI_DEVICE_SELECTOR="cuda:*").stdout
    assert "ONEAPI_DEVICE_SELECTOR='cuda:*'" in said
    assert "--select" in said


def test_importing_devices_does_not_import_the_runtime() -> None:
    code = (
        "import sys, syclsched.devices\n"
        "import syclsched.devices.discovery.platform_discovery, syclsched.devices.opened_devices\n"
        "print([m for m in ('dpctl', 'dpnp', 'numba', 'numba_dpex') if m in sys.modules])"
    )
    assert in_new_process(code).stdout.strip() == "[]"


def test_an_emulator_is_default_only_if_named_or_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def left(*devices: DeviceFacts) -> list[str]:
        platform = build_platform(tuple(chosen(devices=devices).values()), HOST_FACTS, "test")
        return [device.name for device in without_emulators(platform).compute_devices]

    monkeypatch.delenv("ONEAPI_DEVICE_SELECTOR", raising=False)
    real = replace(EMULATOR, name="An FPGA board")
    assert left(CPU, EMULATOR) == ["cpu"]
    assert left(EMULATOR) == ["accelerator"]
    assert left(CPU, real) == ["cpu", "accelerator"]
    assert left(CPU, POCL, real) == ["cpu", "accelerator"]
    assert left(POCL, EMULATOR) == ["cpu"]
    monkeypatch.setenv("ONEAPI_DEVICE_SELECTOR", "opencl:cpu,acc")
    assert left(CPU, POCL, EMULATOR) == ["cpu", "accelerator"]
