# SPDX-License-Identifier: Apache-2.0
"""Memory released after a compilation: only pages equal to their file, which read the same afterwards."""

from __future__ import annotations

import ctypes
import mmap
import re
from pathlib import Path

import numpy as np
import pytest

import syclsched
from syclsched.execution.replay.plan_instance import PlanInstance
from syclsched.onnx import model_build
from syclsched.onnx.freed_memory import LEAST_BYTES, give_back

_SIZE = 2 * LEAST_BYTES
_PAGE = mmap.PAGESIZE


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Return a file of numbered pages."""
    path = tmp_path / "library"
    path.write_bytes(b"".join(number.to_bytes(_PAGE, "little") for number in range(_SIZE // _PAGE)))
    return path


class _Mapping:
    """A private mapping of a file, all of whose pages have been read."""

    def __init__(self, path: Path, protection: int = mmap.PROT_READ) -> None:
        self._c = ctypes.CDLL(None)
        self._c.mmap.restype = ctypes.c_void_p
        self._c.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
        with path.open("rb") as opened:
            self.address = self._c.mmap(None, _SIZE, protection, mmap.MAP_PRIVATE, opened.fileno(), 0)
        assert self.content() == path.read_bytes()

    def __enter__(self) -> _Mapping:
        return self

    def __exit__(self, *_: object) -> None:
        self._c.munmap(ctypes.c_void_p(self.address), ctypes.c_size_t(_SIZE))

    def content(self) -> bytes:
        return ctypes.string_at(self.address, _SIZE)

    def write(self, content: bytes) -> None:
        ctypes.memmove(self.address, content, len(content))

    def protect(self) -> None:
        assert not self._c.mprotect(ctypes.c_void_p(self.address), ctypes.c_size_t(_SIZE), mmap.PROT_READ)

    def resident_kib(self) -> int:
        start = f"^{self.address:x}-.*\n(?:\\w+: .*\n)*?Rss: +(\\d+) kB$"
        found = re.search(start, Path("/proc/self/smaps").read_text(), re.MULTILINE)
        assert found is not None
        return int(found.group(1))


@pytest.mark.sycl
def test_chains_are_built_before_memory_is_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    onnx = pytest.importorskip("onnx", reason="the model is an ONNX model")
    done, build = list[str](), PlanInstance.build_chains

    def built(self: PlanInstance) -> None:
        if self._chains:
            done.append("chains")
        build(self)

    monkeypatch.setattr(PlanInstance, "build_chains", built)
    monkeypatch.setattr(model_build, "give_back", lambda **_: done.append("memory"))
    declared = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [4, 4]) for name in "xy"]
    nodes = [onnx.helper.make_node("CumSum", ["x", "zero"], ["s"]), onnx.helper.make_node("Exp", ["s"], ["y"])]
    zero = onnx.numpy_helper.from_array(np.array(0), "zero")
    model = onnx.helper.make_model(onnx.helper.make_graph(nodes, "sums", declared[:1], declared[1:], [zero]))
    with syclsched.compile(model, devices="cpu", autotune=False) as compiled:
        x = np.arange(16, dtype=np.float32).reshape(4, 4) / 16
        np.testing.assert_allclose(compiled(x)["y"], np.exp(x.cumsum(0)), rtol=1e-5)
    assert done == ["chains", "memory"]


def test_pages_of_a_file_are_released_on_request_and_read_equal(file: Path) -> None:
    with _Mapping(file) as mapping:
        give_back(library_pages=False)
        assert mapping.resident_kib() > 0
        give_back(library_pages=True)
        assert mapping.resident_kib() == 0
        assert mapping.content() == file.read_bytes()


def test_changed_or_writable_pages_are_kept(file: Path) -> None:
    with _Mapping(file, mmap.PROT_READ | mmap.PROT_WRITE) as mapping:
        give_back(library_pages=True)
        assert mapping.resident_kib() > 0
        mapping.write(b"changed")
        mapping.protect()  # as the linker protects relocated data
        give_back(library_pages=True)
        assert mapping.resident_kib() > 0
        assert mapping.content()[:7] == b"changed"


def test_pages_are_kept_if_mappings_cannot_be_read(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: Path) -> bytes:
        raise PermissionError

    with _Mapping(file) as mapping:
        with monkeypatch.context() as hidden:
            hidden.setattr(Path, "read_bytes", refuse)
            give_back(library_pages=True)
        assert mapping.resident_kib() > 0
