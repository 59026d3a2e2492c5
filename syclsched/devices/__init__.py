# SPDX-License-Identifier: Apache-2.0
"""SYCL devices: discovery, selection, trust, queues, compilation, memory; importable without the SYCL runtime.

Public are the names in ``__all__``; the modules are Internal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from syclsched.lazy_names import lazy_names

#: Public name -> module that defines it.
_LAZY = {
    "OpenDevices": "syclsched.devices.opened_devices",
    "SubDevices": "syclsched.devices.discovery.subdevices",
    "discover": "syclsched.devices.discovery.platform_discovery",
    "open_devices": "syclsched.devices.opened_devices",
    "parse_sub_devices": "syclsched.devices.discovery.subdevices",
    "without_emulators": "syclsched.devices.discovery.platform_discovery",
}

__all__ = sorted(_LAZY)

if TYPE_CHECKING:
    from syclsched.devices.discovery.platform_discovery import discover as discover
    from syclsched.devices.discovery.platform_discovery import without_emulators as without_emulators
    from syclsched.devices.discovery.subdevices import SubDevices as SubDevices
    from syclsched.devices.discovery.subdevices import parse_sub_devices as parse_sub_devices
    from syclsched.devices.opened_devices import OpenDevices as OpenDevices
    from syclsched.devices.opened_devices import open_devices as open_devices


__getattr__ = lazy_names(__name__, _LAZY)
