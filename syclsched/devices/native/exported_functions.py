# SPDX-License-Identifier: Apache-2.0
"""Addresses of the C functions that extension modules made by Cython export."""

from __future__ import annotations

import ctypes
import importlib
import importlib.machinery
import importlib.util
import os
import sys
import threading
from functools import cache
from typing import Any

from syclsched.library_threads import LIBRARY_THREADS

_name_of = ctypes.pythonapi.PyCapsule_GetName
_name_of.restype, _name_of.argtypes = ctypes.c_char_p, [ctypes.py_object]
_address_of = ctypes.pythonapi.PyCapsule_GetPointer
_address_of.restype, _address_of.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]

_loading = threading.Lock()


@cache
def extension_module(package: str, name: str) -> Any:
    """Return an extension module of a subpackage, such as ``scipy.linalg``, without importing the subpackage.

    That would import some hundred modules of which nothing is called here.
    """
    full = f"{package}.{name}"
    with _loading:
        if package in sys.modules:
            return importlib.import_module(full)
        root, *folders = package.split(".")
        found = importlib.util.find_spec(root)
        places = [] if found is None else found.submodule_search_locations or []
        spec = importlib.machinery.PathFinder.find_spec(full, [os.path.join(place, *folders) for place in places])
        if spec is None or spec.loader is None:
            return importlib.import_module(full)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        # Cython registers the module. A later import must do so itself, as it also sets the package's attribute.
        sys.modules.pop(full, None)
        LIBRARY_THREADS.expect_library()
    return module


def exported_address(module: Any, function: str) -> int:
    """Return the address of a function; raise `KeyError` if the module does not export it."""
    capsule = module.__pyx_capi__[function]
    return int(_address_of(capsule, _name_of(capsule)))
