# SPDX-License-Identifier: Apache-2.0
"""Exported C functions of extension modules that are loaded without their packages."""

from __future__ import annotations

import subprocess
import sys

import pytest

from syclsched.devices.native.exported_functions import exported_address, extension_module

ALONE = """
import sys
from syclsched.devices.native.exported_functions import exported_address, extension_module

alone = {name: extension_module("scipy.linalg", name) for name in ("cython_blas", "cython_lapack")}
assert "scipy.linalg" not in sys.modules
assert extension_module("scipy.linalg", "cython_blas") is alone["cython_blas"]
addresses = [exported_address(alone["cython_blas"], "dgemm"), exported_address(alone["cython_lapack"], "dpotrf")]
import scipy.linalg.cython_blas, scipy.linalg.cython_lapack
own = scipy.linalg.cython_blas, scipy.linalg.cython_lapack
assert addresses == [exported_address(own[0], "dgemm"), exported_address(own[1], "dpotrf")]
assert abs(scipy.linalg.cholesky([[4.0]])[0, 0] - 2.0) < 1e-12
"""


def test_module_loaded_alone_is_imported_with_package_later() -> None:
    subprocess.run([sys.executable, "-W", "error", "-c", ALONE], check=True)


def test_the_module_of_an_imported_package_is_the_packages_own() -> None:
    import scipy.linalg.cython_blas

    extension_module.cache_clear()
    found = extension_module("scipy.linalg", "cython_blas")
    assert found is scipy.linalg.cython_blas
    assert exported_address(found, "dgemm") != exported_address(found, "sgemm")


@pytest.mark.parametrize("package", ["scipy.linalg", "no_such_package.linalg"])
def test_a_missing_module_is_an_import_error(package: str) -> None:
    with pytest.raises(ImportError, match="no_such_"):
        extension_module(package, "no_such_module")
