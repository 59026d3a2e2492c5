# SPDX-License-Identifier: Apache-2.0
"""Observers of all runs of this process, such as the monitor; without one, a run pays for one comparison."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from syclsched.execution.handle.resources import Resources
    from syclsched.model.plan import Plan


class ObservedCall(Protocol):
    """A run that is one call of compiled code."""

    def end(self, *, completed: bool) -> None:
        """Record the end of the call; a run that it has not completed continues as one of the others."""


class RunObserver(Protocol):
    """Is notified of runs that begin."""

    def began(self, resources: Resources) -> None:
        """Note a run that is about to start."""

    def call_began(self, plan: Plan) -> ObservedCall:
        """Note a run that is one call of compiled code."""


#: The observer, or all of them as one; None if nothing observes runs.
active: RunObserver | None = None
_observers: tuple[RunObserver, ...] = ()
_lock = threading.Lock()


def add(observer: RunObserver) -> None:
    """Notify an observer of the runs that begin from now on."""
    with _lock:
        _set((*_observers, observer))


def remove(observer: RunObserver) -> None:
    """Tell an observer of no more runs."""
    with _lock:
        _set(tuple(each for each in _observers if each is not observer))


def remove_all() -> None:
    """Forget all observers: in a forked child, whose runs are none of theirs."""
    global _lock
    _lock = threading.Lock()  # another thread of the parent may have held it
    _set(())


def _set(observers: tuple[RunObserver, ...]) -> None:
    global active, _observers
    _observers = observers
    active = _Several(observers) if len(observers) > 1 else next(iter(observers), None)


class _Several:
    """Several observers as one."""

    def __init__(self, observers: tuple[RunObserver, ...]) -> None:
        self._observers = observers

    def began(self, resources: Resources) -> None:
        for each in self._observers:
            each.began(resources)

    def call_began(self, plan: Plan) -> _SeveralCalls:
        return _SeveralCalls([each.call_began(plan) for each in self._observers])


class _SeveralCalls:
    """One call, as several observers note it."""

    def __init__(self, calls: list[ObservedCall]) -> None:
        self._calls = calls

    def end(self, *, completed: bool) -> None:
        for each in self._calls:
            each.end(completed=completed)
