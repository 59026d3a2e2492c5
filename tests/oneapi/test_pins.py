# SPDX-License-Identifier: Apache-2.0
"""The install commands, and that the pins are those of the package's own metadata."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from syclsched.oneapi.pins import PINS, install_command, shipped_by


def test_a_command_pins_what_has_a_pin_and_holds_numpy_back() -> None:
    assert install_command(("dpctl", "rich")) == 'python -m pip install "dpctl==0.17.0" "rich" "numpy<2"'


def test_every_library_leads_to_a_pinned_distribution() -> None:
    names = ("libintlc.so.5", "libsycl.so.7", "libpi_opencl.so", "libmkl_sycl_vm.so.4", "libmkl_core.so.2", "libtbb.so")
    assert {name: shipped_by(name) for name in names} == {
        "libintlc.so.5": "intel-cmplr-lib-rt",
        "libsycl.so.7": "intel-sycl-rt",
        "libpi_opencl.so": "intel-sycl-rt",
        "libmkl_sycl_vm.so.4": "onemkl-sycl-vm",
        "libmkl_core.so.2": "mkl",
        "libtbb.so": "tbb",
    }
    assert shipped_by("libc.so.6") is None


def test_the_pins_agree_with_the_projects_dependencies() -> None:
    project = Path(__file__).parents[2] / "pyproject.toml"
    if not project.exists():
        pytest.skip("not run from a source tree")
    declared = dict(re.findall(r'^\s*"([\w-]+)==([\d.]+)"', project.read_text(encoding="utf-8"), re.MULTILINE))
    common = declared.keys() & PINS.keys()
    assert {"dpctl", "numba-dpex", "dpnp", "intel-opencl-rt"} <= common
    assert {name: declared[name] for name in common} == {name: PINS[name] for name in common}
