# SPDX-License-Identifier: Apache-2.0
"""Fault injection points of submission, memory allocation and host calls on real queues.

While no faults are injected, a point costs one read of a variable. The injector is in `syclsched.testing.faults`.
"""

from __future__ import annotations

import ctypes
from typing import Any, Literal, Protocol

from syclsched.devices.native.sycl_types import SyclQueue
from syclsched.devices.submission.commands import CommandStructure

#: Decision about a submission: submit it; refuse it; submit a fence instead and count it as failed; submit it and count
#: it as failed.
FaultDecision = Literal["pass", "refuse", "skip", "spoil"]
SubmissionKind = Literal["kernel", "copy", "fence"]

#: By kind of command of the compiled loop: fence, range, nd-range, copy, call.
_KINDS: tuple[SubmissionKind, ...] = ("fence", "kernel", "kernel", "copy", "kernel")
_FENCE = 0


class Target(Protocol):
    """A submitter whose submissions have numbers and can be marked as failed."""

    def fail(self, number: int) -> None:
        """Count the submission with this number as failed on its device."""

    def is_pending(self, number: int) -> bool:
        """Return whether the submission with this number has neither completed nor failed."""


class Faults(Protocol):
    """Decides which faults happen; called from any thread."""

    def submits(
        self, device: str, queue: SyclQueue, kind: SubmissionKind, target: Target, number: int
    ) -> FaultDecision:
        """Decide about a submission before it is made."""

    def submitted(self, device: str, target: Target, number: int) -> None:
        """Note that a submission was made."""

    def allocates(self, queue: SyclQueue, nbytes: int) -> None:
        """Raise if an allocation of USM memory is to fail."""

    def calls(self, task: str | None, kind: str) -> None:
        """Raise if a host function, copy or barrier of a host lane is to fail; may take its time."""

    def uses(self, queue: SyclQueue) -> None:
        """Raise if a queue's device is lost; called before submissions that are no instructions of a plan."""

    def forget(self, target: Target) -> None:
        """Note that all submissions of a target have completed and their events are released."""


#: The active fault injector, if any.
active: Faults | None = None


def submit_with_faults(
    faults: Faults,
    target: Target,
    devices: dict[int, tuple[str, SyclQueue]],
    slots: int,
    submit: Any,
    commands: Any,
    count: int,
    submit_ns: int,
    made: int,
    made_count: Any,
    kept: list[Any],
) -> int:
    """Submit like the loop in C, one command at a time, with injected faults."""
    done = total = 0
    event_bytes = 3 * ctypes.sizeof(ctypes.c_void_p)
    for at in range(count):
        command = CommandStructure.from_address(commands[at])
        device, queue = devices[command.lane]
        number = command.slot % slots
        verdict = faults.submits(device, queue, _KINDS[command.kind], target, number)
        if verdict == "refuse":
            break
        if verdict == "skip":
            command = CommandStructure(_FENCE, command.lane, command.slot, command.waits, command.waits_count)
            kept.append(command)  # lane threads read it later
        added = ctypes.c_int64()
        pointer = ctypes.c_void_p(ctypes.addressof(command))
        sent = submit(ctypes.byref(pointer), submit_ns + 8 * at, made + event_bytes * total, ctypes.byref(added))
        total += added.value
        made_count.value = total  # set before `fail` and `submitted`, which may raise
        if not sent:
            break
        done += 1
        if verdict != "pass":
            target.fail(number)
        faults.submitted(device, target, number)
    return done
