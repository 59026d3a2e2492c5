# SPDX-License-Identifier: Apache-2.0
"""``syclsched devices``: the printed table, and the platform file that it writes."""

from __future__ import annotations

import io
import json
import re
from dataclasses import replace

import pytest
import typer
from rich.console import Console
from support.machines import CPU, EMULATOR, HOST_FACTS, INTEGRATED, ZE_GPU0, split_facts
from typer.testing import CliRunner

from syclsched.cli.commands.devices import devices_command, show
from syclsched.devices import SubDevices, discover
from syclsched.devices.discovery.topology import SelectedDevice, build_platform
from syclsched.errors import SelectionError
from syclsched.model.platform import Device, Platform
from syclsched.model.text.json_serialisation import from_json
from syclsched.model.views.device_rows import devices_sharing_memory, format_gib

app = typer.Typer()
app.command("devices")(devices_command)


def printed(platform: Platform, *hidden: Device, width: int = 100) -> str:
    console = Console(file=io.StringIO(), width=width, highlight=False)
    show(platform, hidden, console)
    output = console.file.getvalue()  # type: ignore[attr-defined]
    assert isinstance(output, str)
    return output


def machine(distrust: str | None = None) -> Platform:
    parts = split_facts(EMULATOR, SubDevices("count", "2"))
    candidates = (
        SelectedDevice("cpu", "cpu", CPU, distrust),
        *(SelectedDevice(f"accelerator.{i}", "accelerator", part) for i, part in enumerate(parts)),
        SelectedDevice("gpu", "gpu", ZE_GPU0),
        SelectedDevice("gpu1", "gpu1", replace(INTEGRATED, aspects=("fp16",))),
    )
    return build_platform(candidates, HOST_FACTS, "test")


@pytest.mark.parametrize("width", [80, 100, 160])
def test_the_table_has_every_device_and_fits(width: int) -> None:
    text = printed(machine(), width=width)
    assert all(len(line) <= width for line in text.splitlines())
    for word in ("cpu", "accelerator.0", "accelerator.1", "gpu1", "host", "level_zero", "opencl", "part 1 of 2"):
        assert word in text
    assert "Intel Xeon Processor" in text and "(R)" not in text
    assert "f16 f32 f64" in text and "c64 c128" in text
    assert "5 devices and the host" in text


def test_an_untrusted_device_is_shown_with_the_reason() -> None:
    platform = machine(distrust="wrong results: sum of float32")
    assert "cpu (Intel Xeon Processor) gets no work: wrong results: sum of float32" in printed(platform)
    hidden = platform.device("cpu")
    rest = platform.select(lambda device: device.distrust is None)
    text = printed(rest, hidden)
    assert "4 devices and the host" in text
    assert "gets no work: wrong results" in text
    assert "gets no work" not in printed(rest)


def test_devices_that_share_memory_are_found() -> None:
    platform = machine()
    assert devices_sharing_memory(platform, platform.device("gpu")) == ()
    assert devices_sharing_memory(platform, platform.device("gpu1")) == ("host",)
    assert devices_sharing_memory(platform, platform.host) == ("cpu", "accelerator.0", "accelerator.1", "gpu1")


def test_memory_is_in_gib() -> None:
    assert format_gib(25276514304) == "23.5 GiB"
    assert format_gib(128 << 30) == "128 GiB"


@pytest.mark.sycl
def test_the_command_lists_this_machine() -> None:
    result = CliRunner().invoke(app, ["--select", "cpu"], env={"COLUMNS": "120"})
    assert result.exit_code == 0, result.output
    assert "cpu" in result.output and re.search(r"[0-9] devices? and the host", result.output)


@pytest.mark.sycl
def test_json_is_the_platform() -> None:
    result = CliRunner().invoke(app, ["--json", "--all"])
    assert result.exit_code == 0, result.output
    document = json.loads(result.output)
    assert document["format"] == "syclsched-devices/1"
    found = from_json(Platform, json.dumps(document["platform"]), where="output")
    assert found == discover(include_untrusted=True)


def test_a_bad_option_is_an_error_of_the_package() -> None:
    result = CliRunner().invoke(app, ["--sub-devices", "many"])
    assert isinstance(result.exception, SelectionError)
