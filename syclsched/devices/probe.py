# SPDX-License-Identifier: Apache-2.0
"""Load the stack and check every device in a process of its own, because a broken driver may take its process along.

The child writes one JSON document a line, as it goes: what it has said stays said when it dies.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any, TextIO

from .. import oneapi
from ..errors import SyclschedError
from ..oneapi.facts import DeviceFact, Probe
from ..oneapi.libraries import LibraryFound
from ..oneapi.loading import installed_versions
from . import trust
from .library_check import onednn_error

_TIMEOUT_S = 120.0
_LAST_WORDS_CHARACTERS = 500
_CHILD = "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from syclsched.devices.probe import main; main()"


def probe(timeout_s: float = _TIMEOUT_S) -> Probe:
    """Start the child, wait for it, and return what it saw; never raises for what goes wrong in it."""
    command = [sys.executable, "-c", _CHILD, json.dumps(sys.path)]
    try:
        ended = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=timeout_s, check=False
        )
    except subprocess.TimeoutExpired as late:
        said = late.stdout.decode(errors="replace") if isinstance(late.stdout, bytes) else late.stdout or ""
        return read(said, died=f"no end after {timeout_s:.0f} s", stderr="")
    return read(ended.stdout, died=_cause_of_death(ended.returncode), stderr=ended.stderr)


def _cause_of_death(code: int) -> str | None:
    if code == 0:
        return None
    if code > 0:
        return f"exit code {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"


def read(said: str, died: str | None, stderr: str) -> Probe:
    """Put together what a child has said before it ended."""
    runtime: dict[str, Any] = {}
    devices: dict[int, DeviceFact] = {}
    for document in _documents(said):
        if "index" in document:
            index = document.pop("index")
            devices[index] = DeviceFact(**{**document, "skipped": tuple(document["skipped"])})
        else:
            runtime |= document
    return Probe(
        devices=tuple(device for _, device in sorted(devices.items())),
        libraries=tuple(LibraryFound(**each) for each in runtime.get("libraries", ())),
        emulator=runtime.get("emulator"),
        notes=tuple(runtime.get("notes", ())),
        error=runtime.get("error"),
        hint=runtime.get("hint"),
        died=died,
        onednn=runtime.get("onednn"),
        stderr=" ".join(stderr.split())[-_LAST_WORDS_CHARACTERS:] if died else "",
    )


def _documents(said: str) -> Iterator[dict[str, Any]]:
    for line in said.splitlines():
        try:
            document = json.loads(line)
        except ValueError:
            continue
        if isinstance(document, dict):
            yield document


def main(out: TextIO | None = None) -> None:
    """Be the child: say what was loaded, then each device before and after its check."""
    stream = out if out is not None else sys.stdout
    try:
        runtime = oneapi.load()
    except SyclschedError as error:
        _say(stream, {"error": error.what, "hint": error.hint})
        return
    _say(
        stream,
        {
            "libraries": [asdict(each) for each in runtime.libraries],
            "emulator": runtime.emulator,
            "notes": list(runtime.notes),
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
        }
        _say(stream, {**about, "trusted": None, "reason": None, "skipped": []})
        verdict = trust.check(device, guarded=False)
        skipped = [f"{each.route}: {each.detail}" for each in verdict.checks if each.status == "skipped"]
        _say(stream, {**about, "trusted": verdict.trusted, "reason": verdict.reason, "skipped": skipped})
    if any(device.is_cpu for device in dpctl.get_devices()) and "onednn" in installed_versions():
        _say(stream, {"onednn": onednn_error() or ""})
    stream.flush()
    if out is None:
        # What a driver does at the end of the process is not the devices' health; what was said is out.
        os._exit(0)


def _say(stream: TextIO, document: dict[str, Any]) -> None:
    print(json.dumps(document), file=stream, flush=True)
