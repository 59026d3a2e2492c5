# SPDX-License-Identifier: Apache-2.0
"""Packs of kernels: one process writes its compiled kernels to a pack, and a later process loads them from it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

#: Runs a kernel; prints its result, and whether anything was compiled. The kernel ``other`` has no key.
PROGRAM = """
import sys
from syclsched import oneapi
oneapi.load()
import dpnp
from syclsched import dpex
factor = {factor}
@dpex.kernel(compiler="own")
def scale(item, x, f):
    x[item.get_id(0)] *= f * factor
x = dpnp.ones(5, dtype=sys.argv[1], device="cpu")
dpex.call_kernel(scale, dpex.Range(5), x, 3)
print(float(x.sum()), "numba" in sys.modules)
"""

pytestmark = pytest.mark.sycl


class Shell:
    """Processes with folders of their own that make and use a pack."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.pack = folder / "my.pack"
        folders = {"XDG_DATA_HOME": str(folder / "data"), "XDG_CACHE_HOME": str(folder / "cache")}
        self.environment = {**os.environ, **folders, "SYCLSCHED_PROGRAM_CACHE": "0", "SYCLSCHED_FPGA_EMULATOR": "0"}

    def program(self, factor: int = 2) -> Path:
        """Write the program."""
        path = self.folder / "program.py"
        path.write_text(PROGRAM.format(factor=factor))
        return path

    def run(self, *arguments: str, packs: bool = False) -> subprocess.CompletedProcess[str]:
        """Run Python, with the pack if ``packs`` is true."""
        named = {"SYCLSCHED_KERNEL_PACKS": str(self.pack)} if packs else {}
        return subprocess.run(
            [sys.executable, *arguments], env={**self.environment, **named}, capture_output=True, text=True, check=False
        )

    def kernels(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a command of ``syclsched kernels``."""
        return self.run("-m", "syclsched", "kernels", *arguments)


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


def test_a_process_with_the_pack_compiles_nothing(shell: Shell) -> None:
    program = str(shell.program())
    built = shell.kernels("build", program, "--out", str(shell.pack), "--", "float32")
    assert built.returncode == 0, built.stderr
    assert "30.0 True" in built.stdout
    assert f"1 kernel written to {shell.pack}" in " ".join(built.stderr.split())
    assert "bytes  scale_kernel" in shell.kernels("show", str(shell.pack)).stdout
    assert shell.run(program, "float32").stdout.strip() == "30.0 True"
    assert shell.run(program, "float32", packs=True).stdout.strip() == "30.0 False"
    # Other types, and another constant, make another kernel.
    assert shell.run(program, "float64", packs=True).stdout.strip() == "30.0 True"
    assert shell.run(str(shell.program(factor=3)), "float32", packs=True).stdout.strip() == "45.0 True"


def test_the_kernels_of_a_ready_graph_are_packed(shell: Shell) -> None:
    built = shell.kernels("build", "stencil", "--out", str(shell.pack))
    assert built.returncode == 0, built.stderr
    assert "heat_step" in shell.kernels("show", str(shell.pack)).stdout


def test_mistakes_are_named(shell: Shell) -> None:
    out = ("--out", str(shell.pack))
    failing, empty = shell.folder / "failing.py", shell.folder / "empty.py"
    failing.write_text("raise ValueError('mine')\n")
    empty.write_text("print('nothing')\n")
    for arguments, code, said in (
        (("nowhere.py", *out), 2, "no such file"),
        ((str(failing), *out), 1, "ValueError: mine"),
        ((str(empty), *out), 2, "no Python kernel that can be packed"),
        (("stencil", *out, "--", "float32"), 2, "only a program takes arguments"),
    ):
        ended = shell.kernels("build", *arguments)
        assert (ended.returncode, said in ended.stderr) == (code, True), ended.stderr
    assert not shell.pack.exists()
    shell.pack.write_text(json.dumps({"format": 1, "python": "2.7", "kernels": {}}))
    assert "it is for Python 2.7" in shell.kernels("show", str(shell.pack)).stderr
    assert "it is for Python 2.7" in shell.run(str(shell.program()), "float32", packs=True).stderr
