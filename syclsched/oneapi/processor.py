# SPDX-License-Identifier: Apache-2.0
"""Selection of the instruction set that the OpenCL CPU runtime compiles for, from the processor's flags.

A CPU runtime without support for the host processor (one newer than itself) guesses and generates wrong vector code
without an error. Setting ``CL_CONFIG_CPU_TARGET_ARCH`` before the runtime is loaded avoids the guess.
"""

from __future__ import annotations

TARGET_ARCH_VARIABLE = "CL_CONFIG_CPU_TARGET_ARCH"

_AVX2_SET = frozenset(("avx2", "bmi1", "bmi2", "fma", "f16c", "movbe", "abm"))

#: The runtime's names of instruction sets, best first, with the ``/proc/cpuinfo`` flags they require: those of the
#: compiler's ``-march=`` of the same name, without flags that only operating systems use.
_REQUIRED_FLAGS: tuple[tuple[str, frozenset[str]], ...] = (
    ("skx", _AVX2_SET | {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}),
    ("core-avx2", _AVX2_SET),
    ("corei7-avx", frozenset(("avx", "sse4_1", "sse4_2", "popcnt"))),
)

#: Instruction sets as they are usually named, older ones first, with the ``/proc/cpuinfo`` flags they require.
_INSTRUCTION_SETS: tuple[tuple[str, frozenset[str]], ...] = (
    ("SSE4.2", frozenset(("sse4_2",))),
    ("AVX", frozenset(("avx",))),
    ("FMA", frozenset(("fma",))),
    ("AVX2", frozenset(("avx2",))),
    ("AVX-VNNI", frozenset(("avx_vnni",))),
    ("AVX-512", frozenset(("avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"))),
    ("AVX-512 VNNI", frozenset(("avx512f", "avx512_vnni"))),
    ("AVX-512 BF16", frozenset(("avx512f", "avx512_bf16"))),
    ("AVX-512 FP16", frozenset(("avx512f", "avx512_fp16"))),
    ("AMX", frozenset(("amx_tile",))),
)

#: Names that the CPU runtime of the pinned generation accepts.
KNOWN_ARCHITECTURES = (*(name for name, _ in _REQUIRED_FLAGS), "corei7", "icelake-server", "sapphirerapids")


def target_arch(flags: frozenset[str]) -> str | None:
    """Return the best instruction set that both the processor and the runtime support."""
    return next((name for name, required in _REQUIRED_FLAGS if required <= flags), None)


def missing_flags(name: str, flags: frozenset[str]) -> frozenset[str]:
    """Return the flags that code for an instruction set of the runtime requires and the processor lacks."""
    return dict(_REQUIRED_FLAGS)[name] - flags


def instruction_sets(flags: frozenset[str]) -> tuple[str, ...]:
    """Return the usual names of the processor's instruction sets, older ones first."""
    return tuple(name for name, required in _INSTRUCTION_SETS if required <= flags)
