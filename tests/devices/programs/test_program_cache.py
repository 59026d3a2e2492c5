# SPDX-License-Identifier: Apache-2.0
"""The disk cache of compiled programs: reuse by the next process, and rejection of damaged files."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from syclsched import oneapi, processor_flags
from syclsched.devices.memory import usm_memory
from syclsched.devices.native.memory_range import MemoryRange
from syclsched.devices.programs import program_cache, programs, task_compiler
from syclsched.devices.programs.bounded_cache import BoundedCache
from syclsched.devices.programs.program_cache import ProgramCache, key_of
from syclsched.model.access import AccessMode
from syclsched.model.operation import (
    DeviceLimits,
    Implementation,
    Launch,
    OpenCLSource,
    Operation,
    Parameter,
    Signature,
    Work,
)

LIMITS = DeviceLimits(max_work_group_size=64, compute_units=1, local_memory_bytes=1 << 15)

#: Runs a step of a stencil by a Python kernel and by OpenCL C; prints what was compiled, whether a compiler of Python
#: kernels was imported, and the result.
RUN = """
import json, logging, sys
from dataclasses import replace
compiled = []
class Collect(logging.Handler):
    def emit(self, record):
        compiled.append(record.getMessage())
logging.getLogger("syclsched").addHandler(Collect())
logging.getLogger("syclsched").setLevel(logging.DEBUG)
import numpy as np
import syclsched as s
from syclsched.kernels.stencil import HEAT_STEP
platform = s.discover("cpu").select(["cpu"])  # not that of another runtime, too
del compiled[:]
dtype, shape = sys.argv[1], (5, 7)
rng = np.random.default_rng(0)
found = []
for name in ("python", "opencl-c"):
    step = replace(HEAT_STEP, implementations=(HEAT_STEP.implementation(name),))
    graph = s.TaskGraph("step")
    given = {k: rng.random(shape).astype(dtype) for k in ("center", "north", "south", "west", "east")}
    out = graph.array("out", shape, dtype)
    graph.kernel(step, out=out, coefficient=0.25, **{k: graph.array(k, data=v) for k, v in given.items()})
    with s.run(graph, platform=platform, policy="single:cpu") as run:
        found.append(run.result("out").tobytes().hex())
imported = bool({"numba_dpex", "syclsched.kernel_compiler.compilation"} & {*sys.modules})
print(json.dumps([[m for m in compiled if m.startswith("compiling")], imported, found]))
"""


class KernelProcess:
    """A process that runs `RUN`."""

    def __init__(self, folder: Path, dtype: str = "float32") -> None:
        environment = {
            **os.environ,
            "XDG_CACHE_HOME": str(folder / "cache"),
            "XDG_DATA_HOME": str(folder / "data"),
            "SYCLSCHED_FPGA_EMULATOR": "0",
            program_cache.VARIABLE: "1",
        }
        self._process = subprocess.Popen(
            [sys.executable, "-c", RUN, dtype], env=environment, stdout=subprocess.PIPE, text=True
        )

    def outcome(self) -> tuple[list[str], bool, list[str]]:
        """Return the compiled programs, whether a compiler of Python kernels was imported, and the results."""
        said, _ = self._process.communicate()
        assert self._process.returncode == 0
        compiled, imported, results = json.loads(said.splitlines()[-1])
        return compiled, imported, results


@pytest.mark.sycl
def test_the_next_process_compiles_nothing_and_computes_the_same(tmp_path: Path) -> None:
    at_once = [KernelProcess(tmp_path), KernelProcess(tmp_path)]
    (compiled, imported, results), other = (each.outcome() for each in at_once)
    assert imported or other[1]
    assert any("Python kernel by" in each for each in [*compiled, *other[0]])
    assert any("heat_step for" in each for each in [*compiled, *other[0]])
    assert other[2] == results
    assert KernelProcess(tmp_path).outcome() == ([], False, results)
    compiled, imported, _ = KernelProcess(tmp_path, dtype="float64").outcome()
    assert imported
    assert len(compiled) == 3  # the Python kernel, its SPIR-V, and OpenCL C


# --- files in the folder ------------------------------------------------------------------------------


@pytest.fixture
def queue(cpu: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A queue, with a cache folder for the test."""
    import dpctl

    monkeypatch.setenv(program_cache.VARIABLE, "1")

    return dpctl.SyclQueue(dpctl.SyclContext(cpu), cpu, property="in_order")


