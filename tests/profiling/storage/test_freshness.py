# SPDX-License-Identifier: Apache-2.0
"""Profiles that need another measurement: missing, damaged, interrupted, of a busy machine, or old."""

from __future__ import annotations

import datetime
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.sample_profiles import device_profile, pair_profile

from syclsched.model.platform import HOST, Device, MemorySpace, Platform
from syclsched.model.profile import Provenance
from syclsched.profiling.storage.freshness import is_worth_repeating, may_replace, stale_subjects, why_stale
from syclsched.profiling.storage.profile_store import ProfileStore

MADE = Provenance("2026-01-01T12:00:00+00:00")
NOW = datetime.datetime(2026, 1, 2, tzinfo=datetime.timezone.utc)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({}, None),
        ({"complete": False}, "incomplete"),
        ({"busy": True}, "measured on a busy machine"),
        ({"date": "2025-09-01"}, "old"),
        ({"date": "some day in June"}, None),
    ],
)
def test_reasons_to_measure_again(changes: dict[str, Any], why: str | None) -> None:
    assert why_stale(replace(MADE, **changes), NOW) == why


def test_a_run_repeats_a_busy_profile_but_not_at_every_start() -> None:
    busy, quick = replace(MADE, busy=True), replace(MADE, busy=True, notes=("budget: quick",))
    soon, later = (datetime.datetime(2026, 1, 1, 12, m, tzinfo=datetime.timezone.utc) for m in (5, 15))
    assert [is_worth_repeating(busy, soon), is_worth_repeating(MADE, soon)] == [True, False]
    assert [is_worth_repeating(quick, soon), is_worth_repeating(quick, later)] == [False, True]


def test_complete_and_quiet_profiles_are_not_replaced_by_worse() -> None:
    part, busy = replace(MADE, complete=False), replace(MADE, busy=True)
    assert all(may_replace(new, None) and may_replace(new, part) for new in (MADE, part, busy))
    assert may_replace(MADE, MADE) and may_replace(MADE, busy) and may_replace(busy, busy)
    assert not may_replace(busy, MADE)
    assert not may_replace(part, MADE) and not may_replace(part, busy)


def test_devices_and_pairs_without_a_good_profile_are_found(tmp_path: Path) -> None:
    devices = [Device(n, f"key-{n}", "gpu", "opencl", n, n, (n,)) for n in ("a", "b", "c")]
    host = Device(HOST, HOST, "host", "host", "host", HOST, (HOST,))
    platform = Platform("test", (*devices, host), tuple(MemorySpace(n, 1 << 30, True) for n in ("a", "b", "c", HOST)))
    store, good = ProfileStore(tmp_path), {"provenance": MADE}
    store.save(replace(device_profile("key-a"), **good))
    store.save(replace(device_profile("key-b"), provenance=replace(MADE, busy=True)))
    store.save(device_profile("key-c")).write_text("{")
    store.save_pair(replace(pair_profile("key-a", "key-b"), **good))
    found = {"+".join(sorted(names)): why for names, why in stale_subjects(platform, store, NOW).items()}
    assert found == {"b": "measured on a busy machine", "c": "missing", "a+c": "missing", "b+c": "missing"}
