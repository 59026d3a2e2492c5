# SPDX-License-Identifier: Apache-2.0
"""A subprocess that loads the SYCL stack and checks every device, because a broken driver may kill its process.

The child writes one JSON document a line as it proceeds, so that its results up to a crash are not lost.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

from syclsched.oneapi.diagnosis.facts import DeviceFact, Probe
from syclsched.oneapi.libraries import LibraryFound

_TIMEOUT_S = 120.0
_STDERR_CHARACTERS = 500
_CHILD = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from syclsched.devices.trust.probe_child import main; main()"
)


def probe(timeout_s: float = _TIMEOUT_S) -> Probe:
    """Run the child process and return its results; errors in it are recorded, not raised."""
    command = [sys.executable, "-c", _CHILD, json.dumps(sys.path)]
    try:
        ended = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=timeout_s, check=False
        )
    except subprocess.TimeoutExpired as late:
        said = late.stdout.decode(errors="replace") if isinstance(late.stdout, bytes) else late.stdout or ""
        return parse_output(said, died=f"no end after {timeout_s:.0f} s", stderr="")
    return parse_output(ended.stdout, died=termination_cause(ended.returncode), stderr=ended.stderr)


def termination_cause(code: int) -> str | None:
    """Return the name of the signal that ended a process, or its exit code; None for 0."""
    if code == 0:
        return None
    if code > 0:
        return f"exit code {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"


def parse_output(said: str, died: str | None, stderr: str) -> Probe:
    """Combine the documents that a child wrote before it ended."""
    runtime: dict[str, Any] = {}
    devices: dict[int, DeviceFact] = {}
    for document in _documents(said):
        if "index" in document:
            index = document.pop("index")
            lists = {name: tuple(document.get(name, ())) for name in ("skipped", "refusals")}
            devices[index] = DeviceFact(**{**document, **lists})
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
        compiles_for=runtime.get("compiles_for"),
        onednn_uses=runtime.get("onednn_uses"),
        blas_uses=runtime.get("blas_uses"),
        stderr=" ".join(stderr.split())[-_STDERR_CHARACTERS:] if died else "",
    )


def _documents(said: str) -> Iterator[dict[str, Any]]:
    for line in said.splitlines():
        try:
            document = json.loads(line)
        except ValueError:
            continue
        if isinstance(document, dict):
            yield document
