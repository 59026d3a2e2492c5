# SPDX-License-Identifier: Apache-2.0
"""Profiles of a cluster: one machine of each kind is measured, and all machines of the kind get its profiles."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.sample_profiles import device_profile

import syclsched
from syclsched.cluster.calls import WorkerCall
from syclsched.cluster.measurements.node_profiles import profile_machines, store_here
from syclsched.cluster.membership import ClusterWorker
from syclsched.cluster.transport.packing import joined, packed
from syclsched.profiling import ProfileStore
from syclsched.profiling.session import SessionResult


class Workers:
    """Mock workers: each has a data folder of its own, and its measurement returns a made-up profile."""

    def __init__(self, kinds: dict[str, str], folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.kinds, self.folder, self._monkeypatch = kinds, folder, monkeypatch
        self.measured: list[str] = []
        self.found_again: list[str] = []
        self.refreshed = False

    def describe(self, *, refresh: bool = False) -> dict[str, Any]:
        self.refreshed |= refresh
        return {
            name: SimpleNamespace(platform=syclsched.describe(kind) if kind else None, host_name="here")
            for name, kind in self.kinds.items()
        }

    def start(self, worker: str, function: str, quick: bool, key: str) -> WorkerCall:
        assert function.endswith(":measure_here") and quick
        self.measured.append(worker)
        call = WorkerCall(ClusterWorker(worker, "here", worker), function)
        result = SessionResult((device_profile(f"key-of-{worker}"),), (), True, (f"{worker} was busy",))
        call.settle(memoryview(joined(packed(b"returned", result))))
        return call

    def broadcast(self, function: str, result: SessionResult, *, workers: Iterable[str]) -> dict[str, list[str]]:
        assert function.endswith(":store_here")
        found = {}
        for name in workers:
            self._monkeypatch.setenv("XDG_DATA_HOME", str(self.folder / name))
            node = SimpleNamespace(find_devices_again=partial(self.found_again.append, name))
            found[name] = store_here(node, result)  # type: ignore[arg-type]
        return found


def test_one_machine_of_each_kind_is_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kinds = {"node0": "xeon-8480", "node1": "xeon-8480,max1550", "node2": "xeon-8480", "node3": ""}
    workers, told = Workers(kinds, tmp_path, monkeypatch), list[tuple[int, int, str]]()
    found = profile_machines(workers, quick=True, progress=lambda *step: told.append(step))  # type: ignore[arg-type]
    assert workers.measured == ["node0", "node1"]
    assert [each.machines for each in found] == [("node0", "node2"), ("node1",)]
    assert [each.notes for each in found] == [("node0 was busy",), ("node1 was busy",)]
    assert [each.devices for each in found] == [("Test CPU",), ("Test CPU",)]
    assert told == [
        (0, 2, "measuring node0 on here, for node0, node2"),
        (1, 2, "measuring node1 on here, for node1"),
        (2, 2, ""),
    ]
    for name, key in (("node0", "key-of-node0"), ("node2", "key-of-node0"), ("node1", "key-of-node1")):
        monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / name))
        assert ProfileStore().load(key) == device_profile(key)
    assert workers.found_again == ["node0", "node2", "node1"] and workers.refreshed
