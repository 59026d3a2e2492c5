# SPDX-License-Identifier: Apache-2.0
"""The devices of this machine."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from syclsched.model.platform import Platform


@pytest.fixture
def live() -> tuple[Platform, Any]:
    """The platform with two lanes on every device, and the open devices."""
    from support.opened import live_on

    return live_on(None)


@pytest.fixture(scope="module")
def own_history(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keeps measured times, by which policies decide, apart from those of other tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_DATA_HOME", str(tmp_path_factory.mktemp("data")))
        yield


@pytest.fixture
def nothing_is_left_running() -> Iterator[None]:
    """Asserts that every run has ended or was cancelled."""
    from syclsched.execution.handle.resources import unfinished

    yield
    assert not [r for r in unfinished if not r.engine.cancelled]


@pytest.fixture
def release_when_late(monkeypatch: pytest.MonkeyPatch) -> Callable[[Any], None]:
    """Has an injection let go of what hangs once the watchdog has found something late."""
    from syclsched.execution.handle.watchdog import RunWatch

    fail = RunWatch._fail

    def release(injection: Any) -> None:
        def failing(*arguments: Any) -> None:
            fail(*arguments)
            injection.release()

        monkeypatch.setattr(RunWatch, "_fail", failing)

    return release
