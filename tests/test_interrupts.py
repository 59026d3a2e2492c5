# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C is held where it must not come in the middle, and comes then."""

from __future__ import annotations

import signal

import pytest

from syclsched.interrupts import interrupts_deferred


def test_an_interrupt_waits_until_the_end() -> None:
    reached = False
    with pytest.raises(KeyboardInterrupt), interrupts_deferred():
        signal.raise_signal(signal.SIGINT)
        reached = True
    assert reached
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
