# SPDX-License-Identifier: Apache-2.0
"""The trust check of devices: detection of wrong results, and remembered verdicts."""

from __future__ import annotations

import hashlib
import math
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from syclsched import oneapi, processor_flags
from syclsched.devices.trust import known_answer_routes as routes
from syclsched.devices.trust import known_answers as ka
from syclsched.devices.trust import trust_check
from syclsched.devices.trust.known_answer_routes import DPNP, OPENCL_C, PYTHON, ROUTES, RouteResult, RouteUnavailable
from syclsched.devices.trust.trust_check import KnownAnswerResult
from syclsched.oneapi.cache_folder import cache_root


def every_device() -> list[Any]:
    oneapi.load()
    import dpctl

    return list(dpctl.get_devices())


# --- judging -----------------------------------------------------------------------------------------

PASSED = KnownAnswerResult(OPENCL_C, "float32", ka.RAMP, "passed")
FAILED = KnownAnswerResult(DPNP, "float32", ka.RAMP, "failed", "840 of 1000 values are wrong")
SKIPPED = KnownAnswerResult(PYTHON, "all", "all", "skipped", "no OpenCL layer")


def test_one_failure_is_enough() -> None:
    trusted, reason = trust_check.judge((PASSED, SKIPPED, FAILED))
    assert not trusted
    assert reason == "wrong results: arange of float32 through dpnp: 840 of 1000 values are wrong"


def test_a_skipped_route_is_no_failure_unless_all_are_skipped() -> None:
    assert trust_check.judge((PASSED, SKIPPED)) == (True, None)
    trusted, reason = trust_check.judge((SKIPPED,))
    assert not trusted and "no OpenCL layer" in str(reason)
    assert trust_check.judge(())[0] is False


# --- real devices ------------------------------------------------------------------------------------


@pytest.mark.sycl
def test_every_device_is_checked_with_all_its_dtypes() -> None:
    for device in every_device():
        dtypes = {dtype.name for dtype in ka.DTYPES if dtype.name != "float64" or device.has_aspect_fp64}
        verdict = trust_check.check(device, refresh=True)
        assert not verdict.remembered
        for name in (PYTHON, OPENCL_C):
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
    verdict = trust_check.check(cpu)
    for sub_device in cpu.create_sub_devices(partition=1):
        inherited = trust_check.check(sub_device)
        assert inherited.remembered and inherited.checks == verdict.checks


# --- detection of wrong code, by every route, on any machine ---------------------------------------------


def only(name: str) -> dict[str, Any]:
    return {name: ROUTES[name]}


def wrong_ramp(item: Any, out: Any, given: Any) -> None:
    """Return the ramp with errors in the last lane of every sixteen, and the correct one."""
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
    """Return the element-wise formula with errors in the remainder of a vector of eight, and the correct one."""
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
    """Return the reduction without the last element of work-item 3, and the correct one."""
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
def test_a_wrong_python_kernel_is_caught(
    cpu: Any, monkeypatch: pytest.MonkeyPatch, function: str, wrong: Any, kind: str, dtype: str
) -> None:
    monkeypatch.setattr(ka, function, wrong)
    verdict = trust_check.check(cpu, routes=only(PYTHON))
    assert not verdict.trusted
    failed = [each for each in verdict.checks if each.status == "failed"]
    assert {each.kind for each in failed} == {kind}
    assert f"{kind} of {dtype} through Python kernels" in str(verdict.reason)
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
    verdict = trust_check.check(cpu, routes=only(OPENCL_C))
    failed = {(each.dtype, each.kind) for each in verdict.checks if each.status == "failed"}
    assert failed == {(dtype.name, kind) for dtype in ka.DTYPES}
    assert not verdict.trusted


