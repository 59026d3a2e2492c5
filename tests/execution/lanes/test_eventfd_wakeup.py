# SPDX-License-Identifier: Apache-2.0
"""Wakeups by eventfd that runtimes signal."""

from __future__ import annotations

import os
import resource

import pytest

from syclsched.execution.lanes import eventfd_wakeup
from syclsched.execution.lanes.eventfd_wakeup import EventFd


def test_an_alarm_works_with_file_descriptors_above_1023(monkeypatch: pytest.MonkeyPatch) -> None:
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if most <= 1024:
        pytest.skip(f"this process may open {most} files only")
    monkeypatch.setattr(eventfd_wakeup, "_SLICE_S", 60.0)
    monkeypatch.setattr(eventfd_wakeup, "_unused", [])
    opened = [os.open(os.devnull, os.O_RDONLY) for _ in range(1024)]
    alarm = EventFd()
    try:
        assert alarm.fd is not None and alarm.fd > 1023
        alarm.signal()
        alarm.sleep(0.0, has_signals=True)  # returns at once
        alarm.close()
    finally:
        for each in (*opened, *eventfd_wakeup._unused):
            os.close(each)
