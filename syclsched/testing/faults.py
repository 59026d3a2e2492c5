# SPDX-License-Identifier: Apache-2.0
"""Fault injection into real runs: selected submissions, allocations and host calls fail, everything else is real.

For tests of how a program, or this library, behaves when a device refuses work, fails, hangs or is lost.

>>> from syclsched.testing import faults
>>> with faults.inject(faults.fail_submission(5), faults.lose("gpu", after=20), seed=0) as seen:  # doctest: +SKIP
...     run = syclsched.run(graph)
...     run.wait(timeout=60)
...     print(seen.injected)

Submissions, copies, allocations and host calls are numbered from 1, from the beginning of `inject` on, over all runs
and threads of the process. When the ``with`` block ends, no more faults are injected.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from syclsched.devices.submission import faultpoints
from syclsched.errors import ArgumentError, SyclschedError
from syclsched.testing.fault_types import (
    DeviceFailure,
    DeviceHang,
    DeviceLoss,
    DeviceSlowdown,
    Fault,
    Injected,
    OperationFailure,
    RandomFault,
)
from syclsched.testing.injection import InjectedError, Injection

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
    """Let the runtime refuse a submission: a kernel, library call, copy between memory spaces or barrier.

    Parameters
    ----------
    number : int
        Number of the submission to refuse, from 1; counted on the device, if one is given.
    device : str, optional
        Name of the device on its platform, for example ``cpu`` or ``cpu.1``.
    times : int, optional
        Number of submissions in a row to refuse.
    """
    return OperationFailure("submission", number, device, times)


def fail_copy(number: int, *, device: str | None = None, times: int = 1) -> Fault:
    """Let a copy between memory spaces fail; parameters as for `fail_submission`."""
    return OperationFailure("copy", number, device, times)


def fail_allocation(number: int, *, times: int = 1) -> Fault:
    """Let an allocation of USM memory fail; parameters as for `fail_submission`."""
    return OperationFailure("allocation", number, None, times)


def fail_host_call(number: int, *, times: int = 1) -> Fault:
    """Let `InjectedError` be raised instead of calling a host function; parameters as for `fail_submission`."""
    return OperationFailure("host call", number, None, times)


def fail_on_device(number: int, *, device: str | None = None, times: int = 1, done: bool = False) -> Fault:
    """Let a submission be accepted, and later be reported as failed by its device.

    Parameters
    ----------
    number, device, times
        As for `fail_submission`.
    done : bool, optional
        If true, the work is still done: arrays updated in place are changed, although they must not be used. If false,
        the submission does nothing.
    """
    return DeviceFailure(number, device, times, done)


def lose(device: str, *, after: int = 0) -> Fault:
    """Lose a device permanently.

    All further submissions to it and allocations on it are refused. Pending submissions count as failed.

    Parameters
    ----------
    device : str
        Name of the device on its platform.
    after : int, optional
        Number of submissions to it that succeed before.
    """
    return DeviceLoss(device, after)


def hang(device: str, *, after: int = 0, for_s: float | None = None) -> Fault:
    """Let a device hang: submissions to it do not start.

    Parameters
    ----------
    device : str
        Name of the device on its platform.
    after : int, optional
        Number of submissions that start normally before.
    for_s : float, optional
        Delay in seconds, for each submission after the one before; by default until `Injection.release` or the end of
        the ``with`` block.
    """
    return DeviceHang(device, after, for_s)


def slow(device: str, *, by_s: float) -> Fault:
    """Delay every submission to a device, one after another.

    Parameters
    ----------
    device : str
        Name of the device on its platform.
    by_s : float
        Delay of each submission in seconds.
    """
    return DeviceSlowdown(device, by_s)


def at_random(
    probability: float,
    *,
    kinds: tuple[str, ...] = ("submission", "copy", "allocation", "on device"),
    device: str | None = None,
    most: int | None = None,
) -> Fault:
    """Let operations fail at random.

    Parameters
    ----------
    probability : float
        Probability of a failure per submission, copy, allocation or host call.
    kinds : tuple of str, optional
        Kinds of faults, from ``submission``, ``copy``, ``allocation``, ``host call`` and ``on device``.
    device : str, optional
        Name of the only device affected.
    most : int, optional
        Maximum number of failures.
    """
    return RandomFault(probability, kinds, device, most)


@contextmanager
def inject(*faults: Fault, seed: int = 0) -> Iterator[Injection]:
    """Inject faults into all runs of this process until the block ends.

    Without faults nothing fails, but operations are counted: a test can find out how many can be made to fail.

    Parameters
    ----------
    *faults : Fault
        Faults made by the functions of this module.
    seed : int, optional
        Seed of random faults: with one thread the same seed gives the same faults.

    Yields
    ------
    Injection
        Record of the operations counted and the faults injected so far.

    Raises
    ------
    ArgumentError
        If an argument is not a fault.
    SyclschedError
        If another `inject` block is active.
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