@pytest.mark.sycl
def test_incomplete_sum_in_local_memory_is_found(cpu: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "other = 1;" in ka._OPENCL_GROUPS
    monkeypatch.setattr(ka, "_OPENCL_GROUPS", ka._OPENCL_GROUPS.replace("other = 1;", "other = 2;"))
    verdict = trust_check.check(cpu, routes=only(OPENCL_C))
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
    verdict = trust_check.check(cpu, routes=only(DPNP))
    assert not verdict.trusted
    assert kind in {each.kind for each in verdict.checks if each.status == "failed"}


@pytest.mark.sycl
def test_a_route_that_breaks_off_is_a_failure_with_its_reason(cpu: Any) -> None:
    def breaks(queue: Any, dtypes: Any) -> Iterator[RouteResult]:
        yield RouteResult(ka.DTYPES[0], ka.RAMP, 1, np.zeros(1), np.zeros(1))
        raise MemoryError("no room\non the device")

    def closed(queue: Any, dtypes: Any) -> Iterator[RouteResult]:
        raise RouteUnavailable("not built")
        yield

    verdict = trust_check.check(cpu, routes={"a": breaks, "b": closed})
    assert [(each.route, each.status) for each in verdict.checks] == [
        ("a", "passed"),
        ("a", "failed"),
        ("b", "skipped"),
    ]
    assert verdict.reason == "through a: MemoryError: no room on the device"
    assert "not tried" in str(verdict.checks[-1].detail)
    (unavailable,) = trust_check.check(cpu, routes={"b": closed}).checks
    assert (unavailable.status, unavailable.detail) == ("skipped", "not built")


@pytest.mark.sycl
def test_a_device_that_makes_no_queue_is_refused(cpu: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    import dpctl

    def refuse(*_: Any, **__: Any) -> None:
        raise dpctl.SyclQueueCreationError("SYCL Context could not be created")

    monkeypatch.setattr(dpctl, "SyclQueue", refuse)
    verdict = trust_check.check(cpu)
    assert (verdict.trusted, verdict.remembered) == (False, False)
    assert "SYCL Context could not be created" in str(verdict.reason)


# --- remembering ---------------------------------------------------------------------------------------


@pytest.mark.sycl
def test_a_verdict_is_remembered_until_something_changes(cpu: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    first = trust_check.check(cpu)
    second = trust_check.check(cpu)
    assert (first.remembered, second.remembered) == (False, True)
    assert (second.trusted, second.checks) == (first.trusted, first.checks)
    assert not trust_check.check(cpu, refresh=True).remembered

    key = trust_check.verdict_key(cpu)
    runtime = oneapi.load()
    for changed in (
        replace(runtime, boot_environment={**runtime.boot_environment, "CL_CONFIG_CPU_VECTORIZER_MODE": "1"}),
        replace(runtime, versions={**runtime.versions, "dpnp": "0.15.1"}),
    ):
        monkeypatch.setattr(oneapi, "load", lambda changed=changed: changed)
        assert trust_check.verdict_key(cpu) != key
    monkeypatch.setattr(oneapi, "load", lambda: runtime)
    assert trust_check.verdict_key(cpu) == key
    monkeypatch.setattr(processor_flags, "read_flags", lambda: frozenset({"other"}))
    assert trust_check.verdict_key(cpu) != key


@pytest.mark.sycl
def test_concurrent_threads_check_a_device_once(cpu: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two threads that test a device at the same time could deadlock."""
    for verdict in (cache_root() / "trust").glob("*.json"):
        verdict.unlink()
    run_checks, count, together = trust_check._run_checks, list[int](), threading.Barrier(3)

    def counted(*arguments: Any) -> Any:
        count.append(1)
        return run_checks(*arguments)

    def ask() -> None:
        together.wait()
        assert trust_check.check(cpu).trusted

    monkeypatch.setattr(trust_check, "_run_checks", counted)
    threads = [threading.Thread(target=ask) for _ in range(3)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert len(count) == 1


@pytest.mark.sycl
def test_a_bad_verdict_is_remembered_as_well(cpu: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(queue: Any, dtypes: Any) -> Iterator[RouteResult]:
        yield RouteResult(ka.DTYPES[0], ka.RAMP, 2, np.array([0, 5]), np.arange(2))

    monkeypatch.setattr(trust_check, "ROUTES", {"x": wrong})
    assert not trust_check.check(cpu).trusted
    recalled = trust_check.check(cpu)
    assert recalled.remembered and not recalled.trusted and "1 of 2 values" in str(recalled.reason)


@pytest.mark.sycl
def test_an_interrupted_check_is_repeated(cpu: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def breaks(queue: Any, dtypes: Any) -> Iterator[RouteResult]:
        raise MemoryError("no room")
        yield

    monkeypatch.setattr(trust_check, "ROUTES", {"x": breaks})
    assert not trust_check.check(cpu).trusted
    assert not trust_check.check(cpu).remembered


@pytest.mark.sycl
@pytest.mark.parametrize(
    "content",
    ["", "{", "[]", '{"checks": []}', '{"checks": [{"route": 3}]}', '{"checks": [{"route": "x", "dtype": "y", "kind": '
     '"z", "status": "trusted", "detail": null}]}', "\0\xff"],
)  # fmt: skip
def test_a_damaged_stored_verdict_is_ignored(cpu: Any, monkeypatch: pytest.MonkeyPatch, content: str) -> None:
    monkeypatch.setattr(trust_check, "ROUTES", {"x": lambda queue, dtypes: iter(())})
    path = cache_root() / "trust" / f"{trust_check.verdict_key(cpu)}.json"
    path.parent.mkdir(parents=True)
    path.write_bytes(content.encode("latin-1"))
    assert not trust_check.check(cpu).remembered


@pytest.mark.sycl
def test_a_cache_that_cannot_be_written_only_costs_time(
    cpu: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    for _ in range(2):
        verdict = trust_check.check(cpu, routes=None)
        assert verdict.trusted and not verdict.remembered


@pytest.mark.sycl
def test_compiled_kernels_are_cached_and_damaged_files_replaced(cpu: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("numba_dpex", reason="numba-dpex is not installed")
    import dpctl

    queue = dpctl.SyclQueue(cpu)
    monkeypatch.setenv("SYCLSCHED_PROGRAM_CACHE", "1")
    monkeypatch.setattr(routes, "SHIPPED", Path("nowhere"))
    routes._shipped.cache_clear()
    compiled = routes.dpex_spirv(queue, ka.float_kernel, ka.DTYPES[0])
    with monkeypatch.context() as patch:
        patch.setattr(routes, "dpex_compile", lambda *_: pytest.fail("compiled though it is kept"))
        assert routes.dpex_spirv(queue, ka.float_kernel, ka.DTYPES[0]) == compiled
    (stored,) = (cache_root() / "programs").iterdir()
    whole = stored.read_bytes()
    stored.write_bytes(whole[:-1] + b"!")
    again = routes.dpex_spirv(queue, ka.float_kernel, ka.DTYPES[0])
    assert stored.read_bytes() == hashlib.sha256(stored.read_bytes()[32:]).digest() + stored.read_bytes()[32:]
    assert again[1] in stored.read_bytes()
    routes._shipped.cache_clear()


@pytest.mark.sycl
def test_shipped_kernels_are_of_these_sources_and_versions(cpu: Any) -> None:
    pytest.importorskip("numba_dpex", reason="numba-dpex is not installed")
    wanted = {routes.dpex_key(cpu, ka.python_function(dtype), dtype) for dtype in ka.DTYPES}
    assert wanted == set(routes._shipped()), "run tools/known_answer_kernels.py"


@pytest.mark.sycl
def test_kernels_compiled_here_have_the_answers_of_shipped_kernels(cpu: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routes, "_shipped", dict)
    verdict = trust_check.check(cpu, routes=only(PYTHON))
    assert verdict.trusted
    assert {(each.dtype, each.kind) for each in verdict.checks} == {(d.name, k) for d in ka.DTYPES for k in ka.KINDS}


@pytest.mark.sycl
def test_a_verdict_writable_by_others_is_ignored(
    cpu: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def right(queue: Any, dtypes: Any) -> Iterator[RouteResult]:
        yield RouteResult(ka.DTYPES[0], ka.RAMP, 2, np.arange(2), np.arange(2))

    monkeypatch.setattr(trust_check, "ROUTES", {"x": right})
    assert trust_check.check(cpu).trusted
    folder = cache_root() / "trust"
    before = sorted(folder.iterdir())
    folder.chmod(0o777)
    assert not trust_check.check(cpu).remembered
    assert f"{folder} can be written to by everyone" in caplog.text
    assert sorted(folder.iterdir()) == before
    folder.chmod(0o700)
    assert trust_check.check(cpu).remembered