@pytest.fixture
def compiled(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str]]:
    """Compile kernels as a new process would, run them, and return the names of compiled programs."""
    caplog.set_level(logging.DEBUG, "syclsched")

    def run(queue: Any, *factors: str, options: str = "") -> list[str]:
        monkeypatch.setattr(programs, "_PROGRAMS", BoundedCache(100))
        monkeypatch.setattr(task_compiler, "_EXECUTABLES", BoundedCache(100))
        caplog.clear()
        for executable, factor in zip(
            task_compiler.compile_tasks([piece(queue, factor, options) for factor in factors]), factors, strict=True
        ):
            buffer = usm_memory.allocate(queue, 20, "shared")
            executable.bind({"y": MemoryRange.around(buffer).usm_array((5,), "float32", queue)}).submit(
                queue, []
            ).wait()
            wanted = np.exp(np.arange(5, dtype="float32")) * np.float32(factor.rstrip("f"))
            np.testing.assert_allclose(usm_memory.as_numpy(buffer, (5,), "float32"), wanted, rtol=1e-6)
        return [each for each in caplog.messages if each.startswith("compiling")]

    return run


def piece(queue: Any, factor: str, options: str) -> task_compiler.CompileRequest:
    source = f"__kernel void k(__global float *y) {{ y[get_global_id(0)] = {factor} * exp((float)get_global_id(0)); }}"
    implementation = Implementation(
        "cl", "opencl-c", lambda _: OpenCLSource(source, "k", options), lambda s, _: Launch((5,))
    )
    operation = Operation(
        f"times {factor}", (Parameter("y", AccessMode.WRITE),), (implementation,), lambda _: Work(1, 1)
    )
    return task_compiler.CompileRequest(
        operation, implementation, Signature({"y": (5,)}, {"y": "float32"}), queue, LIMITS
    )


def entries() -> list[Path]:
    """Return the files in the cache folder."""
    cache = program_cache.program_cache()
    assert cache is not None
    return sorted(cache.folder.iterdir()) if cache.folder.exists() else []


@pytest.mark.sycl
def test_a_program_is_compiled_for_each_source_and_options(queue: Any, compiled: Callable[..., list[str]]) -> None:
    assert len(compiled(queue, "2.0f")) == 1
    assert compiled(queue, "2.0f") == []
    assert len(compiled(queue, "3.0f")) == 1
    assert len(compiled(queue, "2.0f", options="-cl-denorms-are-zero")) == 1
    assert compiled(queue, "3.0f") == compiled(queue, "2.0f") == []


@pytest.mark.sycl
def test_a_program_for_one_device_of_several_in_a_context(
    cpu: Any, queue: Any, compiled: Callable[..., list[str]]
) -> None:
    import dpctl

    try:
        halves = cpu.create_sub_devices(partition=1)[:2]
    except dpctl.SyclSubDeviceCreationError:
        pytest.skip("the CPU has a single compute unit")
    context = dpctl.SyclContext(halves)
    first, second = (dpctl.SyclQueue(context, each, property="in_order") for each in halves)
    assert len(compiled(second, "2.0f")) == 1
    if not entries():
        pytest.skip(f"the driver of {cpu.name!r} gives no binary of a sub-device's program")
    assert compiled(second, "2.0f") == compiled(first, "2.0f") == []


@pytest.mark.sycl
def test_cached_parts_are_found_in_any_combination(queue: Any, compiled: Callable[..., list[str]]) -> None:
    assert len(compiled(queue, "1.0f", "2.0f", "3.0f")) == 1
    assert compiled(queue, "3.0f") == []
    assert compiled(queue, "2.0f", "1.0f") == []
    assert len(compiled(queue, "4.0f", "2.0f")) == 1


@pytest.mark.sycl
@pytest.mark.parametrize("whole", [1, 3])
@pytest.mark.parametrize(
    "damage",
    [
        lambda stored: b"",
        lambda stored: stored[:40],
        lambda stored: stored[:-1],
        lambda stored: stored[:60] + bytes([stored[60] ^ 1]) + stored[61:],
        lambda stored: resealed(b"program\n" + b"not a program " * 100),
        lambda stored: resealed(b"part somewhere else\n"),
        lambda stored: resealed(b""),
    ],
    ids=["empty", "begun", "cut", "changed", "nonsense", "lost", "nothing"],
)
def test_a_damaged_program_is_compiled_anew(
    queue: Any, compiled: Callable[..., list[str]], damage: Callable[[bytes], bytes], whole: int
) -> None:
    factors = [f"{number}.0f" for number in range(1, whole + 1)]
    assert len(compiled(queue, *factors)) == 1
    for path in entries():
        path.write_bytes(damage(path.read_bytes()))
    assert len(compiled(queue, *factors)) == 1
    assert compiled(queue, *factors) == []


def resealed(content: bytes) -> bytes:
    """Return a file with a valid checksum and other content."""
    return hashlib.sha256(content).digest() + content


@pytest.mark.sycl
def test_folders_writable_by_others_are_not_used(
    queue: Any, compiled: Callable[..., list[str]], caplog: pytest.LogCaptureFixture
) -> None:
    compiled(queue, "2.0f")
    before = entries()
    before[0].parent.chmod(0o777)
    program_cache._cache_at.cache_clear()
    assert len(compiled(queue, "2.0f")) == 1
    assert any("can be written to by everyone" in each for each in caplog.messages)
    assert len(compiled(queue, "3.0f")) == 1
    assert entries() == before


