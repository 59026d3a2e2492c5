# SPDX-License-Identifier: Apache-2.0
"""Plans: a schedule made executable, as plain data that prints, verifies, simulates and runs.

A plan holds, per lane, a list of instructions. A lane is an in-order queue: an instruction starts after
the one before it has finished. Every dependency between lanes is explicit: ``Instruction.waits`` lists
the instructions of other lanes that must have finished first.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Final, Literal

from annotated_types import MaxLen

from syclsched.model.access import AccessMode
from syclsched.model.platform import Platform
from syclsched.model.profile import ByteCount, Count, Name, NonNegative, Text
from syclsched.model.recipe import Recipe
from syclsched.model.schedule import Schedule
from syclsched.model.usm import ArrayMemory, UsmKind

PLAN_FORMAT: Final = "syclsched-plan/1"
InstructionKind = Literal["alloc", "free", "copy", "launch", "host", "barrier"]
LaneKind = Literal["compute", "copy", "host"]

_STRICT: dict[str, object] = {"extra": "forbid", "allow_inf_nan": False}


@dataclass(frozen=True, slots=True)
class BufferUse:
    """How an instruction touches one array's copy in one memory space.

    Parameters
    ----------
    array, space : str
        Which buffer.
    mode : AccessMode
        How.
    """

    __pydantic_config__: ClassVar[dict[str, object]] = _STRICT

    array: Name
    space: Name
    mode: AccessMode


@dataclass(frozen=True, slots=True)
class Instruction:
    """One step of a lane.

    Parameters
    ----------
    id : int
        Position in the plan's global order, which respects every dependency.
    kind : str
        ``alloc`` and ``free`` of a buffer (host work; ``free`` takes effect when all it waits for, and all before it
        on its lane, has finished, and holds nothing up), ``copy`` of an array from one space to another,
        ``launch`` of a kernel or library call, ``host`` function, ``barrier``.
    task : str or None
        The task it does, or for whose sake it is there.
    implementation : str or None
        For ``launch`` and ``host``.
    uses : tuple of BufferUse
        The buffers it touches. A copy reads one and writes one.
    waits : tuple of int
        Instructions of other lanes that must have finished before it starts.
    duration_s : float
        Predicted, alone on the machine.
    start_s, finish_s : float
        Predicted by simulation.
    nbytes : int
        For ``alloc``, ``free`` and ``copy``: the buffer's size.
    again : int
        For ``launch`` and ``host``: how many times the task has been done before. A temporary that was given up for
        lack of memory is made again by doing its task again.
    """

    __pydantic_config__: ClassVar[dict[str, object]] = _STRICT

    id: Count
    kind: InstructionKind
    task: Name | None = None
    implementation: Name | None = None
    uses: tuple[BufferUse, ...] = ()
    waits: tuple[Count, ...] = ()
    duration_s: NonNegative = 0.0
    start_s: NonNegative = 0.0
    finish_s: NonNegative = 0.0
    nbytes: ByteCount = 0
    again: Count = 0


@dataclass(frozen=True, slots=True)
class Lane:
    """An in-order queue of a device, or of the host, and what is done on it.

    Parameters
    ----------
    name : str
        ``cpu:0``, ``cpu:copy``, ``host:0``.
    device : str
        Device name.
    kind : str
        ``compute``, ``copy`` or ``host``.
    instructions : tuple of Instruction
        In order.
    """

    __pydantic_config__: ClassVar[dict[str, object]] = _STRICT

    name: Name
    device: Name
    kind: LaneKind
    instructions: tuple[Instruction, ...] = ()


@dataclass(frozen=True, slots=True)
class PlannedRows:
    """Which rows of which array, from the first to one past the last."""

    __pydantic_config__: ClassVar[dict[str, object]] = _STRICT

    array: Name
    start: Count
    stop: Count


@dataclass(frozen=True, slots=True)
class PlannedArray:
    """An array of the graph, as the plan needs it: `LogicalArray` with whether its value is an input.

    ``usm`` is the kind of memory that was asked for. An array that tasks touch in parts is followed by its segments,
    arrays of their own that have ``rows``. Tasks and copies touch these; memory is the whole's, and they lie in it one
    after another.
    """

    __pydantic_config__: ClassVar[dict[str, object]] = _STRICT

    name: Name
    shape: tuple[Count, ...]
    dtype: Name
    nbytes: ByteCount
    temporary: bool = False
    is_input: bool = False
    rows: PlannedRows | None = None
    usm: UsmKind | None = None


@dataclass(frozen=True, slots=True)
class PlannedAccess:
    """One task's access, as data."""

    __pydantic_config__: ClassVar[dict[str, object]] = _STRICT

    array: Name
    mode: AccessMode


