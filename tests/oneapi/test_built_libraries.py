# SPDX-License-Identifier: Apache-2.0
"""The OpenCL layer, driven through a dispatch table like the loader's."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from syclsched.oneapi import built_libraries

# Places in the dispatch table, as cl_khr_icd publishes them, counted independently of the C file.
GET_DEVICE_INFO, GET_CONTEXT_INFO, GET_EXTENSION, CREATE_WITH_IL, LOADER_SLOTS = 3, 8, 107, 138, 149
SUCCESS, INVALID_VALUE, INVALID_OPERATION = 0, -30, -59
CONTEXT, DEVICE, PLATFORM, PROGRAM = 0x10, 0x20, 0x30, 0x40

VOID, SIZE, UINT = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_uint
INT_POINTER = ctypes.POINTER(ctypes.c_int)
CREATE = ctypes.CFUNCTYPE(VOID, VOID, VOID, SIZE, INT_POINTER)
GET_INFO = ctypes.CFUNCTYPE(ctypes.c_int, VOID, UINT, SIZE, VOID, ctypes.POINTER(SIZE))
EXTENSION = ctypes.CFUNCTYPE(VOID, VOID, ctypes.c_char_p)


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """Build the layer with every warning an error, and load it."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    source = Path(built_libraries.__file__).parent / "_il_layer.c"
    built = tmp_path_factory.mktemp("layer") / "layer.so"
    flags = ["-O2", "-fPIC", "-shared", "-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Werror"]
    ended = subprocess.run(
        [compiler, *flags, "-o", str(built), str(source)], capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr
    return ctypes.CDLL(str(built))


class Loader:
    """A loader whose driver answers clCreateProgramWithIL as set, and records the calls."""

    def __init__(self, answer: int, extension_answer: int | None) -> None:
        self.calls: list[str] = []
        self.keep: list[Any] = []
        self.table = (VOID * LOADER_SLOTS)()
        self._put(CREATE_WITH_IL, CREATE(self._create("IL", answer)))
        self._put(GET_CONTEXT_INFO, GET_INFO(self._info(0x1081, DEVICE)))
        self._put(GET_DEVICE_INFO, GET_INFO(self._info(0x1031, PLATFORM)))
        khr = None if extension_answer is None else CREATE(self._create("ILKHR", extension_answer))
        self.keep.append(khr)
        self._put(GET_EXTENSION, EXTENSION(self._extension(khr)))

    def _put(self, slot: int, function: Any) -> None:
        self.keep.append(function)
        self.table[slot] = ctypes.cast(function, VOID)

    def _create(self, name: str, answer: int) -> Callable[..., int | None]:
        def create(context: int, il: int, length: int, error: Any) -> int | None:
            assert (context, ctypes.string_at(il, length)) == (CONTEXT, b"spir-v")
            self.calls.append(name)
            error[0] = answer
            return PROGRAM if answer == SUCCESS else None

        return create

    def _info(self, wanted: int, value: int) -> Callable[..., int]:
        def info(_: int, name: int, size: int, out: int | None, size_ret: Any) -> int:
            assert name == wanted
            if out:
                assert size == ctypes.sizeof(VOID)
                ctypes.cast(out, ctypes.POINTER(VOID))[0] = value
            if size_ret:
                size_ret[0] = ctypes.sizeof(VOID)
            return SUCCESS

        return info

    def _extension(self, khr: Any) -> Callable[..., int | None]:
        def extension(platform: int, name: bytes) -> int | None:
            assert (platform, name) == (PLATFORM, b"clCreateProgramWithILKHR")
            return ctypes.cast(khr, VOID).value if khr is not None else None

        return extension

    def create_through(self, library: ctypes.CDLL, error: Any) -> int | None:
        """Initialise the layer on this table and call clCreateProgramWithIL through it."""
        entries, dispatch = UINT(), ctypes.POINTER(VOID)()
        assert library.clInitLayer(LOADER_SLOTS, self.table, ctypes.byref(entries), ctypes.byref(dispatch)) == SUCCESS
        assert entries.value == CREATE_WITH_IL + 1
        assert [slot for slot in range(entries.value) if dispatch[slot]] == [CREATE_WITH_IL]
        return ctypes.cast(dispatch[CREATE_WITH_IL], CREATE)(CONTEXT, ctypes.cast(b"spir-v", VOID), 6, error)


@pytest.mark.parametrize(
    ("answer", "extension", "calls", "program", "error"),
    [
        (SUCCESS, SUCCESS, ["IL"], PROGRAM, SUCCESS),
        (INVALID_OPERATION, SUCCESS, ["IL", "ILKHR"], PROGRAM, SUCCESS),
        (INVALID_OPERATION, INVALID_VALUE, ["IL", "ILKHR"], None, INVALID_VALUE),
        (INVALID_OPERATION, None, ["IL"], None, INVALID_OPERATION),
        (INVALID_VALUE, SUCCESS, ["IL"], None, INVALID_VALUE),
    ],
    ids=["accepted", "refused then taken", "refused twice", "no extension", "another error is passed on"],
)
def test_only_refusals_are_retried(
    library: ctypes.CDLL, answer: int, extension: int | None, calls: list[str], program: int | None, error: int
) -> None:
    loader = Loader(answer, extension)
    status = ctypes.c_int(1)
    assert loader.create_through(library, ctypes.pointer(status)) == program
    assert status.value == error
    assert loader.calls == calls


def test_the_caller_need_not_take_the_error(library: ctypes.CDLL) -> None:
    assert Loader(INVALID_OPERATION, SUCCESS).create_through(library, None) == PROGRAM


def test_the_layer_reports_its_interface_version(library: ctypes.CDLL) -> None:
    version, size = UINT(), SIZE()
    assert library.clGetLayerInfo(0x4240, SIZE(4), ctypes.byref(version), ctypes.byref(size)) == SUCCESS
    assert (version.value, size.value) == (100, 4)
    assert library.clGetLayerInfo(0x4240, SIZE(2), ctypes.byref(version), None) == INVALID_VALUE
    assert library.clGetLayerInfo(0x1234, SIZE(4), ctypes.byref(version), None) == INVALID_VALUE


def test_a_loader_without_opencl_2_1_is_declined(library: ctypes.CDLL) -> None:
    entries, dispatch = UINT(), ctypes.POINTER(VOID)()
    table = (VOID * CREATE_WITH_IL)()
    result = library.clInitLayer(CREATE_WITH_IL, table, ctypes.byref(entries), ctypes.byref(dispatch))
    assert result == INVALID_VALUE


def test_the_layer_built_by_another_python_is_found(tmp_path: Path) -> None:
    assert built_libraries.find_layer(tmp_path) is None
    (tmp_path / "_il_layer.c").write_text("")
    (tmp_path / "_il_layer.cpython-39-x86_64-linux-gnu.so").write_bytes(b"")
    assert built_libraries.find_layer(tmp_path) == str(tmp_path / "_il_layer.cpython-39-x86_64-linux-gnu.so")
