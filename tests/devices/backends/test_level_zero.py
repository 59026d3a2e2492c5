# SPDX-License-Identifier: Apache-2.0
"""Compilation of OpenCL C for Level Zero; ``programs/test_programs.py`` runs its kernels."""

from __future__ import annotations

import pytest

from syclsched.devices.backends import level_zero
from syclsched.errors import CapabilityError
from syclsched.model.operation import OpenCLSource


def test_a_missing_compiler_error_names_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    from syclsched.oneapi import libraries

    monkeypatch.setattr(libraries, "sources", lambda environ: ())
    level_zero._compiler.cache_clear()
    with pytest.raises(CapabilityError, match="intel-opencl-rt"):
        level_zero.spirv_of(OpenCLSource("", "k"))
    level_zero._compiler.cache_clear()
