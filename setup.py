# SPDX-License-Identifier: Apache-2.0
"""The one thing pyproject.toml cannot say: packages at the top level of the tree, and the C parts."""

from setuptools import Extension, find_packages, setup

setup(
    packages=["syclsched", "syclsched.device_profiles"]
    + [f"syclsched.{name}" for name in find_packages("syclsched")]
    + ["syclsched.kernels"]
    + [f"syclsched.kernels.{name}" for name in find_packages("kernels")],
    ext_modules=[
        # Not a Python module: a plain shared object the OpenCL loader opens. Without a C compiler the
        # package installs all the same; `python -m syclsched doctor` says what is missing then.
        Extension(
            "syclsched.oneapi._il_layer",
            ["syclsched/oneapi/_il_layer.c"],
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
    ],
)
