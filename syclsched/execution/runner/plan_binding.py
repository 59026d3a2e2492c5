# SPDX-License-Identifier: Apache-2.0
"""A plan compiled for open devices, with memory and prepared submissions if it can be replayed."""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from typing import TYPE_CHECKING

from syclsched.devices.native.submission_library import load_library
from syclsched.devices.programs.executables import Executable, needs_python
from syclsched.execution.core.program import MEMORY_KINDS, Program
from syclsched.execution.core.safeguards import DEFAULT_SAFEGUARDS, Safeguards
from syclsched.execution.core.work import compile_work
from syclsched.execution.dispatch.prepared import PreparedPlan
from syclsched.execution.lanes.lanes import queues_of
from syclsched.execution.replay.host_sync import plan_host_sync
from syclsched.execution.replay.instance_pool import InstancePool
from syclsched.interrupts import call_in_callback
from syclsched.progress import Progress

if TYPE_CHECKING:
    from syclsched.devices.opened_devices import OpenDevices


class PlanBinding:
    """The executables of a plan's work, and its instances from `allocate` on if it can be replayed."""

    def __init__(
        self,
        prepared: PreparedPlan,
        devices: OpenDevices,
        safeguards: Safeguards,
        *,
        trace: bool,
        progress: Progress | None = None,
    ) -> None:
        self._devices = devices
        self._queues = queues_of(prepared.plan, devices)
        self.prepared = prepared
        self.executables = compile_work(prepared.program, prepared.work, self._queues, devices.uploads, progress)
        submitting = {n: made for n, made in self.executables.items() if not prepared.work[n].writes_nothing}
        self.why_not_replayed = (
            "debug or nan_guard is on: instructions are done one at a time"
            if safeguards.stepped
            else "it has a priority or a share: each instruction waits for the run's turn"
            if safeguards.takes_turns
            else why_dispatcher_needed(prepared.program, submitting)
        )
        #: Whether it is not replayed as its memory, allocated beforehand, does not fit.
        self.lacks_memory = False
        if self.why_not_replayed is None:
            laid_out = prepared.with_layout()
            if laid_out.layout is not None:
                too_large = laid_out.layout.why_not(prepared.plan.platform)
                self.lacks_memory = too_large is not None
                self.why_not_replayed = too_large or why_delayed(laid_out.program)
            self.prepared = laid_out if self.why_not_replayed is None else prepared
        self.instances: InstancePool | None = None
        # Tracing, safeguards and deadlines need a `Run`; a one-call run has none.
        watched = trace or safeguards != DEFAULT_SAFEGUARDS or bool(prepared.deadlines_s)
        self.one_call_eligible = not watched and all(piece.status is None for piece in prepared.work.values())

    def allocate(self) -> None:
        """Make the first instance, with its memory, if the plan can be replayed."""
        if self.why_not_replayed is None:
            devices = self._devices
            self.instances = InstancePool(
                self.prepared,
                self.executables,
                load_library(),
                self._queues,
                devices,
                chains=self.one_call_eligible,  # the tasks of a chain have no times of their own
            )
            self._finalizer = weakref.finalize(self, call_in_callback, self.instances.abandon)
            self._finalizer.atexit = False  # each run has a finaliser of its own for that

    def release(self) -> None:
        """Release the memory of the instances when their runs have ended."""
        if self.instances is not None:
            self._finalizer.detach()
            self.instances.abandon()

    @property
    def why_not_on_threads(self) -> str | None:
        """Reason why the lanes use their devices' queues; None if lane threads execute the work, each on a core."""
        return self.why_not_replayed if self.instances is None else self.instances.why_not_on_threads

    @property
    def repeatable_inputs(self) -> frozenset[str] | None:
        """Names of the inputs that repeated one-call runs must be given; None if the plan has other inputs, too."""
        graph = self.prepared.graph
        if not self.one_call_eligible or self.instances is None or graph.data or graph.joined:
            return None
        return frozenset(self.prepared.inputs)


def why_delayed(program: Program) -> str | None:
    """Return why device work would wait too long for work of several host lanes; None if it would not."""
    if len({node.lane for node in program.nodes.values() if node.on_host}) < 2 or not plan_host_sync(program).delays:
        return None
    return "device work between functions on several lanes of the host would wait for more of them than it needs"


def why_dispatcher_needed(program: Program, executables: Mapping[int, Executable]) -> str | None:
    """Return why a plan needs a dispatcher while it runs; None if it does not."""
    for node in program.nodes.values():
        if node.instruction.kind in MEMORY_KINDS:
            continue
        name = node.instruction.task or node.instruction.kind
        executable = executables.get(node.id)
        if executable is not None and needs_python(executable):
            return f"{name!r} is submitted by a library that has no native call"
    return None