@dataclass(frozen=True, slots=True)
class PlannedTask:
    """A task of the graph, as the verifier needs it.

    Parameters
    ----------
    name, kind, family : str
        As in `Task`.
    accesses : tuple of PlannedAccess
        What it touches, in the graph's order of submission.
    after : tuple of str
        Explicit and barrier dependencies.
    repeatable : bool
        Whether it may be done more than once: it does nothing but write what follows from what it reads, and no edge
        of the graph says that it does more.
    """

    __pydantic_config__: ClassVar[dict[str, object]] = _STRICT

    name: Name
    kind: Literal["kernel", "copy", "host", "barrier"]
    family: Name
    accesses: tuple[PlannedAccess, ...] = ()
    after: tuple[Name, ...] = ()
    repeatable: bool = False


@dataclass(frozen=True, slots=True)
class Counters:
    """What synchronisation a plan needs.

    Parameters
    ----------
    dependencies : int
        Dependencies of the graph.
    edges : int
        Dependencies between instructions before reduction.
    waits : int
        Cross-lane waits left after it.
    events : int
        Instructions some other lane waits for.
    barriers : int
        Fences and barriers that are submitted at most, as each backend needs them: fewer where what is waited for has
        completed by then.
    copies : int
        Copies between memory spaces.
    copied_bytes : int
        Their bytes.
    recomputed : int
        Launches of tasks that have been done before.
    """

    __pydantic_config__: ClassVar[dict[str, object]] = _STRICT

    dependencies: Count = 0
    edges: Count = 0
    waits: Count = 0
    events: Count = 0
    barriers: Count = 0
    copies: Count = 0
    copied_bytes: Count = 0
    recomputed: Count = 0


@dataclass(frozen=True, slots=True)
class Candidate:
    """One way the planner considered.

    Parameters
    ----------
    policy : str
        How it was made.
    makespan_s : float or None
        Predicted by simulation; None if it was not simulated.
    refused : str or None, optional
        Why it could not be planned; None if it could, or if it was not worth trying by ``modelled_s``.
    modelled_s : float or None, optional
        Its makespan by the scheduler's model; None if it has no timetable.
    """

    __pydantic_config__: ClassVar[dict[str, object]] = _STRICT

    policy: Text
    makespan_s: NonNegative | None
    refused: Text | None = None
    modelled_s: NonNegative | None = None


@dataclass(frozen=True, slots=True)
class Option:
    """What one task would have cost elsewhere, for `Plan.explain`.

    Parameters
    ----------
    task, device, implementation : str
        Names.
    seconds : float
        Predicted duration alone.
    origin : str
        ``measured``, ``modelled`` or ``spec-sheet``.
    """

    __pydantic_config__: ClassVar[dict[str, object]] = _STRICT

    task: Name
    device: Name
    implementation: Name
    seconds: NonNegative
    origin: Text


class _Referable:
    """Can be referred to weakly: what is worked out of a plan is kept for as long as the plan is."""

    __slots__ = ("__weakref__",)


