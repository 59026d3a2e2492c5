# SPDX-License-Identifier: Apache-2.0
"""A device of type GPU with memory of its own, for tests on a machine without one.

An OpenCL layer (`gpu_shape.c`, compiled here) shows the devices of one platform so. The option ``--gpu-shape`` of
pytest sets it up for a whole run, and for the processes that tests start.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import MutableMapping
from importlib import metadata
from pathlib import Path
from typing import Final

from syclsched.oneapi import emulator, libraries
from syclsched.oneapi.environment import LAYERS_VARIABLE, VENDORS_VARIABLE, appended

#: Part of the name of the platform whose devices are shown as GPUs, or of its driver's path; the layer reads it.
PLATFORM_VARIABLE: Final = "SYCLSCHED_TEST_GPU_SHAPE"
#: The FPGA emulator where there is one, else a second CPU device.
AUTO: Final = "auto"
#: The part of its name that tells the FPGA emulator from other platforms.
_EMULATOR: Final = "FPGA"
#: The name of a copy of the CPU driver, which the loader takes for another driver.
_COPY: Final = "libintelocl_gpu_shape.so"
_SOURCE: Final = Path(__file__).with_suffix(".c")
_HEADERS: Final = Path(__file__).parents[2] / "syclsched" / "oneapi"

#: The name, on platforms, of the device that is not the CPU device.
OTHER_DEVICE: Final = "gpu" if PLATFORM_VARIABLE in os.environ else "accelerator"


def build_layer(folder: Path) -> Path:
    """Compile the layer into a folder."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    assert compiler is not None, "a C compiler is needed"
    library = folder / "gpu_shape.so"
    options = ("-shared", "-fPIC", "-O2", "-Wall", "-Wextra", "-Werror", "-pthread", f"-I{_HEADERS}")
    subprocess.run([compiler, *options, "-o", str(library), str(_SOURCE)], check=True)
    return library


def show_as_gpu(environ: MutableMapping[str, str], platform: str, folder: Path) -> None:
    """Set the variables by which processes show the devices of a platform as GPUs, unless they are set already."""
    if platform == AUTO:
        platform = _EMULATOR if emulator.supported(metadata.version("intel-opencl-rt")) else _COPY
    if environ.get(PLATFORM_VARIABLE) != platform:
        if platform == _COPY:
            environ[VENDORS_VARIABLE] = str(_copied_driver(folder, environ))
        environ[LAYERS_VARIABLE] = appended(environ.get(LAYERS_VARIABLE), str(build_layer(folder)))
        environ[PLATFORM_VARIABLE] = platform


def _copied_driver(folder: Path, environ: MutableMapping[str, str]) -> Path:
    """Copy the CPU driver, with links to the files it reads; return a folder of vendor files that names the copy."""
    found = libraries.find_library(libraries.CPU_ICD_LIBRARY, libraries.sources(environ))
    assert found is not None, "the OpenCL CPU runtime is needed"
    driver = Path(found)
    shutil.copyfile(driver, folder / _COPY)
    for pattern in ("cl*", "*ocl_svml_*", "libcommon_clang*"):
        for companion in driver.parent.glob(pattern):
            (folder / companion.name).symlink_to(companion)
    vendors = folder / "vendors"
    vendors.mkdir()
    (vendors / "gpu_shape.icd").write_text(f"{folder / _COPY}\n", encoding="utf-8")
    return vendors
