# SPDX-License-Identifier: Apache-2.0
"""Kernels that do the work of several launches: built from plain kernels, refused where results could change."""

from __future__ import annotations

import pytest

from syclsched.devices.programs.joined_launches import joined_source
from syclsched.model.operation import OpenCLSource

PLAIN = """
#define REAL double
// __kernel void axpy(int wrong) {}
__kernel void other(__global REAL *x) { x[0] = 1; }
__kernel void axpy(__global REAL *restrict y, __global const REAL *x,
                   const REAL a /* the factor, not b */, long2 n) {
    size_t i = get_global_id(0) + get_global_id(1) * get_global_size( 0 );
    y[i] += a * x[i];
}
"""


def test_takes_the_arguments_of_all_launches_in_order() -> None:
    joined = joined_source(OpenCLSource(PLAIN, "axpy", "-DN=3"), 3)
    assert joined is not None
    assert joined.options == "-DN=3"
    assert joined.source.startswith(PLAIN)
    made = " ".join(joined.source[len(PLAIN) :].split())
    assert f"__kernel void {joined.kernel_name}(" in made
    for n in range(3):
        assert f"y_{n}" in made
    each = ", ".join(f"launch == 0 ? {p}_0 : launch == 1 ? {p}_1 : {p}_2" for p in "yxan")
    assert f"axpy({each});" in made
    assert "const REAL a_2" in made
    assert "long2 n_0" in made


def test_other_kernels_of_the_program_are_unchanged() -> None:
    joined = joined_source(OpenCLSource(PLAIN, "other"), 2)
    assert joined is not None
    assert "other(launch == 0 ? x_0 : x_1);" in joined.source


def test_hints_to_the_compiler_are_kept() -> None:
    hint = "__attribute__((vec_type_hint(float8)))"
    joined = joined_source(
        OpenCLSource(f"#define WHOLE {hint}\nWHOLE __kernel void k(__global int *x) {{ *x = 1; }}", "k"), 2
    )
    assert joined is not None
    assert f"WHOLE __kernel void {joined.kernel_name}(" in joined.source


@pytest.mark.parametrize(
    "body",
    [
        "__local int shared[4]; x[0] = shared[0];",
        "x[get_global_id(2)] = 1;",
        "x[get_global_id(d)] = 1;",
        "x[get_group_id( 2 )] = 1;",
        "x[get_work_dim()] = 1;",
        "barrier(CLK_GLOBAL_MEM_FENCE); x[0] = 1;",
        "x[0] = work_group_reduce_add(d);",
        "x[0] = sub_group_reduce_add(d);",
        "x[get_global_linear_id()] = 1;",
        "x[get_global_offset(0)] = 1;",
        'printf("%d", x[0]);',
    ],
)
def test_kernels_that_depend_on_their_launch_are_not_joined(body: str) -> None:
    plain = f"__kernel void k(__global int *x, int d) {{ {body} }}"
    assert joined_source(OpenCLSource(plain, "k"), 2) is None


@pytest.mark.parametrize(
    "source",
    [
        "__kernel void k(__local int *x) {}",
        "__attribute__((reqd_work_group_size(1, 1, 1))) __kernel void k(__global int *x) {}",
        "__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void k(__global int *x) {}",
        "#define ARGS __global int *x\n__kernel void k(ARGS) {}",
        "__kernel void k() {}",
        "__kernel void another(__global int *x) {}",
        "#if A\n__kernel void k(__global int *x) {}\n#else\n__kernel void k(__global float *x) {}\n#endif",
    ],
)
def test_parameters_that_are_not_plain_are_not_guessed(source: str) -> None:
    assert joined_source(OpenCLSource(source, "k"), 2) is None
