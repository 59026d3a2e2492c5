# SPDX-License-Identifier: Apache-2.0
"""Programs combined from several sources: the declarations found, and the sources that must stay separate."""

from __future__ import annotations

import pytest

from syclsched.devices.programs.combined_source import combined_source, program_part, suffix
from syclsched.model.operation import OpenCLSource

KERNEL = "__kernel void k(__global T *x, const int n) { for (int i = 0; i < n; i++) { x[i] = 1; } }\n"

PLAIN = (
    """
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#define TWICE(a) ((a) + \\
                  (a))
#define VECTORS __attribute__((vec_type_hint(float16)))
typedef double T; // typedef int wrong;
typedef struct { T a, b; } pair;
struct tagged { int c; };
/* int wrong(int); */
__constant float table[2] __attribute__((aligned(8))) = {1, 2};
float promised(float x);
static inline pair helper(pair p, int (*q)[3]) { int local_[3] = {1, 2, 3}; return p; }
__attribute__((reqd_work_group_size(1, 1, 1))) kernel VECTORS void other(__global int *x) { x[0] = ')'; }
"""
    + KERNEL
)


def test_declarations_of_a_program_are_found_in_its_text() -> None:
    part = program_part(OpenCLSource(PLAIN, "k", "-w"))
    assert part is not None
    assert part.names == ("T", "pair", "tagged", "table", "promised", "helper", "other", "k")
    assert part.macros == ("TWICE", "VECTORS")
    assert part.setting == ("-w", "OPENCL EXTENSION cl_khr_fp64 : enable")


def test_every_name_and_macro_ends_with_its_part() -> None:
    part = program_part(OpenCLSource(PLAIN, "k"))
    assert part is not None
    text = combined_source([part, part])
    assert text.count(PLAIN) == 2
    for name in part.names:
        for number in range(2):
            assert f"#define {name} {name}{suffix(number)}\n" in text
        assert text.count(f"#undef {name}\n") == 2
    assert all(text.count(f"#undef {name}\n") == 2 for name in part.macros)


@pytest.mark.parametrize(
    "text",
    [
        "#ifdef A\n#endif\n" + KERNEL,
        "#include <a.h>\n" + KERNEL,
        "#undef A\n" + KERNEL,
        "int f(int a) { return a; }\n#pragma OPENCL FP_CONTRACT OFF\n" + KERNEL,
        "#pragma clang diagnostic push\n" + KERNEL,
        "#define k(a) a\n" + KERNEL,
        "#define DEFINE(f) void f(int a) {}\nDEFINE(g)\n" + KERNEL,
        "enum { A, B };\n" + KERNEL,
        "__constant int a = 1, b = 2;\n" + KERNEL,
        "struct s f(int a) { }\n" + KERNEL,
        "int k_of_part_1(int a) { return a; }\n" + KERNEL,
        KERNEL.replace("k(", "another("),
        KERNEL[:-3],
        KERNEL + "}",
        KERNEL.replace("n;", "n];"),
    ],
)
def test_programs_with_unusual_text_stay_separate(text: str) -> None:
    assert program_part(OpenCLSource(text, "k")) is None
