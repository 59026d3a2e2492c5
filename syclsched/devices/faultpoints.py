# SPDX-License-Identifier: Apache-2.0
"""Where faults can be injected into real queues: the points that submission, memory and host calls pass.

While nothing is injected, a point costs one look at a variable. What injects is in `syclsched.testing.faults`.
"""

from __future__ import annotations

import ctypes
from typing import Any, Literal, Protocol

from syclsched.devices.commands import CommandStructure

#: What becomes of a submission: it goes its way; it is refused; nothing is done in its stead, and it counts as failed;
#: it is done, and counts as failed all the same.
Verdict = Literal["pass", "refuse", "skip", "spoil"]
SubmissionKind = Literal["kernel", "copy", "fence"]

#: As of kinds of the compiled loop: fence, range, nd-range, copy.
_KINDS: tuple[SubmissionKind, ...] = ("fence", "kernel", "kernel", "copy", "kernel")
_FENCE = 0


class Target(Protocol):
    """Where submissions are known by number, and one can be said to have failed."""

    def fail(self, number: int) -> None:
        """Count what was submitted under a number as failed on its device."""

    def is_pending(self, number: int) -> bool:
        """Return whether what was submitted under a number has neither completed nor failed."""


class Faults(Protocol):
    """Decides what goes wrong; called from any thread."""

    def submits(self, device: str, queue: Any, kind: SubmissionKind, target: Target, number: int) -> Verdict:
        """Decide about a submission that is about to be made."""

    def submitted(self, device: str, target: Target, number: int) -> None:
        """Be told that a submission was made."""

    def allocates(self, queue: Any, nbytes: int) -> None:
        """Raise if an allocation of USM memory is to fail."""

    def calls(self, task: str | None, kind: str) -> None:
        """Raise if the host function, copy or barrier of a host lane is to fail; may take its time."""

    def uses(self, queue: Any) -> None:
        """Raise if a queue's device is lost: asked where something is submitted that is no instruction of a plan."""

    def forget(self, target: Target) -> None:
        """Be told that everything of a target has completed, and its events are given back."""


#: What injects faults now, if anything does.
active: Faults | None = None


def submit_with_faults(
    faults: Faults,
    target: Target,
    devices: dict[int, tuple[str, Any]],
    slots: int,
    submit: Any,
    commands: Any,
    count: int,
    submit_ns: int,
    made: int,
    made_count: Any,
    kept: list[Any],
) -> int:
    """Do what the loop in C does, one command at a time, and let some go wrong."""
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
            kept.append(command)  # threads of our own look at it when its turn comes
        here = ctypes.c_int64()
        pointer = ctypes.c_void_p(ctypes.addressof(command))
        one = submit(ctypes.byref(pointer), submit_ns + 8 * at, made + event_bytes * total, ctypes.byref(here))
        total += here.value
        made_count.value = total  # now: what decides may raise
        if not one:
            break
        done += 1
        if verdict != "pass":
            target.fail(number)
        faults.submitted(device, target, number)
    return done
