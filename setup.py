# SPDX-License-Identifier: Apache-2.0
"""The things pyproject.toml cannot say: requirements by generation, top-level packages, C parts, and machine code."""

import hashlib
import importlib.metadata
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from contextlib import suppress
from pathlib import Path

from setuptools import Extension, find_packages, setup
from setuptools.command.build_ext import build_ext
from setuptools.errors import CompileError

ROOT = Path(__file__).resolve().parent
COMPILED = ROOT / "syclsched" / "compiled"
TOOLS = ROOT / "tools" / "machine_code"

sys.path.insert(0, str(ROOT / "tools" / "build_backend"))
import generation_backend  # noqa: E402

# The module itself, not its package, which needs NumPy; it imports from syclsched.
sys.path.insert(0, str(ROOT))
_spec = importlib.util.spec_from_file_location("_syclsched_machine_code", COMPILED / "machine_code.py")
machine_code = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(machine_code)
LEVELS, STEM, VARIABLE = machine_code.LEVELS, machine_code.stem(), machine_code.VARIABLE


def levels_to_build():
    """Return the instruction sets to make machine code for."""
    asked = os.environ.get(VARIABLE, "")
    if asked == "off":
        return []
    if asked:
        unknown = set(asked.split(",")) - set(LEVELS)
        if unknown:
            sys.exit(f"{VARIABLE} has {', '.join(sorted(unknown))}; known are {', '.join(LEVELS)}, and off")
        return asked.split(",")
    # The functions do little with long vectors: v4 gains nothing, and machines share folders and images.
    return [level for level in machine_code.processor_levels() if level != "v4"][-1:]


class MachineCode(Extension):
    """Extension module of machine code for one instruction set."""

    def __init__(self, level):
        self.level = level
        super().__init__(
            f"syclsched.compiled.{STEM}{level}",
            ["syclsched/compiled/_machine_code.c"],
            define_macros=[("MODULE_NAME", f"{STEM}{level}"), ("MADE_FROM", made_from())],
            extra_compile_args=["-O2", "-fvisibility=hidden"],
            extra_link_args=["-pthread"],
            libraries=["m"],
            language="c",
            optional=True,
        )


def made_from():
    """Return a digest of all that machine code depends on."""
    digest = hashlib.sha256(sys.version.encode())
    for name in ("numba", "llvmlite", "numpy"):
        with suppress(importlib.metadata.PackageNotFoundError):
            digest.update(importlib.metadata.version(name).encode())
    for path in sorted((ROOT / "syclsched").rglob("*.py")):
        content = path.read_bytes()
        if path.parent == COMPILED or re.search(rb"@compiled|@lean|@inlined|NamedTuple", content):
            digest.update(content)
    for path in (COMPILED / "_machine_code.c", *sorted(TOOLS.glob("*.py")), TOOLS / "argument_types.json"):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:32]


class BuildExtensions(build_ext):
    """The build of the C parts and of the machine code."""

    objects = None

    def build_extension(self, ext):
        if isinstance(ext, MachineCode):
            # An editable installation has the module already, unless something has changed.
            kept = COMPILED / f"{STEM}{ext.level}{sysconfig.get_config_var('EXT_SUFFIX')}"
            target = Path(self.get_ext_fullpath(ext.name)).resolve()
            if kept.is_file() and made_from().encode() in kept.read_bytes():
                if kept != target:
                    target.parent.mkdir(parents=True, exist_ok=True)
                    shutil.copyfile(kept, target)
                return
            self.prepare(ext)
        super().build_extension(ext)

    def prepare(self, ext):
        """Compile the functions for all instruction sets, in two processes, and add what the module is linked from."""
        try:
            import numba
            import numpy
        except ImportError as error:
            raise CompileError(f"numba is needed to make machine code: {error}") from error
        numba_folder = Path(numba.__file__).parent
        ext.include_dirs += [str(numba_folder), numpy.get_include()]
        ext.sources = [*ext.sources, str(numba_folder / "core" / "runtime" / "nrt.cpp")]
        if BuildExtensions.objects is None:
            BuildExtensions.objects = self.object_files()
        ext.extra_objects = [path for path in self.objects if f"_{ext.level}_" in os.path.basename(path)]

    def object_files(self):
        folder = Path(self.build_temp).resolve() / "machine_code"
        folder.mkdir(parents=True, exist_ok=True)
        asked = ",".join(each.level for each in self.extensions if isinstance(each, MachineCode))
        print("making machine code: about a minute of processor time", flush=True)
        command = (sys.executable, TOOLS / "build.py", folder, "--levels", asked, "--shares", "2")
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, sys.path)])}
        running = [subprocess.Popen([*command, "--share", str(share)], cwd=ROOT, env=environment) for share in range(2)]
        if sum(abs(each.wait()) for each in running):
            raise CompileError("numba could not compile the functions; the messages above say why")
        return sorted(str(path) for path in folder.glob("*.o"))


setup(
    install_requires=generation_backend.dependencies(),
    extras_require=generation_backend.extras(),
    packages=["syclsched", "syclsched.device_profiles"]
    + [f"syclsched.{name}" for name in find_packages("syclsched")]
    + ["syclsched.kernels"]
    + [f"syclsched.kernels.{name}" for name in find_packages("kernels")],
    cmdclass={"build_ext": BuildExtensions},
    ext_modules=[
        # Not a Python module: a plain shared object the OpenCL loader opens. Without a C compiler the
        # package installs all the same; `python -m syclsched doctor` says what is missing then.
        Extension(
            "syclsched.oneapi._il_layer",
            ["syclsched/oneapi/_il_layer.c"],
            depends=["syclsched/oneapi/_opencl_layer.h"],
            extra_compile_args=["-O2", "-Wall", "-Wextra"],
            optional=True,
        ),
        # Not a Python module either: called through ctypes. Without it no device can be opened.
        Extension(
            "syclsched.devices.native._submit",
            [
                f"syclsched/devices/native/{name}.c"
                for name in (
                    "_submit",
                    "_submit_apart",
                    "_submit_arrays",
                    "_submit_dpctl",
                    "_submit_flight",
                    "_submit_opencl",
                    "_submit_perform",
                    "_submit_spread",
                    "_submit_threads",
                )
            ],
            depends=["syclsched/devices/native/_submit.h"],
            extra_compile_args=["-O2", "-Wall", "-Wextra", "-pthread"],
            extra_link_args=["-pthread"],
            optional=True,
        ),
        # Without it numba compiles the functions on first use.
        *(MachineCode(level) for level in levels_to_build()),
    ],
)
