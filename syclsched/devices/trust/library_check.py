# SPDX-License-Identifier: Apache-2.0
"""Checks of libraries on devices: an installed library may refuse a device, fail to load, or compute wrong results.

Which devices a library takes is in no interface of it, so each is asked, by a small product of matrices. The answers
are cached as a device's verdict is. Plans use no library on a device that it refuses.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from syclsched import oneapi
from syclsched.atomic_write import write_atomically
from syclsched.devices.native.sycl_types import SyclDevice, SyclQueue
from syclsched.devices.trust.probe import termination_cause
from syclsched.devices.trust.trust_check import root_device, verdict_key
from syclsched.errors import SyclschedError
from syclsched.folder_trust import make_private_folder, may_load_from
from syclsched.model.operation import Operation, Scalar, Signature
from syclsched.oneapi.cache_folder import cache_root
from syclsched.oneapi.dpctl_interface import usm_arrays

#: Vendor of the platform whose CPU device is not asked for: the libraries are made for it, and asking loads them all.
#: Accelerators are not checked, either: no implementation by a library supports them.
_MAKER: Final = "Intel(R) Corporation"
_TIMEOUT_S: Final = 120.0
_TOO_LATE: Final = f"its check did not end within {_TIMEOUT_S:.0f} s"
_CHILD: Final = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from syclsched.devices.trust.library_check import answer; answer(*sys.argv[2:])"
)
#: Most characters of a reason that are kept.
_LONGEST_REASON: Final = 300
_A: Final = np.arange(6, dtype=np.float32).reshape(2, 3)
_B: Final = np.arange(12, dtype=np.float32).reshape(4, 3)


def onednn_instruction_set() -> str | None:
    """Return the newest instruction set that oneDNN uses, as it names it; None if it cannot be loaded."""
    from syclsched.kernels.onednn.library import load

    try:
        library = load()
    except SyclschedError:
        return None
    found: str = library.instruction_set()
    return found


def onednn_error(queue: SyclQueue | None = None) -> str | None:
    """Return why oneDNN does not compute on a queue, by default one of the CPU device; None if it does."""
    from syclsched.kernels import nn

    arrays = {"y": np.zeros((2, 4), np.float32), "a": _A, "b": np.ascontiguousarray(_B.T)}
    return _error(queue, nn.matmul(), "onednn", arrays, _A @ _B.T)


def onemkl_error(queue: SyclQueue | None = None) -> str | None:
    """Return why oneMKL, through dpnp, does not compute on a queue; as `onednn_error`."""
    from syclsched.kernels.linalg.gemm import GEMM

    arrays = {"c": np.zeros((2, 4), np.float32), "a": _A, "b": _B}
    scalars = {"alpha": -1.0, "beta": 1.0, "trans_a": 0, "trans_b": 1}
    return _error(queue, GEMM, "onemkl", arrays, -(_A @ _B.T), scalars)


#: By name: the distribution that a library comes with, or is used through, and its check.
CHECKS: Final[Mapping[str, tuple[str, Callable[[SyclQueue | None], str | None]]]] = {
    "oneDNN": ("onednn", onednn_error),
    "oneMKL": ("dpnp", onemkl_error),
}


def _error(
    queue: SyclQueue | None,
    operation: Operation,
    implementation: str,
    arrays: Mapping[str, Any],
    right: Any,
    scalars: Mapping[str, Scalar] = MappingProxyType({}),
) -> str | None:
    """Return why an implementation does not compute the right value of its first array; small integers are exact."""
    oneapi.load()
    import dpctl

    dpt = usm_arrays()
    signature = Signature(
        {name: each.shape for name, each in arrays.items()},
        {name: each.dtype.name for name, each in arrays.items()},
        scalars,
    )
    try:
        on = dpctl.SyclQueue("cpu", property="in_order") if queue is None else queue
        memory = {name: dpt.asarray(each, sycl_queue=on) for name, each in arrays.items()}
        operation.implementation(implementation).load(signature)(on, {**memory, **scalars}, []).wait()
        found = dpt.asnumpy(memory[next(iter(arrays))])
    except Exception as error:  # those of libraries share no base class
        said = error.what if isinstance(error, SyclschedError) else str(error)
        return " ".join(said.split())[:_LONGEST_REASON] or type(error).__name__
    if np.array_equal(found, right):
        return None
    return f"a product of matrices is {found.tolist()}, not {right.tolist()}"


def refusals(device: SyclDevice) -> tuple[tuple[str, str], ...]:
    """Return the installed libraries that refuse a device, and why: asked now, or by an earlier process."""
    root = root_device(device)
    if not root.is_gpu and (not root.is_cpu or root.sycl_platform.vendor == _MAKER):
        return ()
    path = cache_root() / "trust" / f"{verdict_key(root)}.libraries.json"
    keeps = may_load_from(path.parent)
    digest = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()
    known = _recall(path, digest) if keeps else None
    if known is None:
        installed = oneapi.load().versions
        asked = [name for name, (distribution, _) in CHECKS.items() if distribution in installed]
        known = {name: reason for name in asked if (reason := _ask(name, root.filter_string)) is not None}
        if keeps and _TOO_LATE not in known.values():
            _remember(path, {"checks": digest, "refusals": known})
    return tuple(known.items())


def _ask(name: str, filter_string: str) -> str | None:
    """Return why a library refuses a device, from a process of its own: on a device unknown to it, it may abort."""
    command = [sys.executable, "-c", _CHILD, json.dumps(sys.path), name, filter_string]
    try:
        ended = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired:
        return _TOO_LATE
    if ended.returncode != 0:
        last = " ".join(ended.stderr.split())[-_LONGEST_REASON:]
        return f"its process ended with {termination_cause(ended.returncode)}: {last}"
    answer = json.loads(ended.stdout.splitlines()[-1])
    return None if answer is None else str(answer)


def answer(name: str, filter_string: str) -> None:
    """Check a library as the child process: write the reason of its refusal, or null, as the last line."""
    oneapi.load()
    import dpctl

    reason = CHECKS[name][1](dpctl.SyclQueue(filter_string, property="in_order"))
    print(f"\n{json.dumps(reason)}", flush=True)
    os._exit(0)  # the drivers' process-exit code is not part of the check


def _remember(path: Path, content: Mapping[str, Any]) -> None:
    try:
        make_private_folder(path.parent)
        write_atomically(path, json.dumps(content, indent=1).encode())
    except OSError:
        return  # with a read-only or full cache every process asks


def _recall(path: Path, digest: str) -> dict[str, str] | None:
    """Read the answers of an earlier process; None if there are none of these checks."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        found = {str(name): str(reason) for name, reason in content["refusals"].items()}
        return found if content["checks"] == digest else None
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None
