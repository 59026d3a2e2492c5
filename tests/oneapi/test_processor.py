# SPDX-License-Identifier: Apache-2.0
"""The instruction set chosen for processor flags."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from syclsched.oneapi import processor

AVX2 = frozenset(["sse4_1", "sse4_2", "popcnt", "avx", "avx2", "bmi1", "bmi2", "fma", "f16c", "movbe", "abm"])
AVX512 = AVX2 | frozenset(["avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"])


def test_each_generation_gets_its_name() -> None:
    assert processor.target_arch(AVX512) == "skx"
    assert processor.target_arch(AVX2) == "core-avx2"
    assert processor.target_arch(frozenset(["sse4_1", "sse4_2", "popcnt", "avx"])) == "corei7-avx"
    assert processor.target_arch(frozenset({"sse2"})) is None


def test_one_missing_flag_is_enough_to_step_down() -> None:
    # Xeon Phi has AVX-512 without byte/word instructions; code for skx would not run there.
    assert processor.target_arch(AVX512 - {"avx512bw"}) == "core-avx2"
    assert processor.target_arch(AVX2 - {"fma"}) == "corei7-avx"


def test_missing_flags_are_named() -> None:
    assert processor.missing_flags("core-avx2", AVX2) == frozenset()
    assert processor.missing_flags("core-avx2", AVX2 - {"fma"}) == {"fma"}
    assert processor.missing_flags("skx", AVX2) == AVX512 - AVX2


def test_instruction_sets_have_their_usual_names() -> None:
    assert processor.instruction_sets(AVX2) == ("SSE4.2", "AVX", "FMA", "AVX2")
    assert processor.instruction_sets(AVX512 | {"avx512_vnni"})[-2:] == ("AVX-512", "AVX-512 VNNI")
    assert processor.instruction_sets(frozenset()) == ()


@given(st.frozensets(st.sampled_from(sorted(AVX512))))
def test_more_flags_never_make_it_worse(flags: frozenset[str]) -> None:
    order = ["skx", "core-avx2", "corei7-avx", None]
    for flag in AVX512:
        assert order.index(processor.target_arch(flags | {flag})) <= order.index(processor.target_arch(flags))
