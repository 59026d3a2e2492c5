# SPDX-License-Identifier: Apache-2.0
"""Discovery and loading of oneDNN's SYCL build as pip installs it, with a matching SYCL runtime loaded first."""

from __future__ import annotations

import ctypes
import mmap
import os
import re
import threading
from collections.abc import Callable
from typing import Any, Final

from syclsched.errors import CapabilityError

#: The pip distribution and its shared library.
DISTRIBUTION: Final = "onednn"
LIBRARY: Final = "libdnnl.so.3"
_INSTALL: Final = "pip install 'syclsched[onnx]' installs it; without it other implementations are taken"


_lock = threading.Lock()
_loaded: DnnlLibrary | None = None


class DnnlLibrary:
    """The loaded library; its functions release the GIL."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._functions = ctypes.CDLL(path)
        self._functions.dnnl_primitive_desc_query_md.restype = ctypes.c_void_p
        self._functions.dnnl_memory_desc_get_size.restype = ctypes.c_size_t
        self._functions.dnnl_memory_desc_get_size.argtypes = [ctypes.c_void_p]
        for name in (
            "primitive_desc",
            "primitive",
            "memory",
            "memory_desc",
            "engine",
            "stream",
            "primitive_attr",
            "post_ops",
        ):
            destroy = getattr(self._functions, f"dnnl_{name}_destroy")
            destroy.argtypes = [ctypes.c_void_p]
        if "ONEDNN_VERBOSE" not in os.environ and "DNNL_VERBOSE" not in os.environ:
            # By default oneDNN prints refusals to stdout; callers get them as errors.
            self._functions.dnnl_set_verbose(0)

    def __getattr__(self, name: str) -> Any:
        """Return a function of the library."""
        return getattr(self._functions, name)

    def instruction_set(self) -> str:
        """Return the newest instruction set in use, such as ``avx2``; ``ONEDNN_MAX_CPU_ISA`` limits it."""
        self._functions.dnnl_cpu_isa2str.restype = ctypes.c_char_p
        name: bytes = self._functions.dnnl_cpu_isa2str(self._functions.dnnl_get_effective_cpu_isa())
        return name.decode().removeprefix("cpu_isa_")

    def address(self, name: str) -> int:
        """Return the address of a function of the library."""
        address = ctypes.cast(getattr(self._functions, name), ctypes.c_void_p).value
        assert address is not None
        return address


def load() -> DnnlLibrary:
    """Load the SYCL runtime, then oneDNN; later calls return the loaded library."""
    global _loaded
    with _lock:
        if _loaded is None:
            from syclsched import oneapi

            oneapi.load()
            _loaded = _open(find())
        return _loaded


def find(locate: Callable[[], str | None] | None = None) -> str:
    """Return the path of the library."""
    path = (locate or _locate)()
    if path is None:
        raise CapabilityError(f"{LIBRARY} is not there", where="oneDNN", hint=_INSTALL)
    return path


def _locate() -> str | None:
    from syclsched.oneapi.libraries import distribution_source, find_library, sources

    return find_library(LIBRARY, (distribution_source((DISTRIBUTION,)), *sources(os.environ)))


def needed_runtime(path: str) -> str | None:
    """Return the SYCL library that a library is linked against, from its string table; None if there is none."""
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as view:
        found = re.search(rb"\0(libsycl\.so\.\d+)\0", view)
        return found.group(1).decode() if found else None


def _open(path: str) -> DnnlLibrary:
    from syclsched.oneapi.libraries import loaded_path

    needed = needed_runtime(path)
    if needed is None:
        raise CapabilityError(
            f"{path} is no SYCL build", where="oneDNN", hint="The distribution onednn-cpu-* is another one"
        )
    runtime = loaded_path("libsycl.so")
    if runtime is not None and not os.path.basename(os.path.realpath(runtime)).startswith(needed):
        # A second SYCL runtime crashes the process.
        raise CapabilityError(
            f"{path} needs {needed}, and {os.path.basename(runtime)} is loaded", where="oneDNN", hint=_INSTALL
        )
    try:
        return DnnlLibrary(path)
    except (OSError, AttributeError) as error:
        raise CapabilityError(f"it cannot be loaded: {error}", where="oneDNN") from error
