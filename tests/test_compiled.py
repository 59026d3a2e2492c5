# SPDX-License-Identifier: Apache-2.0
"""Machine code is kept, found again, and made anew when anything that went into it has changed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from syclsched import compiled as module
from syclsched.compiled import compiled, lean


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A package in which ``outer`` imports ``inner``, and ``other`` stands alone."""
    folder = tmp_path / "syclsched"
    (folder / "room").mkdir(parents=True)
    (folder / "__init__.py").write_text("")
    (folder / "room" / "__init__.py").write_text("from syclsched.room.inner import f\n")
    (folder / "room" / "inner.py").write_text("@compiled\ndef f(): return 1\n")
    (folder / "room" / "plain.py").write_text("def text(): return 'a'\n")
    (folder / "outer.py").write_text(
        "from syclsched.room import f\nimport syclsched.room.plain\n@lean\ndef g(): return f()\n"
    )
    (folder / "other.py").write_text("@compiled\ndef h(): return 2\n")
    monkeypatch.setattr(module, "_PACKAGE", folder)
    forget()
    yield folder
    forget()


def forget() -> None:
    module._stamp.cache_clear()
    module._read.cache_clear()


def test_a_change_in_what_is_called_is_seen(package: Path) -> None:
    before = {name: module._stamp(package / name) for name in ("outer.py", "other.py")}
    (package / "room" / "inner.py").write_text("@compiled\ndef f(): return 3\n")
    forget()
    after = {name: module._stamp(package / name) for name in ("outer.py", "other.py")}
    assert before["outer.py"] != after["outer.py"]
    assert before["other.py"] == after["other.py"]


def test_a_change_elsewhere_is_not(package: Path) -> None:
    before = module._stamp(package / "outer.py")
    (package / "room" / "plain.py").write_text("def text(): return 'b'\n")
    forget()
    assert module._stamp(package / "outer.py") == before


def test_without_a_folder_to_write_to_it_is_compiled_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module._Implementation, "_locator_classes", ())

    @compiled
    def total(values: np.ndarray) -> float:  # type: ignore[type-arg]
        result = 0.0
        for value in values:
            result += value
        return result

    @lean
    def double(value: float) -> float:
        return 2.0 * value

    assert total(np.arange(4.0)) == 6.0
    assert double(3.0) == 6.0
