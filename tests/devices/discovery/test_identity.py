# SPDX-License-Identifier: Apache-2.0
"""Device keys, which are stable and differ wherever code runs differently; and device names, short and unique."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from syclsched.devices.discovery.identity import device_key, device_names, processor_model, slug
from syclsched.model.platform import Partition

BASE: dict[str, Any] = {"driver_version": "1", "processor": "P", "boot_environment": {"CL_CONFIG_A": "1"}}


def key(name: str = "Intel(R) Xeon(R) CPU @ 2.50GHz", **changes: Any) -> str:
    return device_key("opencl", "cpu", name, **{**BASE, **changes})


def test_the_key_is_readable_and_the_same_in_every_process() -> None:
    assert key() == "opencl-cpu-intel-xeon-cpu-2-50ghz-" + key()[-8:]
    assert re.fullmatch(r"[0-9a-f]{8}", key()[-8:])
    # A literal, because profiles on disk are found by the key: it must not change by accident.
    assert key().endswith("76f316cb")


@pytest.mark.parametrize(
    "change",
    [
        {"driver_version": "2"},
        {"processor": "Q"},
        {"boot_environment": {}},
        {"boot_environment": {"CL_CONFIG_A": "2"}},
        {"partition": Partition("count", "2", 0)},
        {"partition": Partition("count", "2", 1)},
        {"partition": Partition("equally", "2", 0)},
        {"ordinal": 1},
        {"name": "Intel(R) Xeon(R) CPU @ 2.50 GHz"},
    ],
)
def test_a_change_of_the_device_changes_its_key(change: dict[str, Any]) -> None:
    assert key(**change) != key()


def test_a_key_names_the_generation_of_the_packages_but_the_first() -> None:
    assert key(generation="current") == key()[:-8] + "current-" + key()[-8:]
    assert key(generation="numba-dpex") == key()


def test_hiding_another_device_does_not_change_the_key() -> None:
    hidden = {"CL_CONFIG_A": "1", "ONEAPI_DEVICE_SELECTOR": "opencl:cpu", "OCL_ICD_FILENAMES": "libintelocl.so"}
    assert key(boot_environment=hidden) == key()


@given(st.text(max_size=200))
def test_any_name_makes_a_slug_fit_for_a_file(name: str) -> None:
    assert re.fullmatch(r"[a-z0-9](?:[a-z0-9-]{0,38}[a-z0-9])?", slug(name))


@given(st.lists(st.sampled_from(["cpu", "gpu", "accelerator"]), max_size=8))
def test_names_are_unique_and_the_first_of_a_kind_has_no_number(kinds: list[str]) -> None:
    names = device_names(kinds)
    assert len(set(names)) == len(kinds)
    assert all(name.rstrip("0123456789") == kind for name, kind in zip(names, kinds, strict=True))
    assert set(kinds) <= set(names) if kinds else names == ()


def test_processor_model_from_cpuinfo(tmp_path: Path) -> None:
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text(
        "processor\t: 0\ncpu family\t: 6\nmodel\t\t: 85\nmodel name\t: A CPU\nstepping\t: 7\n\n"
        "processor\t: 1\ncpu family\t: 6\nmodel\t\t: 99\nmodel name\t: Another\n"
    )
    assert processor_model(cpuinfo) == "A CPU (6/85/7)"
    assert processor_model(tmp_path / "missing")
