# SPDX-License-Identifier: Apache-2.0
"""Requirements of the build and of the package for each generation of SYCL packages."""

from __future__ import annotations

import importlib.util
import re
import sys
from collections.abc import Iterable
from importlib.metadata import PathDistribution
from pathlib import Path
from types import ModuleType

import pytest
from build import BuildBackendException, ProjectBuilder

ROOT = Path(__file__).resolve().parents[2]
#: One pinned package of each generation, with its version.
OLD, NEW = {"numba": "0.59.1", "dpctl": "0.17.0"}, {"numba": "0.68.1", "dpctl": "0.22.1"}
old_python = pytest.mark.skipif(sys.version_info >= (3, 12), reason="numba-dpex has no release for this Python")


@pytest.fixture
def builder(checkout: Path) -> ProjectBuilder:
    return ProjectBuilder(checkout)


def generation_backend() -> ModuleType:
    """Import the build backend."""
    path = ROOT / "tools" / "build_backend" / "generation_backend.py"
    spec = importlib.util.spec_from_file_location("generation_backend", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def pinned(requirements: Iterable[str]) -> dict[str, set[tuple[str, str]]]:
    """Return the pinned versions by distribution, each with its marker."""
    found: dict[str, set[tuple[str, str]]] = {}
    for each in requirements:
        if parts := re.fullmatch(r"([\w-]+)==([\w.]+)(?:; (.*))?", each):
            found.setdefault(parts[1], set()).add((parts[2], parts[3] or ""))
    return found


@pytest.mark.parametrize("kind", ["wheel", "editable"])
def test_the_generation_setting_chooses_the_requirements(builder: ProjectBuilder, tmp_path: Path, kind: str) -> None:
    setting = {"generation": "current"}
    assert pinned(builder.get_requires_for_build(kind, setting))["numba"] == {(NEW["numba"], "")}
    metadata = builder.prepare(kind, tmp_path, setting)
    assert metadata is not None
    requires = PathDistribution(Path(metadata)).requires
    assert requires is not None
    found = pinned(requires)
    assert {name: found[name] for name in NEW} == {name: {(version, "")} for name, version in NEW.items()}
    assert "numba-dpex" not in found
    assert found["onednn"] == {("2026.0.2", 'extra == "onnx"')}


@old_python
def test_the_other_generation_can_be_named_too(builder: ProjectBuilder) -> None:
    requires = builder.get_requires_for_build("wheel", {"generation": "numba-dpex"})
    assert pinned(requires)["numba"] == {(OLD["numba"], "")}


def test_without_a_setting_the_version_of_python_decides(builder: ProjectBuilder, tmp_path: Path) -> None:
    before, after = 'python_version < "3.12"', 'python_version >= "3.12"'
    expected = {(OLD["numba"], before), (NEW["numba"], after)}
    assert pinned(builder.get_requires_for_build("wheel"))["numba"] == expected
    metadata = builder.prepare("wheel", tmp_path)
    assert metadata is not None
    distribution = PathDistribution(Path(metadata))
    assert distribution.requires is not None
    found = pinned(distribution.requires)
    assert {name: found[name] for name in OLD} == {name: {(OLD[name], before), (NEW[name], after)} for name in OLD}
    assert found["numba-dpex"] == {("0.23.0", before)}
    # A wheel may have other requirements than the source distribution that it is built from.
    assert "requires-dist" in {each.lower() for each in distribution.metadata.get_all("Dynamic") or ()}


@pytest.mark.parametrize("setting", ["next", "", ["current", "numba-dpex"]])
def test_an_unknown_generation_ends_the_build(
    builder: ProjectBuilder, capfd: pytest.CaptureFixture[str], setting: str | list[str]
) -> None:
    with pytest.raises(BuildBackendException):
        builder.get_requires_for_build("wheel", {"generation": setting})
    assert (
        f"the build setting generation is {setting!r}; it must be one of numba-dpex, current" in capfd.readouterr().err
    )


def test_a_generation_that_this_python_cannot_have_ends_the_build(monkeypatch: pytest.MonkeyPatch) -> None:
    backend = generation_backend()
    monkeypatch.setattr(sys, "version_info", (3, 12, 0))
    with pytest.raises(SystemExit, match=r"works up to CPython 3\.11; this is CPython 3\.12"):
        backend.choose({"generation": "numba-dpex"})
    backend.choose({"generation": "current"})


def test_ci_tries_the_other_generation_with_tests_that_exist() -> None:
    spec = importlib.util.spec_from_file_location("generation_tests", ROOT / "tools" / "generation_tests.py")
    assert spec is not None and spec.loader is not None
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    assert [path for path in (*tool.CHOSEN, *tool.LEFT_OUT) if not (ROOT / path).exists()] == []
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert "-C generation=current" in script and "tools/generation_tests.py" in script
