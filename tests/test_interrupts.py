# SPDX-License-Identifier: Apache-2.0
"""Deferred Ctrl-C: held in critical sections, and raised after them."""

from __future__ import annotations

import signal
import sys
import threading
import weakref
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from syclsched.interrupts import call_in_callback, interrupts_deferred, redeliver_lost_interrupts


class Thing:
    """An object that can be referred to weakly."""


@pytest.fixture
def lost(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """Return the exceptions that Python drops, from a hook of the test."""
    found: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", found.append)
    yield found


def wait_for_interrupt() -> None:
    with pytest.raises(KeyboardInterrupt):
        threading.Event().wait(60)


def test_an_interrupt_waits_until_the_end() -> None:
    reached = False
    with pytest.raises(KeyboardInterrupt), interrupts_deferred():
        signal.raise_signal(signal.SIGINT)
        reached = True
    assert reached
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_an_interrupt_lost_in_a_callback_is_delivered_again(lost: list[Any]) -> None:
    redeliver_lost_interrupts()
    thing = Thing()
    reference = weakref.ref(thing, lambda _: signal.raise_signal(signal.SIGINT))
    del thing
    wait_for_interrupt()
    assert reference() is None and not lost


@pytest.fixture
def lingering(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make threads begin long before their start returns, as on a busy machine."""
    start = threading.Timer.start

    def start_and_linger(timer: threading.Timer) -> None:
        start(timer)
        threading.Event().wait(0.1)

    monkeypatch.setattr(threading.Timer, "start", start_and_linger)


@pytest.mark.usefixtures("lingering")
def test_an_interrupt_is_not_repeated_before_the_hook_has_ended(lost: list[Any]) -> None:
    redeliver_lost_interrupts()
    thing = Thing()
    reference = weakref.ref(thing, lambda _: signal.raise_signal(signal.SIGINT))
    del thing
    wait_for_interrupt()
    assert reference() is None and not lost


@pytest.mark.usefixtures("lingering")
def test_an_interrupt_is_not_repeated_before_a_callback_has_ended(lost: list[Any]) -> None:
    thing = Thing()
    weakref.finalize(thing, call_in_callback, lambda: signal.raise_signal(signal.SIGINT))
    del thing
    wait_for_interrupt()
    assert not lost


def test_other_lost_exceptions_reach_the_previous_hook(lost: list[Any]) -> None:
    redeliver_lost_interrupts()
    redeliver_lost_interrupts()
    sys.unraisablehook(SimpleNamespace(exc_type=ValueError))  # type: ignore[arg-type]
    assert [each.exc_type for each in lost] == [ValueError]


def test_a_callback_is_not_cut_short(lost: list[Any]) -> None:
    done = []

    def call() -> None:
        signal.raise_signal(signal.SIGINT)
        done.append("all of it")

    thing = Thing()
    weakref.finalize(thing, call_in_callback, call)
    del thing
    assert done == ["all of it"]
    wait_for_interrupt()
    assert not lost
