# SPDX-License-Identifier: Apache-2.0
"""Facts read from the system's files, some of which may be absent."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from syclsched.oneapi.diagnosis import facts as diagnosis_facts
from syclsched.oneapi.diagnosis.facts import Probe


def test_gathering_works_without_any_sycl_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(diagnosis_facts.libraries, "dpctl_folder", lambda: None)
    monkeypatch.setattr(diagnosis_facts.loading, "installed_versions", dict)
    monkeypatch.setattr(diagnosis_facts.libraries, "sources", lambda _: ())
    gathered = diagnosis_facts.gather(Probe(), {"CL_CONFIG_CPU_TARGET_ARCH": "skx", "HOME": "/h"})
    assert gathered.versions == {} and gathered.cpu_driver is None and gathered.sycl_library is None
    assert gathered.users_variables == {"CL_CONFIG_CPU_TARGET_ARCH": "skx"}
    assert gathered.processors >= 1 and len(gathered.folders) == 2


def test_render_nodes_and_their_permissions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "renderD128").write_text("")
    (tmp_path / "card0").write_text("")
    device = tmp_path / "sys" / "renderD128" / "device"
    device.mkdir(parents=True)
    (device / "vendor").write_text("0x8086\n")
    (node,) = diagnosis_facts.render_nodes(tmp_path, tmp_path / "sys")
    assert node.readable and diagnosis_facts.is_intel(node)
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert not diagnosis_facts.render_nodes(tmp_path, tmp_path / "absent")[0].readable
    assert diagnosis_facts.render_nodes(tmp_path / "absent") == ()


def test_busy_fraction_from_two_samples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looks = iter([(1000, 400), (1200, 450)])
    monkeypatch.setattr(diagnosis_facts, "_processor_times", lambda _: next(looks))
    assert diagnosis_facts.busy_fraction(sample_s=0.0) == pytest.approx(0.75)


def test_processor_times_exclude_guests_and_count_waiting_as_idle(tmp_path: Path) -> None:
    stat = tmp_path / "stat"
    stat.write_text("cpu  10 20 30 400 5 6 7 8 1000 2000\ncpu0 1 2 3 4\n")
    assert diagnosis_facts._processor_times(stat) == (486, 405)
    stat.write_text("nonsense\n")
    assert diagnosis_facts.busy_fraction(stat, 0.0) is None
    assert diagnosis_facts.busy_fraction(tmp_path / "absent", 0.0) is None


def test_a_missing_folder_is_judged_by_its_parent(tmp_path: Path) -> None:
    good = diagnosis_facts.folder_fact(tmp_path / "a" / "b", "test", "XDG_TEST", 1)
    assert good.writable and good.free_bytes is not None and good.free_bytes > 0
    (tmp_path / "file").write_text("")
    assert not diagnosis_facts.folder_fact(tmp_path / "file" / "b", "test", "XDG_TEST", 1).writable


def test_a_read_only_mount_is_seen_by_root_as_well() -> None:
    if not os.statvfs("/sys").f_flag & os.ST_RDONLY:
        pytest.skip("no read-only mount here to look at")
    assert not diagnosis_facts.folder_fact(Path("/sys/syclsched"), "test", "XDG_TEST", 1).writable
