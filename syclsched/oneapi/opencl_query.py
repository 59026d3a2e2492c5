# SPDX-License-Identifier: Apache-2.0
"""The child process that loads one OpenCL driver and writes its devices as a JSON document.

Its arguments are ``sys.path``, the driver, and the libraries that are loaded before it, the OpenCL loader last, as one
JSON list each. The document has the devices' properties and the driver's file, or says why the driver does not load.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

from syclsched.oneapi.libraries import loaded_path

_PLATFORM_NAME = 0x0902
_DEVICE_NAME, _DEVICE_VERSION, _DRIVER_VERSION, _DEVICE_EXTENSIONS = 0x102B, 0x102F, 0x102D, 0x1030
_DEVICE_IL_VERSION = 0x105B
_ALL_TYPES = 0xFFFFFFFF
_UNIFIED_MEMORY = "cl_intel_unified_shared_memory"


def main() -> None:
    """Run as the child."""
    _, driver, libraries = (json.loads(each) for each in sys.argv[1:])
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a crash is expected, and reported
    print(json.dumps(_ask(driver, libraries)), flush=True)
    os._exit(0)  # skips the driver's process-exit code, which is not part of the question


def _ask(driver: str, libraries: list[str]) -> dict[str, Any]:
    loader: Any = None
    try:
        for library in libraries:
            loader = ctypes.CDLL(library, mode=os.RTLD_LAZY | os.RTLD_GLOBAL)
        ctypes.CDLL(driver, mode=os.RTLD_NOW)
    except OSError as error:
        return {"failure": str(error)}
    devices = [
        {
            "name": _text(loader.clGetDeviceInfo, device, _DEVICE_NAME),
            "platform": _text(loader.clGetPlatformInfo, platform, _PLATFORM_NAME),
            "version": _text(loader.clGetDeviceInfo, device, _DEVICE_VERSION),
            "driver": _text(loader.clGetDeviceInfo, device, _DRIVER_VERSION),
            "spirv": _text(loader.clGetDeviceInfo, device, _DEVICE_IL_VERSION),
            "usm": _UNIFIED_MEMORY in _text(loader.clGetDeviceInfo, device, _DEVICE_EXTENSIONS).split(),
        }
        for platform in _handles(loader.clGetPlatformIDs)
        for device in _handles(partial(loader.clGetDeviceIDs, platform, ctypes.c_uint64(_ALL_TYPES)))
    ]
    file = loaded_path(os.path.basename(driver))
    return {"devices": devices, "file": file if file is not None else driver}


def _handles(ask: Callable[..., int]) -> list[ctypes.c_void_p]:
    """Return the handles that a ``clGet...IDs`` function lists."""
    count = ctypes.c_uint32()
    if ask(0, None, ctypes.byref(count)):
        return []
    found = (ctypes.c_void_p * count.value)()
    ask(count, found, None)
    return [ctypes.c_void_p(each) for each in found]


def _text(ask: Callable[..., int], owner: ctypes.c_void_p, name: int) -> str:
    """Return a textual property by a ``clGet...Info`` function; empty if the driver does not support it."""
    length = ctypes.c_size_t()
    if ask(owner, name, 0, None, ctypes.byref(length)):
        return ""
    found = ctypes.create_string_buffer(length.value + 1)
    ask(owner, name, length, found, None)
    return found.value.decode(errors="replace").strip()
