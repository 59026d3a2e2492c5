# SPDX-License-Identifier: Apache-2.0
"""Packs of SPIR-V: round trips, and refusal of damaged packs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import syclsched
from syclsched.devices.programs.python_kernels import spirv_packs
from syclsched.errors import ArgumentError
from syclsched.model.operation import SpirvModule

MODULES = st.builds(SpirvModule, st.binary(max_size=40), st.text(max_size=10))


@given(st.dictionaries(st.text(max_size=10), MODULES, max_size=4))
def test_packs_are_read_as_they_were_written(kernels: dict[str, SpirvModule]) -> None:
    text = spirv_packs.pack_text(kernels, {"numba": "1"})
    assert spirv_packs.kernels_in(json.loads(text)) == kernels


def test_loaded_kernels_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spirv_packs, "_LOADED", {})
    module, path = SpirvModule(b"code", "name"), tmp_path / "my.pack"
    path.write_text(spirv_packs.pack_text({"key": module}, {}))
    assert spirv_packs.find("key") is None
    assert syclsched.load_pack(path) == 1
    assert spirv_packs.find("key") == module


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", "not JSON", '{"format": 1, "python": "3.11"}', '{"format": 1, "python": "3.11", "kernels": [1]}',
     '{"format": 2, "python": "3.11", "kernels": {}}',
     '{"format": 1, "python": "3.11", "kernels": {"a": {"name": "b", "spirv": "!"}}}'],
)  # fmt: skip
def test_damaged_packs_are_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "my.pack"
    path.write_text(text)
    with pytest.raises(ArgumentError, match="no pack of compiled kernels"):
        syclsched.load_pack(path)
    with pytest.raises(ArgumentError, match="cannot be read: No such file"):
        syclsched.load_pack(tmp_path / "nowhere.pack")
