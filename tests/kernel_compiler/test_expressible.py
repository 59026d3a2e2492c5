# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from syclsched.kernel_compiler.target.expressible import obstacle

_HEAD = "define spir_kernel void @f(ptr addrspace(1) %.1, i64 %.39.i313) {\nB30.i:\n"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (_HEAD + "  %x.i65 = add nuw i64 %.39.i313, 1\n  ret void\n}\n", None),
        (
            _HEAD + "  %x = phi float [ 1.0, %B30.i ]\n  ret void\n}\ndeclare spir_func i64 @_Z13get_global_idj(i32)",
            None,
        ),
        ("declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)\ndeclare double @llvm.fabs.f64(double)\n", None),
        ("@constants = internal addrspace(2) constant [1 x i64] [i64 1]\n", None),
        ("@memory = internal addrspace(3) global i32 undef\n", None),
        (_HEAD + "  %x = trunc i64 %.39.i313 to i63\n", "63 bits"),
        (_HEAD + "  %x = phi [2 x i64] [ zeroinitializer, %B30.i ]\n", "tuples"),
        (_HEAD + "  %x = select i1 %c, { i64, i64 } %a, { i64, i64 } %b\n", "tuples"),
        ("define internal spir_func i32 @g(i64 %x) {\n", "calls itself"),
        ("declare ptr @NRT_Allocate(i64)", "memory allocated"),
        ("declare double @sin(double)", "host function sin"),
        ("declare float @llvm.exp10.f32(float)", "llvm.exp10"),
        ("@state = internal global i64 0\n", "global variable"),
    ],
)
def test_obstacles(text: str, found: str | None) -> None:
    needed = obstacle(text, "f")
    assert (needed is None) == (found is None)
    if found is not None:
        assert needed is not None
        assert found in needed
