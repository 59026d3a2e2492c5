# SPDX-License-Identifier: Apache-2.0
"""Alarms that runtimes ring."""

from __future__ import annotations

import os
import resource

import pytest

from syclsched.execution import stream_wake
from syclsched.execution.stream_wake import Alarm


def test_an_alarm_wakes_whatever_number_its_file_has(monkeypatch: pytest.MonkeyPatch) -> None:
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if most <= 1024:
        pytest.skip(f"this process may open {most} files only")
    monkeypatch.setattr(stream_wake, "_SLICE_S", 60.0)
    monkeypatch.setattr(stream_wake, "_unused", [])
    opened = [os.open(os.devnull, os.O_RDONLY) for _ in range(1024)]
    alarm = Alarm()
    try:
        assert alarm.fd is not None and alarm.fd > 1023
        alarm.ring()
        alarm.sleep(0.0, rings=True)  # returns at once
        alarm.close()
    finally:
        for each in (*opened, *stream_wake._unused):
            os.close(each)
