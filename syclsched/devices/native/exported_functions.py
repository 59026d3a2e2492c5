# SPDX-License-Identifier: Apache-2.0
"""Addresses of the C functions that extension modules made by Cython export."""

from __future__ import annotations

import ctypes
from typing import Any

_name_of = ctypes.pythonapi.PyCapsule_GetName
_name_of.restype, _name_of.argtypes = ctypes.c_char_p, [ctypes.py_object]
_address_of = ctypes.pythonapi.PyCapsule_GetPointer
_address_of.restype, _address_of.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]


def exported_address(module: Any, function: str) -> int:
    """Return the address of a function; raise `KeyError` if the module does not export it."""
    capsule = module.__pyx_capi__[function]
    return int(_address_of(capsule, _name_of(capsule)))
