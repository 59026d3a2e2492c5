# SPDX-License-Identifier: Apache-2.0
"""Trust in devices: a device may be used only if it passes a known-answer test.

An OpenCL CPU runtime on a processor it does not know computes silently wrong results, so devices are tested. The
verdict is cached by device, driver, processor, boot environment and package versions: any change that could affect the
generated code repeats the test.
"""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, cast, get_args

from syclsched.atomic_write import write_atomically
from syclsched.devices.native.sycl_types import SyclDevice, SyclQueue
from syclsched.devices.programs.program_cache import code_inputs
from syclsched.devices.trust import known_answer_routes, known_answers
from syclsched.devices.trust.known_answer_routes import ROUTES, Route, RouteUnavailable
from syclsched.devices.trust.known_answers import Dtype
from syclsched.devices.trust.probe import probe
from syclsched.folder_trust import make_private_folder, may_load_from
from syclsched.oneapi import crash_marker
from syclsched.oneapi.cache_folder import cache_root

#: Most characters of an error kept: a compiler's message can be pages long.
_LONGEST_DETAIL = 300
#: Held while a device is tested: two threads that copied arrays through dpctl at the same time could wait for ever.
_testing = threading.Lock()

Status = Literal["passed", "failed", "skipped"]


@dataclass(frozen=True, slots=True)
class KnownAnswerResult:
    """The outcome of one route for one dtype and kind of computation, over all lengths.

    `dtype` and `kind` are ``"all"`` where a whole route was skipped or raised an error. `detail` says what was wrong or
    why it was skipped.
    """

    route: str
    dtype: str
    kind: str
    status: Status
    detail: str | None = None


@dataclass(frozen=True, slots=True)
class _TrustVerdict:
    """Verdict on a device: whether it may be used, the reason if not, and the outcomes of all checks.

    `remembered` tells that the checks were made by an earlier process; `seconds` is the duration of this call.
    """

    trusted: bool
    reason: str | None
    checks: tuple[KnownAnswerResult, ...]
    remembered: bool
    seconds: float


def check(
    device: SyclDevice, *, refresh: bool = False, routes: Mapping[str, Route] | None = None, guarded: bool = True
) -> _TrustVerdict:
    """Run the known-answer test on a device, or return its cached verdict."""
    started_s = time.perf_counter()
    root = root_device(device)
    path = cache_root() / "trust" / f"{verdict_key(root)}.json"
    # Verdicts that others may have written are neither read nor added to.
    keeps = may_load_from(path.parent)
    with _testing:  # a second thread finds the verdict of the first
        remembered = None if refresh or routes is not None or not keeps else _recall(path)
        if remembered is not None:
            checks = remembered
        elif routes is not None:
            checks = _run_checks(root, routes)
        else:
            checks = _check_guarded(root, path) if guarded and keeps else _run_checks(root, ROUTES)
            if keeps:
                _remember(path, root, checks)
    trusted, reason = judge(checks)
    return _TrustVerdict(trusted, reason, checks, remembered is not None, time.perf_counter() - started_s)


def _check_guarded(device: SyclDevice, path: Path) -> tuple[KnownAnswerResult, ...]:
    """Run the checks in this process, or in a subprocess if they have killed a process before."""
    guard = path.with_suffix(".running")
    if crash_marker.is_orphaned(guard):
        seen = probe()
        crash_marker.remove(guard)
        recalled = _recall(path)
        if recalled is not None:
            return recalled
        if seen.died is not None:
            return (KnownAnswerResult("all", "all", "check", "failed", f"a process died of it ({seen.died})"),)
    with crash_marker.mark(guard):
        return _run_checks(device, ROUTES)


def root_device(device: SyclDevice) -> SyclDevice:
    """Return the root device of a device, which may be the device itself."""
    while device.parent_device is not None:
        device = device.parent_device
    return device


def judge(checks: tuple[KnownAnswerResult, ...]) -> tuple[bool, str | None]:
    """Return whether the outcomes make a device trustworthy, and the reason if they do not."""
    failed = [each for each in checks if each.status == "failed"]
    if failed:
        first = failed[0]
        more = f" (and {len(failed) - 1} more)" if len(failed) > 1 else ""
        what = "" if first.dtype == "all" else f"wrong results: {first.kind} of {first.dtype} "
        where = "" if first.route == "all" else f"through {first.route}: "
        return False, f"{what}{where}{first.detail}{more}"
    if not any(each.status == "passed" for each in checks):
        return False, "nothing could be checked: " + "; ".join(f"{each.route}: {each.detail}" for each in checks)
    return True, None


