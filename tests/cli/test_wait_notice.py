# SPDX-License-Identifier: Apache-2.0
"""Notices that explain a long wait: printed after long waits only."""

from __future__ import annotations

import io
import threading

import pytest
from rich.console import Console

from syclsched.cli.wait_notice import PLANNING_NOTICE, RUNNING_NOTICE, notice_if_slow, status_progress


class NotifyingStream(io.StringIO):
    """A stream that sets an event when text was written to it."""

    def __init__(self) -> None:
        super().__init__()
        self.written = threading.Event()

    def write(self, text: str) -> int:
        count = super().write(text)
        self.written.set()
        return count


@pytest.mark.parametrize("text", [PLANNING_NOTICE, RUNNING_NOTICE])
def test_a_long_wait_is_explained(text: str) -> None:
    stream = NotifyingStream()
    with notice_if_slow(Console(file=stream, width=500), after_s=0.0, text=text):
        assert stream.written.wait(60.0)
    assert text in stream.getvalue()


def test_a_short_wait_prints_nothing() -> None:
    stream = NotifyingStream()
    with notice_if_slow(Console(file=stream), after_s=3600.0):
        pass
    assert stream.getvalue() == ""


def test_steps_are_shown_in_the_status_line() -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=100)
    with console.status("running a ...") as status:
        tell = status_progress(status, "running a")
        tell(0, 3, "compiling scale [python]")
        assert str(status.renderable.text) == "running a: compiling scale [python] (1 of 3) ..."  # type: ignore[union-attr]
        tell(3, 3, "")
        assert str(status.renderable.text) == "running a ..."  # type: ignore[union-attr]
