# SPDX-License-Identifier: Apache-2.0
"""Output of a check's process, which is kept if the process dies."""

from __future__ import annotations

import io
import json

import pytest

from syclsched import oneapi
from syclsched.costs.capability import installed
from syclsched.devices.trust import probe, probe_child
from syclsched.devices.trust.diagnosis import examine
from syclsched.devices.trust.library_check import onednn_error
from syclsched.errors import CapabilityError, RuntimeMissingError
from syclsched.kernels.onednn import primitives
from syclsched.oneapi.diagnosis.facts import DeviceFact

DEVICE = {"index": 0, "name": "A", "backend": "opencl", "kind": "cpu", "driver": "1"}
#: The beginning of a check's program.
SAYS = 'print(\'{"notes": ["said"]}\', flush=True)'
BEGUN = {**DEVICE, "trusted": None, "reason": None, "skipped": []}


def test_a_whole_story_is_put_together() -> None:
    lines = [
        {
            "libraries": [{"name": "l", "path": None, "source": "nowhere", "error": "x"}],
            "emulator": "/e",
            "notes": ["n"],
        },
        BEGUN,
        {**BEGUN, "trusted": True, "skipped": ["numba-dpex: no layer"], "refusals": ["oneDNN: no engine"]},
    ]
    said = "a driver's chatter\n" + "\n".join(json.dumps(line) for line in lines) + "\n[1]\n"
    found = probe.parse_output(said, died=None, stderr="warnings")
    assert found.devices == (
        DeviceFact("A", "opencl", "cpu", "1", True, None, ("numba-dpex: no layer",), ("oneDNN: no engine",)),
    )
    assert (found.emulator, found.notes, found.libraries[0].error, found.stderr) == ("/e", ("n",), "x", "")


def test_a_check_that_killed_its_process_has_no_verdict() -> None:
    found = probe.parse_output(json.dumps(BEGUN) + '\n{"index": 0, "na', died="SIGILL", stderr="some\n words")
    assert found.devices[0].trusted is None
    assert (found.died, found.stderr) == ("SIGILL", "some words")


@pytest.mark.parametrize(
    ("child", "died"), [("import os; os.kill(os.getpid(), 4)", "SIGILL"), ("raise SystemExit(3)", "exit code 3")]
)
def test_the_end_of_the_check_process_is_named(monkeypatch: pytest.MonkeyPatch, child: str, died: str) -> None:
    monkeypatch.setattr(probe, "_CHILD", f"{SAYS}; {child}")
    found = probe.probe()
    assert (found.died, found.notes) == (died, ("said",))


def test_a_check_without_an_end_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "_CHILD", f"{SAYS}; import time; time.sleep(600)")
    for timeout_s in (1, 4, 16, 64):  # until the process has started in time, which may take long on a busy machine
        found = probe.probe(timeout_s=timeout_s)
        assert found.died == f"no end after {timeout_s} s"
        if found.notes:
            break
    assert found.notes == ("said",)


def test_a_stack_that_fails_to_load_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> None:
        raise RuntimeMissingError("dpctl is not installed", hint="Run: pip")

    monkeypatch.setattr(probe_child.oneapi, "load", broken)
    out = io.StringIO()
    probe_child.main(out)
    found = probe.parse_output(out.getvalue(), died=None, stderr="")
    assert (found.error, found.hint) == ("dpctl is not installed", "Run: pip")


@pytest.mark.sycl
def test_this_machines_devices_are_diagnosed() -> None:
    found = examine().findings
    devices = [each for each in found if each.topic == "device"]
    assert devices and all(each.what for each in found)
    assert [each for each in found if each.topic == "loading"] == []


@pytest.mark.sycl
@pytest.mark.skipif(not installed("onednn"), reason="onednn is not installed")
def test_instruction_sets_in_use_equal_the_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", "SSE41")
    monkeypatch.setenv("OPENBLAS_CORETYPE", "Nehalem")
    found = next(each for each in examine().findings if each.topic == "instruction sets")
    assert "oneDNN sse41" in found.what and "NumPy's BLAS Nehalem (openblas" in found.what
    target = oneapi.load().target_arch
    assert target is None or f"the OpenCL CPU device {target}" in found.what


@pytest.mark.sycl
@pytest.mark.skipif(not installed("onednn"), reason="onednn is not installed")
def test_onednn_is_tried_on_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    oneapi.load()
    import dpctl

    if "Intel" not in dpctl.SyclDevice("cpu").sycl_platform.name:
        pytest.skip("oneDNN takes Intel's CPU device only")
    found = next(each for each in examine().findings if each.topic == "oneDNN")
    assert found.status == "ok" and found.what.endswith("computes on the CPU device")

    def unimplemented(*_: object) -> None:
        raise CapabilityError("matmul: oneDNN says dnnl_unimplemented", where="oneDNN")

    monkeypatch.setattr("syclsched.kernels.onednn.primitives.create", unimplemented)
    primitives._primitives.clear()
    assert "dnnl_unimplemented" in str(onednn_error())
