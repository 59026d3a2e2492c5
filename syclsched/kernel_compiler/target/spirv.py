# SPDX-License-Identifier: Apache-2.0
"""SPIR-V from LLVM modules: by llvmlite where its LLVM has that target (0.50), else by the installed translator."""

from __future__ import annotations

import os
import subprocess
import tempfile
from functools import lru_cache
from typing import Any, Final

from llvmlite import binding as llvm

from syclsched.errors import RuntimeMissingError
from syclsched.kernel_compiler.target import emission, emission_server

_LAYOUT: Final = "e-i64:64-v16:16-v24:32-v32:32-v48:64-v96:128-v192:256-v256:256-v512:512-v1024:1024-n8:16:32:64"
#: Capabilities beyond the version of SPIR-V, for kernels whose options say that the device has them.
_OPTIONS: Final = "--spirv-ext=+SPV_EXT_shader_atomic_float_add,+SPV_EXT_shader_atomic_float_min_max"


@lru_cache(maxsize=1)
def is_built_in() -> bool:
    """Return whether llvmlite's LLVM makes SPIR-V."""
    if not hasattr(llvm, "create_pass_builder"):
        llvm.initialize()
        return False
    emission_server.initialise(_OPTIONS)
    try:
        llvm.Target.from_triple("spirv64-unknown-unknown")
    except RuntimeError:
        return False
    return True


def triple(version: str = "") -> str:
    """Return LLVM's name of the target."""
    return f"spirv64{version and 'v' + version}-unknown-unknown" if is_built_in() else "spir64-unknown-unknown"


def target_machine() -> Any:
    """Return a new machine of LLVM's; it is for one module, of which it keeps pointers."""
    return llvm.Target.from_triple(triple()).create_target_machine(opt=2)


def prepare() -> None:
    """Start the server that emits SPIR-V: it is ready when the first module is."""
    if is_built_in():
        emission.EmissionProcess.start(_OPTIONS)


@lru_cache(maxsize=1)
def data_layout() -> str:
    """Return the layout of data on the target."""
    return str(target_machine().target_data) if is_built_in() else _LAYOUT


def emit(module: Any, version: str) -> bytes:
    """Return a module as SPIR-V of at most a version."""
    if is_built_in():
        return emission.emit(module, triple(version), _OPTIONS)
    return _translate(module.as_bitcode(), version)


def _translate(bitcode: bytes, version: str) -> bytes:
    try:
        from dpcpp_llvm_spirv import get_llvm_spirv_path
    except ImportError as error:
        raise RuntimeMissingError(
            "neither llvmlite nor another installed package makes SPIR-V",
            hint="Install llvmlite >= 0.50, or dpcpp-llvm-spirv",
        ) from error
    with tempfile.TemporaryDirectory(prefix="syclsched-") as folder:
        source, result = os.path.join(folder, "kernel.bc"), os.path.join(folder, "kernel.spv")
        with open(source, "wb") as file:
            file.write(bitcode)
        command = [get_llvm_spirv_path(), f"--spirv-max-version={version}", "-o", result, source]
        command += [_OPTIONS]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"llvm-spirv refuses the kernel: {done.stderr.strip()[-2000:]}")
        with open(result, "rb") as file:
            return file.read()
