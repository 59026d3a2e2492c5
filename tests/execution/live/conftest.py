# SPDX-License-Identifier: Apache-2.0
"""Graphs started under a dynamic policy on this machine's devices."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture(params=["compiled", "python"])
def submission(request: pytest.FixtureRequest) -> Iterator[None]:
    """Submission by the compiled loop, and without it."""
    from syclsched.execution.live import submitter

    with pytest.MonkeyPatch.context() as patch:
        if request.param == "python":
            patch.setattr(submitter, "load_library", lambda: None)
        yield
