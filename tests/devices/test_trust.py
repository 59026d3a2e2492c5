# SPDX-License-Identifier: Apache-2.0
"""The check tells devices that compute right from such that do not, and remembers what it found."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from syclsched import oneapi
from syclsched.devices import check_guard, probe, trust
from syclsched.devices import known_answer_routes as routes
from syclsched.devices import known_answers as ka
from syclsched.devices.known_answer_routes import DPEX, DPNP, OPENCL_C, ROUTES, Answer, RouteUnavailable
from syclsched.devices.trust import CheckResult
from syclsched.oneapi.cache import cache_root
from syclsched.oneapi.facts import Probe


@pytest.fixture
def cpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The CPU device, with a cache of the test's own."""
    runtime = oneapi.load()  # Before the cache is moved: the emulator's folder stays where it is.
    assert runtime is not None
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    import dpctl

    return dpctl.SyclDevice("cpu")


def every_device() -> list[Any]:
    oneapi.load()
    import dpctl

    return list(dpctl.get_devices())


# --- judging -----------------------------------------------------------------------------------------

PASSED = CheckResult(OPENCL_C, "float32", ka.RAMP, "passed")
FAILED = CheckResult(DPNP, "float32", ka.RAMP, "failed", "840 of 1000 values are wrong")
SKIPPED = CheckResult(DPEX, "all", "all", "skipped", "no OpenCL layer")


def test_one_failure_is_enough() -> None:
    trusted, reason = trust.judge((PASSED, SKIPPED, FAILED))
    assert not trusted
    assert reason == "wrong results: arange of float32 through dpnp: 840 of 1000 values are wrong"


def test_a_road_that_is_closed_is_no_failure_but_all_closed_is() -> None:
    assert trust.judge((PASSED, SKIPPED)) == (True, None)
    trusted, reason = trust.judge((SKIPPED,))
    assert not trusted and "no OpenCL layer" in str(reason)
    assert trust.judge(())[0] is False


def test_passed_routes_are_those_without_a_failure() -> None:
    checks = (PASSED, replace(FAILED, status="passed"), FAILED, SKIPPED)
    assert trust.Verdict(False, "x", checks, False, 0.0).passed_routes == {OPENCL_C}


# --- real devices ------------------------------------------------------------------------------------


@pytest.mark.sycl
def test_every_device_is_asked_everything_it_can_do() -> None:
    for device in every_device():
        dtypes = {dtype.name for dtype in ka.DTYPES if dtype.name != "float64" or device.has_aspect_fp64}
        verdict = trust.check(device, refresh=True)
        assert not verdict.remembered
        for name in (DPEX, OPENCL_C):
            checks = [each for each in verdict.checks if each.route == name]
            if [each.status for each in checks] == ["skipped"]:
                continue
            assert {(each.dtype, each.kind) for each in checks} == {
                (dtype, kind) for dtype in dtypes for kind in ka.KINDS
            }
        if verdict.trusted:
            assert {each.dtype for each in verdict.checks if each.route == DPNP} == dtypes


@pytest.mark.sycl
def test_a_sub_device_has_its_root_devices_verdict(cpu: Any) -> None:
    verdict = trust.check(cpu)
    for sub_device in cpu.create_sub_devices(partition=1):
        inherited = trust.check(sub_device)
        assert inherited.remembered and inherited.checks == verdict.checks


# --- wrong code is caught, on every road, on any machine ----------------------------------------------


def only(name: str) -> dict[str, Any]:
    return {name: ROUTES[name]}


def wrong_ramp(item: Any, out: Any, given: Any) -> None:
    """The ramp, wrong in the last lane of every sixteen, beside what is right."""
    i = item.get_id(0)
    half = given.shape[0] // 2
    out[i] = i
    out[i] = given[1] * out[i] + given[0]
    if i % 16 == 15:
        out[i] = out[i] + given[1]
    x = given[i]
    out[half + i] = math.exp(-x * x) + math.sin(x) * math.cos(x) + math.sqrt(x * x)
    if i < 16:
        for j in range(half + i, 2 * half, 16):
            out[2 * half + i] += given[j]


def wrong_formula(item: Any, out: Any, given: Any) -> None:
    """The element-wise formula, wrong in the remainder of a vector of eight, beside what is right."""
    i = item.get_id(0)
    half = given.shape[0] // 2
    out[i] = i
    out[i] = given[1] * out[i] + given[0]
    x = given[i]
    out[half + i] = x
    if i < half // 8 * 8:
        out[half + i] = x * x * 5 + (x ^ 21) - (x >> 2)
    if i < 16:
        for j in range(half + i, 2 * half, 16):
            out[2 * half + i] += given[j]


