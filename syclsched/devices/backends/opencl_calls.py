# SPDX-License-Identifier: Apache-2.0
"""Calls of functions of the OpenCL library and the SYCL runtime that are loaded in this process."""

from __future__ import annotations

import ctypes
import os
from typing import Any, Final

from syclsched.oneapi import stack_generation

OPENCL: Final = "libOpenCL.so.1"
OPERATOR_NEW: Final = "_Znwm"
BACKEND_OPENCL: Final = 1
QUEUE_CONTEXT, QUEUE_DEVICE = 0x1090, 0x1091
KERNEL_PROGRAM: Final = 0x1194
KERNEL_NATIVE: Final = "_ZNK4sycl3_V16kernel9getNativeEv"
DEVICE_NATIVE: Final = "_ZNK4sycl3_V16device9getNativeEv"
QUEUE_NATIVE: Final = "_ZNK4sycl3_V15queue9getNativeERi"


def loaded_library(name: str) -> Any:
    """Return a library that is already loaded; raise `OSError` if it is not."""
    return ctypes.CDLL(name, mode=os.RTLD_NOLOAD)


def dpctl_interface() -> Any:
    """Return dpctl's C interface, which is loaded."""
    return loaded_library(stack_generation.installed().dpctl_interface)


def sycl_runtime() -> Any:
    """Return the SYCL runtime's library, which is loaded."""
    return loaded_library(stack_generation.installed().sycl_library)


def function_of(library: Any, name: str, result: Any, *arguments: Any) -> Any:
    """Return a function of a library, with its signature."""
    found = library[name]  # not an attribute: each use of a name may have its own signature
    found.restype = result
    found.argtypes = list(arguments)
    return found


def pointer_property(info: Any, owner: int, name: int) -> int:
    """Return a property of an object, by a ``clGet...Info`` function."""
    found = ctypes.c_void_p()
    info(owner, name, ctypes.sizeof(found), ctypes.byref(found), None)
    return found.value or 0


def number_property(info: Any, owner: int, name: int) -> int:
    """Return a property of 64 bits of an object, by a ``clGet...Info`` function; 0 if it is unknown there."""
    found = ctypes.c_uint64()
    return 0 if info(owner, name, ctypes.sizeof(found), ctypes.byref(found), None) else found.value


def text_property(info: Any, owner: int, name: int) -> bytes:
    """Return a textual property of an object, by a ``clGet...Info`` function."""
    length = ctypes.c_size_t()
    info(owner, name, 0, None, ctypes.byref(length))
    found = ctypes.create_string_buffer(length.value + 1)
    info(owner, name, length.value, found, None)
    return found.value
