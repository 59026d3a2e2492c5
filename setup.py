# SPDX-License-Identifier: Apache-2.0
"""The things pyproject.toml cannot say: requirements by generation, top-level packages, C parts, and machine code."""

import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from setuptools import Extension, find_packages, setup
from setuptools.command.build_ext import build_ext
from setuptools.errors import CompileError

ROOT = Path(__file__).resolve().parent

sys.path.insert(0, str(ROOT / "tools" / "build_backend"))
import generation_backend  # noqa: E402
import machine_code_builds  # noqa: E402

NUMBA = machine_code_builds.numba_version(generation_backend.required_numba())


class MachineCode(Extension):
    """Extension module of machine code for one instruction set."""

    def __init__(self, level):
        self.level = level
        name = machine_code_builds.module_name(level, NUMBA)
        super().__init__(
            f"syclsched.compiled.{name}",
            ["syclsched/compiled/_machine_code.c"],
            define_macros=[("MODULE_NAME", name), ("MADE_FROM", machine_code_builds.made_from(NUMBA))],
            extra_compile_args=["-O2", "-fvisibility=hidden"],
            extra_link_args=["-pthread"],
            libraries=["m"],
            language="c",
            optional=True,
        )


class BuildExtensions(build_ext):
    """The build of the C parts and of the machine code."""

    objects = None

    def build_extension(self, ext):
        if isinstance(ext, MachineCode):
            # An editable installation has the module already, unless something has changed.
            kept = machine_code_builds.kept(ext.level, NUMBA)
            target = Path(self.get_ext_fullpath(ext.name)).resolve()
            if kept is not None:
                if kept != target:
                    target.parent.mkdir(parents=True, exist_ok=True)
                    shutil.copyfile(kept, target)
                return
            self.prepare(ext)
        super().build_extension(ext)

    def prepare(self, ext):
        """Compile the functions for all instruction sets, in processes, and add what the module is linked from."""
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
        ext.depends = [*ext.depends, *ext.extra_objects]  # else a module that is newer than the sources stays

    def object_files(self):
        folder = Path(self.build_temp).resolve() / "machine_code"
        folder.mkdir(parents=True, exist_ok=True)
        asked = ",".join(each.level for each in self.extensions if isinstance(each, MachineCode))
        print("making machine code: one to three minutes of processor time", flush=True)
        command = (sys.executable, machine_code_builds.TOOLS / "build.py", folder, "--levels", asked, "--shares", "4")
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, sys.path)])}

        def compile_share(share):
            return subprocess.run([*command, "--share", str(share)], cwd=ROOT, env=environment, check=False).returncode

        with ThreadPoolExecutor(max(2, os.cpu_count() or 1)) as pool:
            failed = any(list(pool.map(compile_share, range(4))))
        if failed:
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
                    "_submit_helpers",
                    "_submit_opencl",
                    "_submit_perform",
                    "_submit_spread",
                    "_submit_threads",
                    "_submit_trials",
                )
            ],
            depends=["syclsched/devices/native/_submit.h", "syclsched/devices/native/_submit_flight.h"],
            extra_compile_args=["-O2", "-Wall", "-Wextra", "-pthread"],
            extra_link_args=["-pthread"],
            optional=True,
        ),
        # Without it numba compiles the functions on first use.
        *(MachineCode(level) for level in machine_code_builds.levels_to_build()),
    ],
)
