# SPDX-License-Identifier: Apache-2.0
"""Device identity: the key of profiles and history, the short name on a platform, the host's processor model."""

from __future__ import annotations

import hashlib
import json
import platform
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from syclsched.model.platform import Partition

_CPUINFO = Path("/proc/cpuinfo")
_LONGEST_SLUG = 40
_TRADEMARKS = re.compile(r"\((?:r|tm|c)\)", re.IGNORECASE)

#: The first generation of SYCL packages: its keys do not name it, so that files from before there were two are found.
_UNNAMED_GENERATION = "numba-dpex"

#: Boot variables that choose the visible devices but not how they run. They are not part of a device's key: the driver
#: version identifies drivers, and hiding one device must not invalidate the profile of another.
_CHOOSING_VARIABLES = frozenset(
    (
        "ONEAPI_DEVICE_SELECTOR",
        "SYCL_DEVICE_FILTER",
        "SYCL_DEVICE_ALLOWLIST",
        "OCL_ICD_FILENAMES",
        "OCL_ICD_VENDORS",
        "OPENCL_LAYERS",
    )
)


def slug(name: str) -> str:
    """Return a product name as lower-case letters, digits and hyphens, fit for a file name."""
    text = re.sub(r"[^a-z0-9]+", "-", _TRADEMARKS.sub("", name).lower()).strip("-")
    return text[:_LONGEST_SLUG].rstrip("-") or "device"


def device_key(
    backend: str,
    kind: str,
    name: str,
    *,
    driver_version: str,
    processor: str,
    boot_environment: Mapping[str, str],
    generation: str = "",
    partition: Partition | None = None,
    ordinal: int = 0,
) -> str:
    """Return the key of a device under which its profile and measured history are stored.

    Each generation of SYCL packages has its own: it compiles other code, and has other libraries.
    """
    environment = {k: v for k, v in boot_environment.items() if k not in _CHOOSING_VARIABLES}
    cut = None if partition is None else [partition.method, partition.argument, partition.index]
    identity: list[object] = [name, driver_version, cut, processor, sorted(environment.items())]
    if ordinal:
        identity.append(ordinal)
    digest = hashlib.sha256(json.dumps(identity).encode()).hexdigest()[:8]
    named = f"-{slug(generation)}" if generation not in ("", _UNNAMED_GENERATION) else ""
    return f"{backend}-{kind}-{slug(name)}{named}-{digest}"


def device_names(kinds: Iterable[str]) -> tuple[str, ...]:
    """Return a short name for each device: its kind, numbered from the second of a kind on."""
    seen: dict[str, int] = {}
    names: list[str] = []
    for kind in kinds:
        count = seen.get(kind, 0)
        seen[kind] = count + 1
        names.append(kind if count == 0 else f"{kind}{count}")
    return tuple(names)


def processor_model(path: Path = _CPUINFO) -> str:
    """Return the model of the host's processor, with family, model and stepping where Linux reports them."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return platform.processor() or platform.machine()
    fields: dict[str, str] = {}
    for line in text.splitlines():
        label, _, value = line.partition(":")
        fields.setdefault(label.strip(), value.strip())
    name = fields.get("model name") or platform.processor() or platform.machine()
    numbers = [fields[each] for each in ("cpu family", "model", "stepping") if each in fields]
    return f"{name} ({'/'.join(numbers)})" if numbers else name
