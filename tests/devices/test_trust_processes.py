# SPDX-License-Identifier: Apache-2.0
"""The device check in processes of its own: without the fix for unknown processors, and where the check is killed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from syclsched.devices.trust import trust_check
from syclsched.oneapi import crash_marker
from syclsched.oneapi.cache_folder import cache_root
from syclsched.oneapi.diagnosis.facts import Probe
from syclsched.oneapi.opencl_drivers import NO_VENDOR_FILES

# --- without the fix: the check agrees with an independent one -----------------------------------------

CURE_TAKEN_AWAY = """
import json
from syclsched import oneapi
from syclsched.oneapi import processor
processor.target_arch = lambda flags: None
runtime = oneapi.load()
assert "CL_CONFIG_CPU_TARGET_ARCH" not in runtime.boot_environment
import dpctl, dpctl.program, dpctl.memory, dpnp, numpy as np
from syclsched.devices.trust import trust_check as trust

GROUPS = \"\"\"__kernel void group(__global long *out) {
    out[get_global_id(0)] = get_group_id(0) * 1000 + get_local_size(0);
}\"\"\"

def truth(device):
    queue = dpctl.SyclQueue(device)
    kernel = dpctl.program.create_program_from_source(queue, GROUPS).get_sycl_kernel("group")
    out = dpctl.memory.MemoryUSMDevice(8 * 48, queue=queue)
    queue.submit_async(kernel, [out], [48], [16]).wait()
    if not np.array_equal(out.copy_to_host().view("int64"), np.repeat([16, 1016, 2016], 16)):
        return False
    try:
        return all(map(adds_right, ("float32", "float64", "int32", "int64"), [queue] * 4))
    except RuntimeError as error:
        if "Build program log" not in str(error):
            raise
        return True  # PoCL 7 builds none of dpnp's kernels, which computes nothing wrong

def adds_right(dtype, queue):
    numbers, right = dpnp.arange(1000, dtype=dtype, sycl_queue=queue), np.arange(1000, dtype=dtype)
    return np.array_equal(numbers.asnumpy(), right) and np.array_equal((numbers + numbers).asnumpy(), right + right)

result = []
for device in dpctl.get_devices():
    verdict = trust.check(device, refresh=True)
    result.append([device.device_type.name, truth(device), verdict.trusted, verdict.reason])
print(json.dumps(result))
"""


def run_without_cure(tmp_path: Path, **variables: str) -> list[list[Any]]:
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
        "PYTHONPATH": os.pathsep.join(each for each in sys.path if each),
        **variables,
    }
    ended = subprocess.run(
        [sys.executable, "-c", CURE_TAKEN_AWAY], env=environment, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr
    found: list[list[Any]] = json.loads(ended.stdout.splitlines()[-1])
    return found


@pytest.mark.sycl
def test_verdict_without_the_target_architecture(tmp_path: Path) -> None:
    # On a processor unknown to the runtime results are wrong; on a known one they are right.
    found = run_without_cure(tmp_path)
    assert found
    for kind, right, trusted, reason in found:
        assert trusted is right, (kind, reason)


@pytest.mark.sycl
def test_a_runtime_made_to_compute_wrong_is_refused(tmp_path: Path) -> None:
    # A setting of the runtime itself under which it ignores the requested work-group size, on any processor.
    found = run_without_cure(
        tmp_path,
        CL_CONFIG_CPU_FORCE_WORK_GROUP_SIZE="1",
        ONEAPI_DEVICE_SELECTOR="opencl:cpu",
        OCL_ICD_VENDORS=NO_VENDOR_FILES,  # other runtimes ignore the setting
    )
    assert [(kind, right, trusted) for kind, right, trusted, _ in found] == [("cpu", False, False)]
    assert "reduction" in found[0][3] and "OpenCL C" in found[0][3]


# --- a check that kills its process ---------------------------------------------------------------------

KILLED_BY_ITS_CHECK = """
import os, signal
from syclsched import oneapi
oneapi.load()
import dpctl
from syclsched.devices.trust import trust_check as trust

def crash(queue, dtypes):
    os.kill(os.getpid(), signal.SIGKILL)  # PoCL returns from a SIGSEGV that is sent
    yield

trust.ROUTES = {"x": crash}
os.environ["XDG_CACHE_HOME"] = os.environ["TEST_CACHE"]
trust.check(dpctl.SyclDevice("cpu"))
"""


@pytest.fixture
def killed(cpu: Any) -> Path:
    """The marker file of a process that was killed during the check of the CPU device."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(each for each in sys.path if each)}
    # The emulator's folder is the usual one, the markers are the test's.
    environment["TEST_CACHE"] = environment.pop("XDG_CACHE_HOME")
    ended = subprocess.run(
        [sys.executable, "-c", KILLED_BY_ITS_CHECK], env=environment, capture_output=True, check=False
    )
    assert ended.returncode == -9, ended.stderr
    (guard,) = (cache_root() / "trust").glob("*.running")
    return guard


@pytest.mark.sycl
def test_after_a_killed_check_another_process_repeats_it(
    cpu: Any, killed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[bool] = []

    def lives() -> Probe:
        asked.append(True)
        return Probe()

    monkeypatch.setattr(trust_check, "probe", lives)
    assert trust_check.check(cpu).trusted
    assert asked == [True] and not killed.exists()
    assert trust_check.check(cpu, refresh=True).trusted
    assert asked == [True], "the check went well: nobody else need be asked"


@pytest.mark.sycl
def test_a_device_that_kills_again_is_refused_and_stays_so(
    cpu: Any, killed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trust_check, "probe", lambda: Probe(died="SIGSEGV"))
    verdict = trust_check.check(cpu)
    assert (verdict.trusted, verdict.reason) == (False, "a process died of it (SIGSEGV)")
    assert trust_check.check(cpu).remembered and not killed.exists()


def test_a_mark_counts_only_when_its_process_is_gone(tmp_path: Path) -> None:
    path = tmp_path / "x.running"
    assert not crash_marker.is_orphaned(path)
    with crash_marker.mark(path):
        assert path.exists() and not crash_marker.is_orphaned(path)
        path.write_text(f"{os.getpid()} 1")  # An earlier process that had this one's identifier.
        assert crash_marker.is_orphaned(path)
        path.write_text("nonsense")
        assert not crash_marker.is_orphaned(path)
    assert not path.exists()
    with pytest.raises(KeyboardInterrupt), crash_marker.mark(path):
        raise KeyboardInterrupt
    assert not path.exists()