@pytest.mark.sycl
def test_the_cache_can_be_switched_off(
    queue: Any, compiled: Callable[..., list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled(queue, "2.0f")
    monkeypatch.setenv(program_cache.VARIABLE, "0")
    assert len(compiled(queue, "2.0f")) == 1


@pytest.mark.sycl
def test_a_driver_without_binaries_compiles_in_every_process(
    queue: Any, compiled: Callable[..., list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("syclsched.devices.backends.opencl.load_programs", lambda: None)
    assert len(compiled(queue, "2.0f")) == 1
    assert len(compiled(queue, "2.0f")) == 1


# --- keys and bounds ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class MadeUpDevice:
    """The facts of a made-up device that programs depend on."""

    name: str = "a device"
    vendor: str = "a vendor"
    driver_version: str = "1.0"
    backend: Any = None
    device_type: Any = None
    sycl_platform: Any = None


def test_key_changes_with_everything_it_depends_on(monkeypatch: pytest.MonkeyPatch) -> None:
    runtime = SimpleNamespace(boot_environment={"CL_CONFIG_CPU_TARGET_ARCH": "skx"}, versions={"numba": "1"})
    device = MadeUpDevice(backend=kind("opencl"), device_type=kind("cpu"), sycl_platform=kind("Intel(R) OpenCL"))

    def key(
        device: MadeUpDevice = device, *, flags: str = "avx2", changes: dict[str, Any] | None = None, code: str = "a"
    ) -> str:
        program_cache._code_inputs_text.cache_clear()
        monkeypatch.setattr(processor_flags, "read_flags", lambda: frozenset(flags.split()))
        monkeypatch.setattr(oneapi, "load", lambda: SimpleNamespace(**{**vars(runtime), **(changes or {})}))
        return key_of(device, code)

    keys = [
        key(),
        key(code="b"),
        key(replace(device, driver_version="1.1")),
        key(replace(device, name="another")),
        key(replace(device, device_type=kind("gpu"))),
        key(flags="avx2 avx512f"),
        key(changes={"boot_environment": {"CL_CONFIG_CPU_TARGET_ARCH": "core-avx2"}}),
        key(changes={"versions": {"numba": "2"}}),
    ]
    assert len(set(keys)) == len(keys)
    assert key() == keys[0]
    of_pocl = {"boot_environment": {**runtime.boot_environment, "POCL_WORK_GROUP_METHOD": "cbs"}}
    assert key(changes=of_pocl) == keys[0]
    pocl = replace(device, sycl_platform=kind("Portable Computing Language"))
    assert key(pocl, changes=of_pocl) != key(pocl)
    program_cache._code_inputs_text.cache_clear()


def kind(name: str) -> Any:
    @dataclass(frozen=True)
    class Named:
        name: str

    return Named(name)


def test_the_oldest_are_removed_when_the_folder_is_full(tmp_path: Path) -> None:
    cache = ProgramCache(tmp_path / "programs", limit_bytes=10_000)
    for number in range(20):
        cache.write(f"{number:064}", bytes(1000))
        os.utime(cache.folder / f"{number:064}", (number, number))
    left = sorted(int(each.name) for each in cache.folder.iterdir())
    assert sum(each.stat().st_size for each in cache.folder.iterdir()) <= 10_000
    assert left == list(range(left[0], 20))
    assert len(left) >= 4


def test_recently_used_programs_are_kept_longer(tmp_path: Path) -> None:
    cache = ProgramCache(tmp_path / "programs", limit_bytes=10_000)
    for number in range(9):
        cache.write(f"{number:064}", bytes(1000))
        os.utime(cache.folder / f"{number:064}", (number, number))
    assert cache.read("0" * 64) == bytes(1000)
    other = ProgramCache(tmp_path / "programs", limit_bytes=10_000)
    other.write("f" * 64, bytes(1000))
    assert other.read("0" * 64) == bytes(1000)
    assert other.read(f"{1:064}") is None


def test_programs_larger_than_the_limit_are_not_kept(tmp_path: Path) -> None:
    cache = ProgramCache(tmp_path / "programs", limit_bytes=1000)
    cache.write("a" * 64, bytes(2000))
    assert cache.read("a" * 64) is None
    assert list(cache.folder.iterdir()) == []


def test_temporary_files_of_dead_processes_are_removed(tmp_path: Path) -> None:
    cache = ProgramCache(tmp_path / "programs")
    cache.folder.mkdir(mode=0o700)
    left = cache.folder / ".left.tmp"
    left.write_bytes(b"half")
    os.utime(left, (0, 0))
    cache.write("a" * 64, b"whole")
    assert [each.name for each in cache.folder.iterdir()] == ["a" * 64]
