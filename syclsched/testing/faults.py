# SPDX-License-Identifier: Apache-2.0
"""Faults injected into real runs: what is submitted, allocated and called goes its real way, and some of it fails.

They are for tests: how a program, or this library, behaves when a device refuses work, fails, hangs, or goes away.

>>> from syclsched.testing import faults
>>> with faults.inject(faults.fail_submission(5), faults.lose("gpu", after=20), seed=0) as seen:  # doctest: +SKIP
...     run = syclsched.run(graph)
...     run.wait(timeout=60)
...     print(seen.injected)

Faults count what passes from the beginning of `inject` on, in all runs and all threads of the process; the first is
number 1. When the ``with`` block ends, everything is as it was before.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from syclsched.devices import faultpoints
from syclsched.errors import ArgumentError, SyclschedError
from syclsched.testing.injection import InjectedError, Injection
from syclsched.testing.kinds import AtRandom, FailOnDevice, FailPoint, Fault, Hang, Injected, Lose, Slow

__all__ = [
    "Fault",
    "Injected",
    "InjectedError",
    "Injection",
    "at_random",
    "fail_allocation",
    "fail_copy",
    "fail_host_call",
    "fail_on_device",
    "fail_submission",
    "hang",
    "inject",
    "lose",
    "slow",
]

_lock = threading.Lock()


def fail_submission(number: int, *, device: str | None = None, times: int = 1) -> Fault:
    """Let the runtime refuse a submission: of a kernel, a library's call, a copy between memories, or a barrier.

    Parameters
    ----------
    number : int
        Which, from 1; if a device is given, which of its own.
    device : str, optional
        Name of the device on its platform, ``cpu`` or ``cpu.1``.
    times : int, optional
        So many in a row.
    """
    return FailPoint("submission", number, device, times)


def fail_copy(number: int, *, device: str | None = None, times: int = 1) -> Fault:
    """Let a copy between memories fail; parameters as for `fail_submission`."""
    return FailPoint("copy", number, device, times)


def fail_allocation(number: int, *, times: int = 1) -> Fault:
    """Let an allocation of USM memory fail; parameters as for `fail_submission`."""
    return FailPoint("allocation", number, None, times)


def fail_host_call(number: int, *, times: int = 1) -> Fault:
    """Let a host function raise `InjectedError` before it does anything; parameters as for `fail_submission`."""
    return FailPoint("host call", number, None, times)


def fail_on_device(number: int, *, device: str | None = None, times: int = 1, done: bool = False) -> Fault:
    """Let a submission be accepted, and be reported as failed by its device afterwards.

    Parameters
    ----------
    number, device, times
        As for `fail_submission`.
    done : bool, optional
        Whether it does its work nevertheless: what it writes in place is then written, and still must not be used. If
        not, nothing is done.
    """
    return FailOnDevice(number, device, times, done)


def lose(device: str, *, after: int = 0) -> Fault:
    """Lose a device for good.

    Every further submission to it and every allocation on it is refused, and what was submitted and has not completed
    counts as failed.

    Parameters
    ----------
    device : str
        Its name on the platform.
    after : int, optional
        How many submissions are made to it before.
    """
    return Lose(device, after)


def hang(device: str, *, after: int = 0, for_s: float | None = None) -> Fault:
    """Let a device hang: what is submitted to it does not begin.

    Parameters
    ----------
    device : str
        Its name on the platform.
    after : int, optional
        How many submissions go through before.
    for_s : float, optional
        Seconds, for each submission after the one before; by default until `Injection.release` or the end of the
        ``with`` block.
    """
    return Hang(device, after, for_s)


def slow(device: str, *, by_s: float) -> Fault:
    """Let every submission to a device begin some time after the one before.

    Parameters
    ----------
    device : str
        Its name on the platform.
    by_s : float
        Seconds.
    """
    return Slow(device, by_s)


def at_random(
    probability: float,
    *,
    kinds: tuple[str, ...] = ("submission", "copy", "allocation", "on device"),
    device: str | None = None,
    most: int | None = None,
) -> Fault:
    """Let anything fail at random.

    Parameters
    ----------
    probability : float
        Of each passage of a point.
    kinds : tuple of str, optional
        Among ``submission``, ``copy``, ``allocation``, ``host call`` and ``on device``.
    device : str, optional
        Only there.
    most : int, optional
        How often at most.
    """
    return AtRandom(probability, kinds, device, most)


@contextmanager
def inject(*faults: Fault, seed: int = 0) -> Iterator[Injection]:
    """Inject faults into everything that runs in this process, until the block ends.

    Without faults nothing goes wrong, and what passes is counted: so a test can find out how many points there are.

    Parameters
    ----------
    *faults : Fault
        From the functions of this module.
    seed : int, optional
        Of what is random: with one thread the same seed gives the same faults.

    Yields
    ------
    Injection
        Tells what was seen and injected.

    Raises
    ------
    ArgumentError
        If something else than a fault is given.
    SyclschedError
        If faults are injected already.
    """
    for fault in faults:
        if not isinstance(fault, Fault):
            raise ArgumentError(f"{fault!r} is not a fault", where="inject()")
    injection = Injection(faults, seed)
    with _lock:
        if faultpoints.active is not None:
            raise SyclschedError(
                "faults are injected already", where="inject()", hint="Give all faults to one inject()"
            )
        faultpoints.active = injection
    try:
        yield injection
    finally:
        with _lock:
            faultpoints.active = None
        injection.close()
