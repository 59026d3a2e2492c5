# SPDX-License-Identifier: Apache-2.0
"""The child process of `probe`: loads the stack, checks every device, and writes one JSON document a line."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict
from typing import Any, TextIO

from syclsched import oneapi
from syclsched.devices.trust import library_check, trust_check
from syclsched.devices.trust.library_check import onednn_error, onednn_instruction_set
from syclsched.errors import SyclschedError
from syclsched.oneapi.loading import installed_versions, load_math_libraries


def main(out: TextIO | None = None) -> None:
    """Run as the child: report the loaded libraries, then each device before and after its check."""
    stream = out if out is not None else sys.stdout
    try:
        runtime = oneapi.load()
    except SyclschedError as error:
        _write_line(stream, {"error": error.what, "hint": error.hint})
        return
    _write_line(
        stream,
        {
            "libraries": [asdict(each) for each in (*runtime.libraries, *load_math_libraries())],
            "emulator": runtime.emulator,
            "notes": list(runtime.notes),
            "compiles_for": runtime.target_arch,
            "blas_uses": _blas_architecture(),
        },
    )
    import dpctl

    for index, device in enumerate(dpctl.get_devices()):
        about = {
            "index": index,
            "name": device.name,
            "backend": device.backend.name,
            "kind": device.device_type.name,
            "driver": device.driver_version,
            "has_usm": trust_check.has_usm(device),
        }
        _write_line(stream, {**about, "trusted": None, "reason": None, "skipped": []})
        verdict = trust_check.check(device, guarded=False)
        skipped = [f"{each.route}: {each.detail}" for each in verdict.checks if each.status == "skipped"]
        refusals = library_check.refusals(device) if verdict.trusted else ()
        _write_line(
            stream,
            {
                **about,
                "trusted": verdict.trusted,
                "reason": verdict.reason,
                "skipped": skipped,
                "refusals": [f"{library}: {reason}" for library, reason in refusals],
            },
        )
    if any(device.is_cpu for device in dpctl.get_devices()) and "onednn" in installed_versions():
        _write_line(stream, {"onednn": onednn_error() or "", "onednn_uses": onednn_instruction_set()})
    stream.flush()
    if out is None:
        # Skip the drivers' process-exit code, which is not part of the check; all results are written.
        os._exit(0)


def _blas_architecture() -> str | None:
    """Return the processor for which NumPy's BLAS has chosen its code, as it names it; None if it does not tell."""
    try:
        import numpy  # noqa: F401  (loads its BLAS)
        import threadpoolctl
    except ImportError:
        return None
    found = [each for each in threadpoolctl.threadpool_info() if each["user_api"] == "blas" and "architecture" in each]
    return ", ".join(f"{each['architecture']} ({each['internal_api']} {each['version']})" for each in found) or None


def _write_line(stream: TextIO, document: dict[str, Any]) -> None:
    print(json.dumps(document), file=stream, flush=True)