@dataclass(frozen=True, slots=True)
class Plan(_Referable):
    """A schedule made executable.

    Parameters
    ----------
    name : str
        The graph's name.
    fingerprint : str
        Of the graph it plans (`TaskGraph.fingerprint`): as rewritten, if it was.
    policy : str
        The policy that made its schedule.
    platform : Platform
        What it was made for, without profiles.
    arrays, tasks : tuple
        The graph, as data.
    schedule : Schedule
        Where each task runs.
    lanes : tuple of Lane
        What is done, in order.
    makespan_s : float
        Predicted by simulation.
    peak_bytes : dict of str to int
        Peak memory per space, from liveness.
    counters : Counters
        Synchronisation and copies.
    candidates : tuple of Candidate
        What else was considered.
    options : tuple of Option
        What tasks would have cost elsewhere.
    lower_bound_s : float
        No plan of the graph (as rewritten) for the platform, by the same costs, has a shorter makespan; 0 if nothing is
        known.
    aim : str
        What was minimised, under which constraints.
    energy_j : float or None
        Of all devices until the makespan; None where a power is not known.
    interval_s : float
        What the busiest lane does in one run: no shorter time can pass between the starts of two runs.
    recipe : Recipe
        What was done to the graph before it was planned: tasks cut and merged; empty if nothing was. The plan runs with
        the original graph, and its names are those of the original.
    original_fingerprint : str or None
        Of the graph before that; None if it was not rewritten.
    constant_bytes : dict of str to int
        What constants take of each space, as they are, besides the peaks: an implementation may want another form.
    memory : tuple of ArrayMemory
        The kind of memory of arrays that do not lie in what is usual in a space.
    format : str
        The format's name and version.
    """

    __pydantic_config__: ClassVar[dict[str, object]] = _STRICT

    name: Text
    fingerprint: Name
    policy: Text
    platform: Platform
    arrays: Annotated[tuple[PlannedArray, ...], MaxLen(10_000_000)]
    tasks: Annotated[tuple[PlannedTask, ...], MaxLen(10_000_000)]
    schedule: Schedule
    lanes: tuple[Lane, ...]
    makespan_s: NonNegative = 0.0
    peak_bytes: dict[str, Count] = field(default_factory=dict)
    counters: Counters = field(default_factory=Counters)
    candidates: tuple[Candidate, ...] = ()
    options: tuple[Option, ...] = ()
    lower_bound_s: NonNegative = 0.0
    aim: Text = "minimize makespan"
    energy_j: NonNegative | None = None
    interval_s: NonNegative = 0.0
    recipe: Recipe = field(default_factory=Recipe)
    original_fingerprint: Name | None = None
    constant_bytes: dict[str, Count] = field(default_factory=dict)
    memory: Annotated[tuple[ArrayMemory, ...], MaxLen(10_000_000)] = ()
    format: Literal["syclsched-plan/1"] = PLAN_FORMAT

    @property
    def needed_bytes(self) -> dict[str, int]:
        """What a run needs of each space at its peak: arrays, constants, and inputs that lie there from the start."""
        found = dict(self.peak_bytes)
        for space, nbytes in (*self.constant_bytes.items(), *self.resident_bytes.items()):
            found[space] = found.get(space, 0) + nbytes
        return found

    @property
    def residents(self) -> dict[str, str]:
        """The space where an input lies when a run begins, by array, for those that have memory of the run's own."""
        found = {chosen.array: chosen.space for chosen in self.memory if chosen.resident}
        for array in self.arrays if found else ():
            if array.rows is not None and array.rows.array in found:
                found[array.name] = found[array.rows.array]
        return found

    @property
    def resident_bytes(self) -> dict[str, int]:
        """What these inputs take of each space, besides the peaks."""
        spaces, found = self.residents, dict[str, int]()
        for array in self.arrays if spaces else ():
            if array.name in spaces and array.rows is None:
                found[spaces[array.name]] = found.get(spaces[array.name], 0) + array.nbytes
        return found

    @property
    def gap(self) -> float | None:
        """By what share of the lower bound the makespan is above it; None if there is no bound.

        The bound is that of the scheduling problem. Simulation adds to its times (submission, hand-offs), and takes
        none away, so that the bound holds for the predicted makespan as well, and the gap is the most by which any
        plan could be better.
        """
        if self.lower_bound_s <= 0.0:
            return None
        return max(0.0, self.makespan_s / self.lower_bound_s - 1.0)

    def instructions(self) -> Iterator[tuple[Lane, Instruction]]:
        """Yield every instruction with its lane, in the plan's global order."""
        pairs = [(lane, i) for lane in self.lanes for i in lane.instructions]
        yield from sorted(pairs, key=lambda pair: pair[1].id)

    def __str__(self) -> str:
        from syclsched.model.printing import plan_text

        return plan_text(self)

    def explain(self, task: str) -> str:
        """Say where a task runs, when, why there, and what it would have cost elsewhere.

        Parameters
        ----------
        task : str
            Task name: of the original graph, or of the plan.

        Returns
        -------
        str
            A few lines of text; of a task that was merged, about what it was merged into, and of one that was cut,
            about its chunks.

        Raises
        ------
        GraphError
            If the plan has no such task.
        """
        from syclsched.model.printing import explain_task

        return explain_task(self, task)

    def to_json(self, *, indent: int | None = 1) -> str:
        """Return the plan as JSON text; `Plan.from_json` reads it back."""
        from syclsched.model.serial import to_json

        return to_json(self, indent=indent)

    @classmethod
    def from_json(cls, text: str | bytes, *, where: str = "plan") -> Plan:
        """Read a plan from JSON text; nothing in it is executed.

        Parameters
        ----------
        text : str or bytes
            JSON.
        where : str, optional
            The file's name, for errors.

        Returns
        -------
        Plan
            Checked against the schema; run `syclsched.planning.verify` on it before use (execution does).

        Raises
        ------
        FormatError
            If it is not a plan; names the place and what is expected there.
        """
        from syclsched.model.serial import from_json

        return from_json(cls, text, where=where)
