# SPDX-License-Identifier: Apache-2.0
"""The processor's flags, parsed from Linux's text."""

from __future__ import annotations

from pathlib import Path

from syclsched.processor_flags import parse_flags, read_flags


def test_flags_count_only_where_every_core_has_them() -> None:
    assert parse_flags("flags\t\t: avx avx2\nmodel: x\n\nflags\t\t: avx fma\n") == {"avx"}
    assert parse_flags("Features\t: asimd\n") == frozenset()


def test_no_flags_without_cpuinfo(tmp_path: Path) -> None:
    assert read_flags(tmp_path / "absent") == frozenset()
