# SPDX-License-Identifier: Apache-2.0
"""Calls of OpenCL's functions on vectors as wide as the processor's registers."""

from __future__ import annotations

import re

import pytest
from llvmlite import binding as llvm

from syclsched.kernel_compiler.lowering import load_all
from syclsched.kernel_compiler.target import spirv
from syclsched.kernel_compiler.target.vector_calls import split_vector_calls

MODULE = """
declare spir_func <16 x float> @_Z3fmaDv16_fS_S_(<16 x float>, <16 x float>, <16 x float>)
declare spir_func <4 x double> @_Z4fabsDv4_d(<4 x double>)
declare <16 x i32> @llvm.smax.v16i32(<16 x i32>, <16 x i32>)
declare <16 x i32> @llvm.abs.v16i32(<16 x i32>, i1 immarg)
declare <3 x float> @_Z4fabsDv3_f(<3 x float>)

define <16 x float> @kernel(<16 x float> %a, <16 x i32> %b, <4 x double> %c, <3 x float> %d) {
  %f = call spir_func <16 x float> @_Z3fmaDv16_fS_S_(<16 x float> %a, <16 x float> %a, <16 x float> %a)
  %m = call <16 x i32> @llvm.smax.v16i32(<16 x i32> %b, <16 x i32> %b)
  %n = call <16 x i32> @llvm.abs.v16i32(<16 x i32> %m, i1 true)
  %v = bitcast <16 x i32> %n to <16 x float>
  %s = fadd <16 x float> %f, %v
  ret <16 x float> %s
}
"""


@pytest.fixture(autouse=True)
def _compiler() -> None:
    spirv.is_built_in()
    load_all()


def calls(module: object) -> list[str]:
    """Return the names of the called functions."""
    return sorted(re.findall(r"call [^@\n]*@\"?([\w.]+)", str(module)))


@pytest.mark.parametrize("bits, lanes", [(128, 4), (256, 8)])
def test_wide_vectors_are_passed_in_parts(bits: int, lanes: int) -> None:
    module = split_vector_calls(llvm.parse_assembly(MODULE), "kernel", bits)
    parts = 16 // lanes
    assert calls(module) == sorted(
        [f"_Z3fmaDv{lanes}_fS_S_"] * parts + [f"llvm.smax.v{lanes}i32"] * parts + [f"llvm.abs.v{lanes}i32"] * parts
    )
    module.verify()


def test_others_are_left_as_they_are() -> None:
    module = llvm.parse_assembly(MODULE)
    assert split_vector_calls(module, "kernel", None) is module
    assert split_vector_calls(module, "kernel", 512) is module
