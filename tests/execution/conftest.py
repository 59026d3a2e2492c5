# SPDX-License-Identifier: Apache-2.0
"""The devices of this machine, and both ways of submission."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from syclsched.model.platform import Platform


@pytest.fixture
def live() -> tuple[Platform, Any]:
    """The platform with two lanes on every device, and the open devices."""
    from opened import live_on

    return live_on(None)


@pytest.fixture(params=["compiled", "python"])
def submission(request: pytest.FixtureRequest) -> Iterator[None]:
    """Submission by the compiled loop, and without it."""
    from syclsched.execution import dispatcher

    with pytest.MonkeyPatch.context() as patch:
        if request.param == "python":
            patch.setattr(dispatcher, "load_library", lambda: None)
        yield
