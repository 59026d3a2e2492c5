# SPDX-License-Identifier: Apache-2.0
"""The compilers of Python kernels, as test parameters; numba-dpex only where it is available."""

from __future__ import annotations

import pytest

from syclsched.devices.programs.python_kernels.python_compiler import numba_dpex_can_be_used

#: Mark of tests of numba-dpex itself, or of both compilers compared.
needs_numba_dpex = pytest.mark.skipif(
    not numba_dpex_can_be_used(), reason="numba-dpex is not of this installation's generation"
)

COMPILERS = ["own", pytest.param("numba-dpex", marks=needs_numba_dpex)]