def wrong_reduction(item: Any, out: Any, given: Any) -> None:
    """The reduction, without the last element of work-item 3, beside what is right."""
    i = item.get_id(0)
    half = given.shape[0] // 2
    out[i] = i
    out[i] = given[1] * out[i] + given[0]
    x = given[i]
    out[half + i] = math.exp(-x * x) + math.sin(x) * math.cos(x) + math.sqrt(x * x)
    if i < 16:
        for j in range(half + i, 2 * half, 16):
            if i != 3 or j + 16 < 2 * half:
                out[2 * half + i] += given[j]


@pytest.mark.sycl
@pytest.mark.parametrize(
    ("function", "wrong", "kind", "dtype"),
    [
        ("float_kernel", wrong_ramp, ka.RAMP, "float32"),
        ("integer_kernel", wrong_formula, ka.FORMULA, "int32"),
        ("float_kernel", wrong_reduction, ka.REDUCTION, "float32"),
    ],
)
def test_a_wrong_numba_dpex_kernel_is_caught(
    cpu: Any, monkeypatch: pytest.MonkeyPatch, function: str, wrong: Any, kind: str, dtype: str
) -> None:
    monkeypatch.setattr(ka, function, wrong)
    verdict = trust.check(cpu, routes=only(DPEX))
    assert not verdict.trusted
    failed = [each for each in verdict.checks if each.status == "failed"]
    assert {each.kind for each in failed} == {kind}
    assert f"{kind} of {dtype} through numba-dpex" in str(verdict.reason)
    assert "values are wrong" in str(verdict.reason)


@pytest.mark.sycl
@pytest.mark.parametrize(
    ("right", "wrong", "kind"),
    [
        ("given[1] * ({type})i", "given[1] * ({type})(i == 16 ? 0 : i)", ka.RAMP),
        ("out[length + i] = {formula};", "out[length + i] = i % 4 == 3 ? x : {formula};", ka.FORMULA),
        ("total += given[j];", "total += j % 7 == 0 ? 0 : given[j];", ka.REDUCTION),
    ],
)
def test_a_wrong_opencl_kernel_is_caught(
    cpu: Any, monkeypatch: pytest.MonkeyPatch, right: str, wrong: str, kind: str
) -> None:
    assert right in ka._OPENCL_TEMPLATE
    monkeypatch.setattr(ka, "_OPENCL_TEMPLATE", ka._OPENCL_TEMPLATE.replace(right, wrong))
    verdict = trust.check(cpu, routes=only(OPENCL_C))
    failed = {(each.dtype, each.kind) for each in verdict.checks if each.status == "failed"}
    assert failed == {(dtype.name, kind) for dtype in ka.DTYPES}
    assert not verdict.trusted


