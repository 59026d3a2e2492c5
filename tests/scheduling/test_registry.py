# SPDX-License-Identifier: Apache-2.0
"""Policies by name: look-up, registration, refusals."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import EntryPoint
from pathlib import Path
from zipfile import ZipFile

import pytest
from support.instances import TOPCUOGLU_COSTS, TOPCUOGLU_EDGES

from syclsched.errors import PolicyError
from syclsched.scheduling import problem_from_matrices, registry
from syclsched.scheduling.policies.baselines import Single
from syclsched.scheduling.policies.heft import Heft
from syclsched.scheduling.problem import Problem
from syclsched.scheduling.timetable import Timetable

PROBLEM = problem_from_matrices(TOPCUOGLU_COSTS, TOPCUOGLU_EDGES)


@dataclass(frozen=True)
class Backwards:
    """A policy of another package: HEFT with another name."""

    name: str = "backwards"
    max_tasks: int | None = None

    def schedule(self, problem: Problem) -> Timetable:
        return Heft().schedule(problem)


NOT_A_POLICY = 3


def fail() -> None:
    raise RuntimeError("out of order")


@pytest.fixture
def offered(monkeypatch: pytest.MonkeyPatch) -> None:
    points = [
        EntryPoint("foreign", "scheduling.test_registry:Backwards", registry.ENTRY_POINT_GROUP),
        EntryPoint("gone", "no_such_package:Policy", registry.ENTRY_POINT_GROUP),
        EntryPoint("number", "scheduling.test_registry:NOT_A_POLICY", registry.ENTRY_POINT_GROUP),
        EntryPoint("failing", "scheduling.test_registry:fail", registry.ENTRY_POINT_GROUP),
    ]
    monkeypatch.setattr(
        registry, "entry_points", lambda *, group: points if group == registry.ENTRY_POINT_GROUP else []
    )


@pytest.mark.parametrize("kind", ["dist-info", "egg-info"])
def test_policies_of_installed_packages_are_found(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / f"package-1.0.{kind}"
    folder.mkdir()
    (folder / ("METADATA" if kind == "dist-info" else "PKG-INFO")).write_text("Name: package\nVersion: 1.0\n")
    (folder / "entry_points.txt").write_text("[syclsched.policies]\ninstalled = scheduling.test_registry:Backwards\n")
    before = registry.names()
    monkeypatch.syspath_prepend(str(tmp_path))
    assert registry.names() == (*before, "installed")


def test_policies_in_archives_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = tmp_path / "archive.zip"
    with ZipFile(archive, "w") as file:
        file.writestr("zipped-1.0.dist-info/METADATA", "Name: zipped\nVersion: 1.0\n")
        file.writestr("zipped-1.0.dist-info/entry_points.txt", "[syclsched.policies]\nzipped = module:Policy\n")
    monkeypatch.syspath_prepend(str(archive))
    assert registry.names()[-1] == "zipped"


@pytest.fixture
def backwards() -> Iterator[None]:
    registry.register(Backwards())
    yield
    registry.unregister("backwards")


def test_shipped_policies_are_registered() -> None:
    assert registry.names()[:1] == ("heft",)
    assert "single:<device>" in registry.names()
    assert registry.get("heft").name == "heft"
    assert registry.get("single:cpu.0") == Single("cpu.0")


@pytest.mark.parametrize("name", ["nonsense", "single", "single:", "heft:cpu", "", ":", "auto"])
def test_an_unknown_name_lists_the_registered_policies(name: str) -> None:
    with pytest.raises(PolicyError, match=r"There are auto, heft, .*single:<device>"):
        registry.get(name)


def test_candidates_hold_every_device_alone() -> None:
    found = registry.candidates(PROBLEM)
    assert found[0] == "heft"
    assert tuple(name for name in found if name.startswith("single:")) == ("single:p0", "single:p1", "single:p2")


@pytest.mark.usefixtures("backwards")
def test_a_registered_policy_is_one_like_the_others() -> None:
    assert "backwards" in registry.names()
    assert "backwards" in registry.candidates(PROBLEM)
    assert registry.get("backwards").schedule(PROBLEM).makespan_s == 80
    with pytest.raises(PolicyError, match="the name is taken"):
        registry.register(Backwards())


@pytest.mark.parametrize(("most", "there"), [(9, False), (10, True), (None, True)])
def test_a_policy_too_slow_for_the_number_of_tasks_is_no_candidate(most: int | None, there: bool) -> None:
    registry.register(Backwards(max_tasks=most))
    try:
        assert ("backwards" in registry.candidates(PROBLEM)) is there
        assert registry.get("backwards").schedule(PROBLEM).makespan_s == 80  # available by name in any case
    finally:
        registry.unregister("backwards")


@pytest.mark.parametrize(("most", "there"), [(19, False), (20, True)])
def test_policy_too_slow_for_many_devices_is_no_candidate(most: int, there: bool) -> None:
    problem = problem_from_matrices([[1.0] * 8] * 10, {})  # twice the usual number of devices
    registry.register(Backwards(max_tasks=most))
    try:
        assert ("backwards" in registry.candidates(problem)) is there
    finally:
        registry.unregister("backwards")


def test_an_unregistered_policy_cannot_be_unregistered() -> None:
    with pytest.raises(PolicyError, match="no policy 'backwards'"):
        registry.unregister("backwards")


@pytest.mark.parametrize("name", ["auto", "", "a:b", "heft", "single"])
def test_names_that_cannot_be(name: str) -> None:
    with pytest.raises(PolicyError):
        registry.register(Backwards(name))


@pytest.mark.usefixtures("offered")
def test_other_packages_offer_policies_by_entry_point() -> None:
    assert {"foreign", "gone"} <= set(registry.names())
    assert "foreign" in registry.candidates(PROBLEM)
    assert registry.get("foreign").schedule(PROBLEM).makespan_s == 80


@pytest.mark.usefixtures("offered")
@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("gone", r"policy 'gone' \(no_such_package:Policy\): cannot be loaded: ModuleNotFoundError"),
        ("number", "cannot be loaded: TypeError"),
        ("failing", "cannot be loaded: RuntimeError: out of order"),
    ],
)
def test_a_package_that_is_broken_is_named(name: str, text: str) -> None:
    with pytest.raises(PolicyError, match=text):
        registry.get(name)
