# SPDX-License-Identifier: Apache-2.0
"""SYCL devices: discovery, selection, trust, queues, compilation, memory; importable without the SYCL runtime.

Public are the names in ``__all__``; the modules are Internal.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

#: Public name -> module that defines it.
_LAZY = {
    "OpenDevices": "syclsched.devices.opened_devices",
    "SubDevices": "syclsched.devices.discovery.subdevices",
    "discover": "syclsched.devices.discovery.platform_discovery",
    "open_devices": "syclsched.devices.opened_devices",
    "parse_sub_devices": "syclsched.devices.discovery.subdevices",
    "without_emulators": "syclsched.devices.discovery.platform_discovery",
}

__all__ = ["OpenDevices", "SubDevices", "discover", "open_devices", "parse_sub_devices", "without_emulators"]

if TYPE_CHECKING:
    from syclsched.devices.discovery.platform_discovery import discover, without_emulators
    from syclsched.devices.discovery.subdevices import SubDevices, parse_sub_devices
    from syclsched.devices.opened_devices import OpenDevices, open_devices


def __getattr__(name: str) -> Any:
    """Import a public name on first use (PEP 562)."""
    module = _LAZY.get(name)
    if module is None:
        raise AttributeError(f"module 'syclsched.devices' has no attribute {name!r}")
    value = getattr(importlib.import_module(module), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