@pytest.mark.sycl
def test_a_sum_through_local_memory_that_leaves_something_out_is_caught(
    cpu: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "other = 1;" in ka._OPENCL_GROUPS
    monkeypatch.setattr(ka, "_OPENCL_GROUPS", ka._OPENCL_GROUPS.replace("other = 1;", "other = 2;"))
    verdict = trust.check(cpu, routes=only(OPENCL_C))
    failed = {(each.dtype, each.kind) for each in verdict.checks if each.status == "failed"}
    assert failed == {("float32", ka.REDUCTION)}


@pytest.mark.sycl
@pytest.mark.parametrize(("name", "kind"), [("arange", ka.RAMP), ("sum", ka.REDUCTION), ("sin", ka.FORMULA)])
def test_a_wrong_dpnp_is_caught(cpu: Any, monkeypatch: pytest.MonkeyPatch, name: str, kind: str) -> None:
    import dpnp

    right = getattr(dpnp, name)

    def wrong(*arguments: Any, **options: Any) -> Any:
        result = right(*arguments, **options)
        flat = result.reshape(-1)
        flat[flat.size // 2] = 77
        return result

    monkeypatch.setattr(dpnp, name, wrong)
    verdict = trust.check(cpu, routes=only(DPNP))
    assert not verdict.trusted
    assert kind in {each.kind for each in verdict.checks if each.status == "failed"}


@pytest.mark.sycl
def test_a_route_that_breaks_off_is_a_failure_with_its_reason(cpu: Any) -> None:
    def breaks(queue: Any, dtypes: Any) -> Iterator[Answer]:
        yield Answer(ka.DTYPES[0], ka.RAMP, 1, np.zeros(1), np.zeros(1))
        raise MemoryError("no room\non the device")

    def closed(queue: Any, dtypes: Any) -> Iterator[Answer]:
        raise RouteUnavailable("not built")
        yield

    verdict = trust.check(cpu, routes={"a": breaks, "b": closed})
    assert [(each.route, each.status) for each in verdict.checks] == [
        ("a", "passed"),
        ("a", "failed"),
        ("b", "skipped"),
    ]
    assert verdict.reason == "through a: MemoryError: no room on the device"
    assert "not tried" in str(verdict.checks[-1].detail)
    (unavailable,) = trust.check(cpu, routes={"b": closed}).checks
    assert (unavailable.status, unavailable.detail) == ("skipped", "not built")


# --- the cure taken away: the check and an independent look agree --------------------------------------

CURE_TAKEN_AWAY = """
import json
from syclsched import oneapi
from syclsched.oneapi import processor
processor.target_arch = lambda flags: None
runtime = oneapi.load()
assert "CL_CONFIG_CPU_TARGET_ARCH" not in runtime.boot_environment
import dpctl, dpctl.program, dpctl.memory, dpnp, numpy as np
from syclsched.devices import trust

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
    for dtype in ("float32", "float64", "int32", "int64"):
        numbers = dpnp.arange(1000, dtype=dtype, sycl_queue=queue)
        right = np.arange(1000, dtype=dtype)
        if not np.array_equal(numbers.asnumpy(), right):
            return False
        if not np.array_equal((numbers + numbers).asnumpy(), right + right):
            return False
    return True

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
def test_without_the_target_architecture_the_verdict_is_the_truth(tmp_path: Path) -> None:
    # On a processor the runtime does not know the truth is "wrong"; on one it knows it is "right".
    found = run_without_cure(tmp_path)
    assert found
    for kind, right, trusted, reason in found:
        assert trusted is right, (kind, reason)


@pytest.mark.sycl
def test_a_runtime_made_to_compute_wrong_is_refused(tmp_path: Path) -> None:
    # A setting of the runtime's own under which it ignores the work-group size asked for, on any processor.
    found = run_without_cure(tmp_path, CL_CONFIG_CPU_FORCE_WORK_GROUP_SIZE="1", ONEAPI_DEVICE_SELECTOR="opencl:cpu")
    assert [(kind, right, trusted) for kind, right, trusted, _ in found] == [("cpu", False, False)]
    assert "reduction" in found[0][3] and "OpenCL C" in found[0][3]


@pytest.mark.sycl
def test_a_device_that_makes_no_queue_is_refused(cpu: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    import dpctl

    def refuse(*_: Any, **__: Any) -> None:
        raise dpctl.SyclQueueCreationError("SYCL Context could not be created")

    monkeypatch.setattr(dpctl, "SyclQueue", refuse)
    verdict = trust.check(cpu)
    assert (verdict.trusted, verdict.remembered) == (False, False)
    assert "SYCL Context could not be created" in str(verdict.reason)


# --- a check that kills its process ---------------------------------------------------------------------

KILLED_BY_ITS_CHECK = """
import os, signal
from syclsched import oneapi
oneapi.load()
import dpctl
from syclsched.devices import trust

def crash(queue, dtypes):
    os.kill(os.getpid(), signal.SIGSEGV)
    yield

trust.ROUTES = {"x": crash}
os.environ["XDG_CACHE_HOME"] = os.environ["TEST_CACHE"]
trust.check(dpctl.SyclDevice("cpu"))
"""


@pytest.fixture
def killed(cpu: Any) -> Path:
    """The mark that a process left which died of the CPU's check."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(each for each in sys.path if each)}
    # The emulator's folder is the usual one, the marks are the test's.
    environment["TEST_CACHE"] = environment.pop("XDG_CACHE_HOME")
    ended = subprocess.run(
        [sys.executable, "-c", KILLED_BY_ITS_CHECK], env=environment, capture_output=True, check=False
    )
    assert ended.returncode == -11, ended.stderr
    (guard,) = (cache_root() / "trust").glob("*.running")
    return guard


@pytest.mark.sycl
def test_after_a_death_another_process_is_asked(cpu: Any, killed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bool] = []

    def lives() -> Probe:
        asked.append(True)
        return Probe()

    monkeypatch.setattr(probe, "probe", lives)
    assert trust.check(cpu).trusted
    assert asked == [True] and not killed.exists()
    assert trust.check(cpu, refresh=True).trusted
    assert asked == [True], "the check went well: nobody else need be asked"


@pytest.mark.sycl
def test_a_device_that_kills_again_is_refused_and_stays_so(
    cpu: Any, killed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probe, "probe", lambda: Probe(died="SIGSEGV"))
    verdict = trust.check(cpu)
    assert (verdict.trusted, verdict.reason) == (False, "a process died of it (SIGSEGV)")
    assert trust.check(cpu).remembered and not killed.exists()


def test_a_mark_counts_only_when_its_process_is_gone(tmp_path: Path) -> None:
    path = tmp_path / "x.running"
    assert not check_guard.left_behind(path)
    with check_guard.mark(path):
        assert path.exists() and not check_guard.left_behind(path)
        path.write_text(f"{os.getpid()} 1")  # Another process that had this one's number before.
        assert check_guard.left_behind(path)
        path.write_text("nonsense")
        assert not check_guard.left_behind(path)
    assert not path.exists()
    with pytest.raises(KeyboardInterrupt), check_guard.mark(path):
        raise KeyboardInterrupt
    assert not path.exists()


# --- remembering ---------------------------------------------------------------------------------------


@pytest.mark.sycl
def test_a_verdict_is_remembered_until_something_changes(cpu: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    first = trust.check(cpu)
    second = trust.check(cpu)
    assert (first.remembered, second.remembered) == (False, True)
    assert (second.trusted, second.checks) == (first.trusted, first.checks)
    assert not trust.check(cpu, refresh=True).remembered

    key = trust.verdict_key(cpu)
    runtime = oneapi.load()
    for changed in (
        replace(runtime, boot_environment={**runtime.boot_environment, "CL_CONFIG_CPU_VECTORIZER_MODE": "1"}),
        replace(runtime, versions={**runtime.versions, "dpnp": "0.15.1"}),
    ):
        monkeypatch.setattr(oneapi, "load", lambda changed=changed: changed)
        assert trust.verdict_key(cpu) != key
    monkeypatch.setattr(oneapi, "load", lambda: runtime)
    assert trust.verdict_key(cpu) == key
    monkeypatch.setattr(trust.processor, "read_flags", lambda: frozenset({"other"}))
    assert trust.verdict_key(cpu) != key


@pytest.mark.sycl
def test_a_bad_verdict_is_remembered_as_well(cpu: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(queue: Any, dtypes: Any) -> Iterator[Answer]:
        yield Answer(ka.DTYPES[0], ka.RAMP, 2, np.array([0, 5]), np.arange(2))

    monkeypatch.setattr(trust, "ROUTES", {"x": wrong})
    assert not trust.check(cpu).trusted
    recalled = trust.check(cpu)
    assert recalled.remembered and not recalled.trusted and "1 of 2 values" in str(recalled.reason)


@pytest.mark.sycl
def test_what_broke_off_is_tried_again(cpu: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def breaks(queue: Any, dtypes: Any) -> Iterator[Answer]:
        raise MemoryError("no room")
        yield

    monkeypatch.setattr(trust, "ROUTES", {"x": breaks})
    assert not trust.check(cpu).trusted
    assert not trust.check(cpu).remembered


@pytest.mark.sycl
@pytest.mark.parametrize(
    "content",
    ["", "{", "[]", '{"checks": []}', '{"checks": [{"route": 3}]}', '{"checks": [{"route": "x", "dtype": "y", "kind": '
     '"z", "status": "trusted", "detail": null}]}', "\0\xff"],
)  # fmt: skip
def test_a_damaged_memory_is_not_believed(cpu: Any, monkeypatch: pytest.MonkeyPatch, content: str) -> None:
    monkeypatch.setattr(trust, "ROUTES", {"x": lambda queue, dtypes: iter(())})
    path = cache_root() / "trust" / f"{trust.verdict_key(cpu)}.json"
    path.parent.mkdir(parents=True)
    path.write_bytes(content.encode("latin-1"))
    assert not trust.check(cpu).remembered


@pytest.mark.sycl
def test_a_cache_that_cannot_be_written_only_costs_time(
    cpu: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    for _ in range(2):
        verdict = trust.check(cpu, routes=None)
        assert verdict.trusted and not verdict.remembered


@pytest.mark.sycl
def test_compiled_kernels_are_kept_and_damaged_ones_compiled_anew(cpu: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    import dpctl

    queue = dpctl.SyclQueue(cpu)
    monkeypatch.setattr(routes, "SHIPPED", Path("nowhere"))
    routes._shipped.cache_clear()
    compiled = routes.dpex_spirv(queue, ka.float_kernel, ka.DTYPES[0])
    (stored,) = (cache_root() / "known-answers").iterdir()
    assert routes._read_spirv(stored) == compiled
    stored.write_bytes(stored.read_bytes()[:-1] + b"!")
    assert routes._read_spirv(stored) is None
    again = routes.dpex_spirv(queue, ka.float_kernel, ka.DTYPES[0])
    assert routes._read_spirv(stored) == again
    routes._shipped.cache_clear()


@pytest.mark.sycl
def test_shipped_kernels_are_of_these_sources_and_versions(cpu: Any) -> None:
    wanted = {routes.dpex_key(cpu, ka.dpex_kernel(dtype), dtype) for dtype in ka.DTYPES}
    assert wanted == set(routes._shipped()), "run tools/known_answer_kernels.py"


@pytest.mark.sycl
def test_kernels_compiled_here_give_the_answers_of_the_shipped_ones(cpu: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routes, "_shipped", dict)
    verdict = trust.check(cpu, routes=only(DPEX))
    assert verdict.trusted
    assert {(each.dtype, each.kind) for each in verdict.checks} == {(d.name, k) for d in ka.DTYPES for k in ka.KINDS}
