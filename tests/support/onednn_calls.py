# SPDX-License-Identifier: Apache-2.0
"""A minimal operation by oneDNN's C API: y = beta + alpha * y, called from C or from Python."""

from __future__ import annotations

import ctypes
import importlib.metadata
from functools import lru_cache
from typing import Any

import pytest

from syclsched.model.access import AccessMode
from syclsched.model.operation import Implementation, NativeCall, Operation, Parameter, Signature, Work

_POINTER = ctypes.c_void_p
_FORWARD_INFERENCE, _LINEAR, _F32, _A, _USM, _IN_ORDER = 96, 0x26, 3, 2, 0, 1
_SRC, _DST = 1, 17


class _Argument(ctypes.Structure):
    _fields_ = [("argument", ctypes.c_int), ("memory", _POINTER)]


#: Skips a test where oneDNN cannot run on the CPU device, by the fixture of this name.
needs_onednn = pytest.mark.usefixtures("onednn_on_cpu")


@lru_cache(maxsize=1)
def library() -> Any:
    """Return oneDNN; the SYCL runtime is loaded."""
    files = importlib.metadata.files("onednn") or ()
    return ctypes.CDLL(next(str(file.locate()) for file in files if file.name == "libdnnl.so.3"))


def _check(status: int) -> None:
    assert status == 0, status


def _made(function: str, *arguments: Any) -> Any:
    made = _POINTER()
    _check(getattr(library(), function)(ctypes.byref(made), *arguments))
    return made


@lru_cache(maxsize=8)
def _engine(device: Any, context: Any) -> Any:
    pointers = _POINTER(device.addressof_ref()), _POINTER(context.addressof_ref())
    return _made("dnnl_sycl_interop_engine_create", *pointers)


class Linear:
    """The executable that ``load`` returns: y = beta + alpha * y in place."""

    def __init__(self, size: int, alpha: float, beta: float, *, gives_event: bool) -> None:
        self._size, self._alpha, self._beta, self._gives_event = size, alpha, beta, gives_event
        self.calls = 0

    def native(self, queue: Any, arguments: Any) -> NativeCall:
        """Return the call of the primitive on a queue."""
        self.calls += 1
        engine = _engine(queue.sycl_device, queue.sycl_context)
        stream = _made("dnnl_sycl_interop_stream_create", engine, _POINTER(queue.addressof_ref()))
        shape = (ctypes.c_int64 * 12)(self._size)
        layout = _made("dnnl_memory_desc_create_with_tag", 1, shape, _F32, _A)
        described = _made(
            "dnnl_eltwise_forward_primitive_desc_create", engine, _FORWARD_INFERENCE, _LINEAR, layout, layout,
            ctypes.c_float(self._alpha), ctypes.c_float(self._beta), None,
        )  # fmt: skip
        primitive = _made("dnnl_primitive_create", described)
        pointer = _POINTER(arguments["y"].usm_data._pointer)
        memory = _made("dnnl_sycl_interop_memory_create", layout, engine, _USM, pointer)
        passed = (_Argument * 2)(_Argument(_SRC, memory), _Argument(_DST, memory))
        loaded = library()
        if not self._gives_event:
            words = (primitive.value, stream.value, 2, ctypes.addressof(passed))
            return NativeCall(_address(loaded.dnnl_primitive_execute), words, (passed, arguments))
        words = (primitive.value, stream.value, 2, ctypes.addressof(passed), 0, 0)
        return NativeCall(_address(loaded.dnnl_sycl_interop_primitive_execute), words, (passed, arguments), event=5)

    def __call__(self, queue: Any, arguments: Any, depends: list[Any]) -> Any:
        """Submit from Python."""
        if depends:
            queue.submit_barrier(depends)
        call = self.native(queue, arguments)
        self.calls -= 1
        passed = [_POINTER(word) for word in call.arguments[:2]]
        _check(library().dnnl_primitive_execute(*passed, 2, _POINTER(call.arguments[3])))
        return queue.submit_barrier()


def _address(function: Any) -> int:
    return ctypes.cast(function, _POINTER).value or 0


def _host(y: Any, alpha: float, beta: float) -> None:
    y[...] = beta + alpha * y


def linear(*, gives_event: bool = True) -> Operation:
    """Return the operation: y = beta + alpha * y."""

    def load(signature: Signature) -> Linear:
        (size,) = signature.shapes["y"]
        return Linear(size, signature.scalars["alpha"], signature.scalars["beta"], gives_event=gives_event)

    return Operation(
        "linear",
        (
            Parameter("y", AccessMode.UPDATE, ndim=1, dtypes=("float32",)),
            Parameter("alpha", dtype="float32"),
            Parameter("beta", dtype="float32"),
        ),
        (Implementation("onednn", "library", load), Implementation("host", "host", lambda _: _host)),
        lambda _: Work(1e3, 1e3, "float32"),
    )
