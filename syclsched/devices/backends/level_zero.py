# SPDX-License-Identifier: Apache-2.0
"""Level Zero: its devices accept no source, so that OpenCL C is compiled to SPIR-V first.

The OpenCL CPU runtime, which comes with the SYCL runtime's packages, has its compiler in a separate library, the one
that Intel's GPU drivers use, too. Its ``Compile`` is called as declared in opencl-clang's ``common_clang.h``
(https://github.com/intel/opencl-clang).
"""

from __future__ import annotations

import ctypes
import os
import threading
from functools import cache
from typing import Any

from syclsched.devices.backends.sycl import Backend
from syclsched.devices.native.sycl_types import SyclQueue
from syclsched.errors import CapabilityError, ProgramBuildError
from syclsched.model.operation import OpenCLSource, SpirvModule

_LIBRARY = "libcommon_clang.so*"
#: The device's own compiler checks which of these the device has.
_EXTENSIONS = ("cl_khr_fp64", "cl_khr_fp16", "cl_khr_int64_base_atomics", "cl_khr_int64_extended_atomics")
#: The library adds an action of its own unless some option begins with ``-emit``, before it looks for ``-emit-spirv``
#: where it belongs, and the Clang of 2026 refuses two actions. The end of a source's name (``-s``) is such an option.
_OPTIONS = "-cl-std=CL1.2 -s source/-emit-spirv.cl"
_MORE = f"-emit-spirv -D__OPENCL_C_VERSION__=120 -cl-ext={','.join(f'+{name}' for name in _EXTENSIONS)}"
_VERSION = b"120"
#: Indices of a result's methods in its virtual table: the first members of ``IOCLFEBinaryResult``.
_SIZE, _CODE, _LOG, _RELEASE = 0, 1, 4, 5
_LOCK = threading.Lock()


class LevelZero(Backend):
    """The backend of Intel GPUs."""

    def build(self, code: OpenCLSource | SpirvModule, queue: SyclQueue) -> Any:
        """Return a program built from OpenCL C or SPIR-V."""
        return super().build(spirv_of(code) if isinstance(code, OpenCLSource) else code, queue)


def spirv_of(code: OpenCLSource) -> SpirvModule:
    """Compile OpenCL C to SPIR-V; thread-safe."""
    compile_ = _compiler()
    found = ctypes.c_void_p()
    options = f"{_OPTIONS} {code.options}".encode()
    with _LOCK:
        status = compile_(
            code.source.encode(), None, 0, None, None, 0, options, _MORE.encode(), _VERSION, ctypes.byref(found)
        )
        if not found.value:
            raise CapabilityError(f"the compiler of OpenCL C gives up with status {status}")
        try:
            made = ctypes.string_at(_call(found, _CODE, ctypes.c_void_p), _call(found, _SIZE, ctypes.c_size_t))
            log = _call(found, _LOG, ctypes.c_char_p) or b""
        finally:
            _call(found, _RELEASE, None)
    if status:
        raise ProgramBuildError(f"the compiler refuses the OpenCL C: {log.decode(errors='replace').strip()}")
    return SpirvModule(made, code.kernel_name)


@cache
def _compiler() -> Any:
    from syclsched.oneapi.libraries import sources

    places = (source.find(_LIBRARY) for source in sources(os.environ))
    path = next((place[0] for place in places if place is not None), None)
    if path is None:
        raise CapabilityError(
            f"there is no {_LIBRARY}, which makes SPIR-V of OpenCL C", hint="Install the package intel-opencl-rt"
        )
    function = ctypes.CDLL(path).Compile
    function.restype = ctypes.c_int
    text, texts = ctypes.c_char_p, ctypes.POINTER(ctypes.c_char_p)
    function.argtypes = (
        *(text, texts, ctypes.c_uint, texts, text, ctypes.c_size_t, text, text, text),
        ctypes.POINTER(ctypes.c_void_p),
    )
    return function


def _call(result: ctypes.c_void_p, place: int, kind: Any) -> Any:
    """Call a method without parameters of a C++ object."""
    table = ctypes.cast(result, ctypes.POINTER(ctypes.POINTER(ctypes.c_void_p))).contents
    return ctypes.CFUNCTYPE(kind, ctypes.c_void_p)(table[place])(result)