def _run_checks(device: SyclDevice, routes: Mapping[str, Route]) -> tuple[KnownAnswerResult, ...]:
    """Run every computation on every route, up to the first route with wrong results; nothing is cached.

    Wrong code may write outside its arrays: a device that has given wrong results is not tested further.
    """
    import dpctl

    if not has_usm(device):
        return (KnownAnswerResult("all", "all", "memory", "failed", "it has no unified shared memory"),)
    try:
        queue = dpctl.SyclQueue(device, property="in_order")
    except dpctl.SyclQueueCreationError as error:
        return (KnownAnswerResult("all", "all", "all", "failed", _describe(error)),)
    dtypes = tuple(dtype for dtype in known_answers.DTYPES if dtype.name != "float64" or device.has_aspect_fp64)
    results: list[KnownAnswerResult] = []
    wrong: str | None = None
    for name, route in routes.items():
        if wrong is None:
            results += _run_route(name, route, queue, dtypes)
            wrong = name if any(each.status == "failed" for each in results) else None
        else:
            results.append(
                KnownAnswerResult(name, "all", "all", "skipped", f"not tried after the failure through {wrong}")
            )
    return tuple(results)


def has_usm(device: SyclDevice) -> bool:
    """Return whether memory can be allocated for a device at all, as plans and this test do."""
    return bool(device.has_aspect_usm_device_allocations and device.has_aspect_usm_host_allocations)


def _run_route(name: str, route: Route, queue: SyclQueue, dtypes: tuple[Dtype, ...]) -> list[KnownAnswerResult]:
    wrong: dict[tuple[str, str], str | None] = {}
    try:
        for answer in route(queue, dtypes):
            tolerance = 0.0 if answer.kind != known_answers.FORMULA else answer.dtype.tolerance
            said = known_answers.mismatch(answer.result, answer.right, tolerance)
            key = (answer.dtype.name, answer.kind)
            if wrong.get(key) is None:
                wrong[key] = said
    except RouteUnavailable as error:
        return [*_outcomes(name, wrong), KnownAnswerResult(name, "all", "all", "skipped", str(error))]
    except Exception as error:
        # Any exception of a compiler or driver here is a failure of this device.
        return [*_outcomes(name, wrong), KnownAnswerResult(name, "all", "all", "failed", _describe(error))]
    return _outcomes(name, wrong)


def _outcomes(route: str, wrong: Mapping[tuple[str, str], str | None]) -> list[KnownAnswerResult]:
    return [
        KnownAnswerResult(route, dtype, kind, "failed" if detail else "passed", detail)
        for (dtype, kind), detail in wrong.items()
    ]


def _describe(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:_LONGEST_DETAIL]


# --- cache of verdicts -------------------------------------------------------------------------------


def verdict_key(device: SyclDevice) -> str:
    """Return a key that changes with everything that could change the code generated for a device."""
    parts = {**code_inputs(device), "checks": _sources_digest()}
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:32]


def _sources_digest() -> str:
    """Return a digest of the check's own code: a changed check must not use cached verdicts."""
    digest = hashlib.sha256()
    for module in (known_answers, known_answer_routes):
        digest.update(Path(str(module.__file__)).read_bytes())
    return digest.hexdigest()


def _remember(path: Path, device: SyclDevice, checks: tuple[KnownAnswerResult, ...]) -> None:
    if any(each.kind == "all" and each.status == "failed" for each in checks):
        return  # an error, perhaps for lack of memory: the next process checks again
    content = {"device": device.name, "checks": [asdict(each) for each in checks]}
    try:
        make_private_folder(path.parent)
        write_atomically(path, json.dumps(content, indent=1).encode())
    except OSError:
        return  # with a read-only or full cache every process runs the check


def _recall(path: Path) -> tuple[KnownAnswerResult, ...] | None:
    """Read a cached verdict; None if it is missing or invalid."""
    try:
        entries = json.loads(path.read_text(encoding="utf-8"))["checks"]
        return tuple(_entry(each) for each in entries) or None
    except (OSError, ValueError, TypeError, KeyError):
        return None


def _entry(entry: Mapping[str, Any]) -> KnownAnswerResult:
    status, detail = entry["status"], entry["detail"]
    route, dtype, kind = entry["route"], entry["dtype"], entry["kind"]
    if status not in get_args(Status) or not all(isinstance(each, str) for each in (route, dtype, kind)):
        raise ValueError("not the outcome of a check")
    if detail is not None and not isinstance(detail, str):
        raise ValueError("not the outcome of a check")
    return KnownAnswerResult(route, dtype, kind, cast(Status, status), detail)
