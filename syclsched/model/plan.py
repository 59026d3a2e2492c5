# SPDX-License-Identifier: Apache-2.0
"""Plans: executable schedules, as plain data that can be printed, verified, simulated and run.

A plan holds a list of instructions per lane. A lane is an in-order queue: an instruction starts after its predecessor
has finished. Every dependency between lanes is explicit: ``Instruction.waits`` lists the instructions of other lanes
that must have finished first.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from annotated_types import MaxLen

from syclsched.model.access import AccessMode
from syclsched.model.platform import Platform
from syclsched.model.profile import ByteCount, Count, Name, NonNegative, Text
from syclsched.model.recipe import Recipe
from syclsched.model.schedule import Schedule, WeaklyReferable
from syclsched.model.text.json_serialisation import Serialisable
from syclsched.model.text.sections import sections_html
from syclsched.model.text.units import format_seconds, plural
from syclsched.model.usm import ArrayMemory, UsmKind
from syclsched.model.views.drawing import MAX_PICTURED, chart_png, plan_gantt, plan_report
from syclsched.model.views.printing import explain_task, plan_sections, plan_text

PLAN_FORMAT: Final = "syclsched-plan/2"
#: Formats that can be read.
PLAN_FORMATS: Final = ("syclsched-plan/1", PLAN_FORMAT)
#: Measured runs of a plan that tell what to expect.
_RUNS_ENOUGH: Final = 2

InstructionKind = Literal["alloc", "free", "copy", "launch", "host", "barrier"]
LaneKind = Literal["compute", "copy", "host"]


@dataclass(frozen=True, slots=True)
class BufferUse(Serialisable):
    """An instruction's access to the buffer of one array in one memory space.

    Parameters
    ----------
    array, space : str
        Array and memory space that identify the buffer.
    mode : AccessMode
        Access mode.
    """

    array: Name
    space: Name
    mode: AccessMode


@dataclass(frozen=True, slots=True)
class Instruction(Serialisable):
    """One instruction of a lane.

    Parameters
    ----------
    id : int
        Position in the plan's global order, which respects every dependency.
    kind : str
        ``alloc`` or ``free`` of a buffer (host work; ``free`` takes effect when the instructions in ``waits`` and all
        earlier ones on its lane have finished, and delays nothing), ``copy`` of an array from one space to another,
        ``launch`` of a kernel or library call, ``host`` function, ``barrier``.
    task : str or None
        The task it executes, or that it serves (for instance the task that needs a copy).
    implementation : str or None
        For ``launch`` and ``host``.
    uses : tuple of BufferUse
        The buffers it accesses. A copy reads one and writes one.
    waits : tuple of int
        Instructions of other lanes that must have finished before it starts.
    duration_s : float
        Predicted duration on an otherwise idle machine.
    start_s, finish_s : float
        Times predicted by simulation.
    nbytes : int
        For ``alloc``, ``free`` and ``copy``: the buffer's size.
    again : int
        For ``launch`` and ``host``: how often the task has been executed before. A temporary that was dropped for lack
        of memory is recomputed by executing its task again.
    """

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
class Lane(Serialisable):
    """An in-order queue of a device or of the host, with its instructions.

    Parameters
    ----------
    name : str
        ``cpu:0``, ``cpu:copy``, ``host:0``.
    device : str
        Device name.
    kind : str
        ``compute``, ``copy`` or ``host``.
    instructions : tuple of Instruction
        The instructions in order of submission.
    """

    name: Name
    device: Name
    kind: LaneKind
    instructions: tuple[Instruction, ...] = ()

    def __repr__(self) -> str:
        return f"<Lane {self.name!r} ({self.kind}): {plural(len(self.instructions), 'instruction')}>"


@dataclass(frozen=True, slots=True)
class PlannedRows(Serialisable):
    """A range of rows of an array: ``start`` is the first, ``stop`` one past the last."""

    array: Name
    start: Count
    stop: Count


@dataclass(frozen=True, slots=True)
class PlannedArray(Serialisable):
    """An array of the graph, as in `LogicalArray`, with a flag for inputs.

    ``usm`` is the kind of memory requested by the user. An array that tasks access in parts is followed by its
    segments, separate arrays with ``rows``. Tasks and copies access the segments; memory is allocated for the whole
    array, which contains them one after another.
    """

    name: Name
    shape: tuple[Count, ...]
    dtype: Name
    nbytes: ByteCount
    temporary: bool = False
    is_input: bool = False
    rows: PlannedRows | None = None
    usm: UsmKind | None = None
    donated: bool = False


@dataclass(frozen=True, slots=True)
class PlannedAccess(Serialisable):
    """One access of a task, by array (or segment) name."""

    array: Name
    mode: AccessMode


@dataclass(frozen=True, slots=True)
class PlannedTask(Serialisable):
    """A task of the graph, as needed by the verifier.

    Parameters
    ----------
    name, kind, family : str
        As in `Task`.
    accesses : tuple of PlannedAccess
        Its accesses, in the graph's order of submission.
    after : tuple of str
        Predecessors by explicit edges and barriers.
    repeatable : bool
        Whether it may be executed more than once: its operation is pure, and no edge of the graph implies a further
        effect.
    """

    name: Name
    kind: Literal["kernel", "copy", "host", "barrier"]
    family: Name
    accesses: tuple[PlannedAccess, ...] = ()
    after: tuple[Name, ...] = ()
    repeatable: bool = False


@dataclass(frozen=True, slots=True)
class Counters(Serialisable):
    """Synchronisation and copies of a plan.

    Parameters
    ----------
    dependencies : int
        Dependencies of the graph.
    edges : int
        Dependencies between instructions before reduction.
    waits : int
        Cross-lane waits after reduction.
    events : int
        Instructions that other lanes wait for.
    barriers : int
        Maximum number of fences and barriers submitted, depending on the backend; fewer if the awaited instruction has
        already completed.
    copies : int
        Copies between memory spaces.
    copied_bytes : int
        Total bytes of these copies.
    recomputed : int
        Repeated launches of tasks, to recompute values dropped for lack of memory.
    """

    dependencies: Count = 0
    edges: Count = 0
    waits: Count = 0
    events: Count = 0
    barriers: Count = 0
    copies: Count = 0
    copied_bytes: Count = 0
    recomputed: Count = 0


@dataclass(frozen=True, slots=True)
class Candidate(Serialisable):
    """One candidate plan that the planner considered.

    Parameters
    ----------
    policy : str
        The policy that made it.
    makespan_s : float or None
        Predicted by simulation; None if it was not simulated.
    refused : str or None, optional
        Why no plan could be made; None if it could, or was not tried because of its ``modelled_s``.
    modelled_s : float or None, optional
        Its makespan by the scheduler's model; None if it has no schedule.
    """

    policy: Text
    makespan_s: NonNegative | None
    refused: Text | None = None
    modelled_s: NonNegative | None = None


@dataclass(frozen=True, slots=True)
class PlanTrial(Serialisable):
    """Measured makespan of one of the plans that runs have tried.

    Parameters
    ----------
    policy : str
        The policy that made it.
    predicted_s : float
        Its makespan as predicted by simulation.
    measured_s : float or None
        Median of its runs; None if it has not run.
    runs : int
        Number of its runs.
    kept : bool
        Whether it was the fastest and is kept; false for all while the plans are still tried in turn.
    """

    policy: Text
    predicted_s: NonNegative
    measured_s: NonNegative | None = None
    runs: Count = 0
    kept: bool = False


@dataclass(frozen=True, slots=True)
class Option(Serialisable):
    """Cost of one task on one device with one implementation, for `Plan.explain`.

    Parameters
    ----------
    task, device, implementation : str
        Names.
    seconds : float
        Predicted duration on an otherwise idle machine.
    origin : str
        ``measured``, ``modelled`` or ``spec-sheet``.
    uncertainty : float, optional
        Relative uncertainty of the seconds.
    """

    task: Name
    device: Name
    implementation: Name
    seconds: NonNegative
    origin: Text
    uncertainty: NonNegative = 0.0


@dataclass(frozen=True, slots=True)
class Refusal(Serialisable):
    """An implementation of a task that a device or library refused to run when it was to be timed.

    Parameters
    ----------
    task, device, implementation : str
        Names.
    reason : str
        The error.
    """

    task: Name
    device: Name
    implementation: Name
    reason: Text


@dataclass(frozen=True, slots=True)
class Plan(Serialisable, WeaklyReferable):
    """An executable schedule.

    Parameters
    ----------
    name : str
        The graph's name.
    fingerprint : str
        Fingerprint of the planned graph (`TaskGraph.fingerprint`), after rewriting if it was rewritten.
    policy : str
        The policy that made its schedule.
    platform : Platform
        The platform it was made for, without profiles.
    arrays, tasks : tuple
        The planned graph, as data.
    schedule : Schedule
        Placement of each task.
    lanes : tuple of Lane
        The instructions of each lane, in order.
    makespan_s : float
        Makespan predicted by simulation; `expected_s` also heeds measured runs.
    peak_bytes : dict of str to int
        Peak memory per space, from liveness.
    counters : Counters
        Synchronisation and copies.
    candidates : tuple of Candidate
        The candidates that were considered.
    trials : tuple of PlanTrial
        Measured makespans of this plan, which is the first, and of others whose predictions are as good within their
        uncertainty; empty if none has run.
    options : tuple of Option
        Costs of the tasks on other devices.
    refusals : tuple of Refusal
        Implementations that were not considered, because a device or library refuses them.
    lower_bound_s : float
        Lower bound of the makespan of any plan of the graph (as rewritten) for the platform, with the same costs; 0 if
        unknown.
    aim : str
        The objective and the constraints.
    energy_j : float or None
        Energy of all devices until the makespan; None if a device's power is unknown.
    interval_s : float
        Busy time of the busiest lane in one run: the shortest possible interval between the starts of two runs.
    recipe : Recipe
        Rewrites of the graph before planning: split and merged tasks; empty if there were none. The plan runs with the
        original graph, and inputs and results have the original names.
    original_fingerprint : str or None
        Fingerprint of the graph before rewriting; None if it was not rewritten.
    constant_bytes : dict of str to int
        Bytes of constants per space, in addition to the peaks; without the layout changes of implementations.
    memory : tuple of ArrayMemory
        The kind of memory of arrays that do not use their space's default kind.
    format : str
        Name and version of the file format.

    Examples
    --------
    >>> import syclsched
    >>> from syclsched.kernels import get
    >>> graph = syclsched.TaskGraph("scaled")
    >>> task = graph.kernel(get("scale"), name="double", x=graph.array("x", (1 << 20,)), alpha=2.0)
    >>> plan = syclsched.plan(graph, syclsched.describe("max1550"), policy="heft")
    >>> plan.name, plan.policy, len(plan.tasks)
    ('scaled', 'heft', 1)
    >>> syclsched.Plan.from_json(plan.to_json()) == plan
    True
    """

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
    trials: tuple[PlanTrial, ...] = ()
    options: tuple[Option, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    lower_bound_s: NonNegative = 0.0
    aim: Text = "minimize makespan"
    energy_j: NonNegative | None = None
    interval_s: NonNegative = 0.0
    recipe: Recipe = field(default_factory=Recipe)
    original_fingerprint: Name | None = None
    constant_bytes: dict[str, Count] = field(default_factory=dict)
    memory: Annotated[tuple[ArrayMemory, ...], MaxLen(10_000_000)] = ()
    format: Literal["syclsched-plan/1", "syclsched-plan/2"] = PLAN_FORMAT

    @property
    def needed_bytes(self) -> dict[str, int]:
        """Peak bytes that a run needs of each space: arrays, constants, and inputs that reside there from the start."""
        found = dict(self.peak_bytes)
        for space, nbytes in (*self.constant_bytes.items(), *self.resident_bytes.items()):
            found[space] = found.get(space, 0) + nbytes
        return found

    @property
    def residents(self) -> dict[str, str]:
        """The space of each input that resides in memory of the run from its start, by array."""
        found = {chosen.array: chosen.space for chosen in self.memory if chosen.resident}
        for array in self.arrays if found else ():
            if array.rows is not None and array.rows.array in found:
                found[array.name] = found[array.rows.array]
        return found

    @property
    def resident_bytes(self) -> dict[str, int]:
        """Bytes of resident inputs per space, in addition to the peaks."""
        spaces, found = self.residents, dict[str, int]()
        for array in self.arrays if spaces else ():
            if array.name in spaces and array.rows is None:
                found[spaces[array.name]] = found.get(spaces[array.name], 0) + array.nbytes
        return found

    @property
    def expected_s(self) -> float:
        """Makespan to expect: the median of the plan's measured runs, if there were several, or else `makespan_s`."""
        own = self.trials[0] if self.trials else None
        if own is None or own.measured_s is None or own.runs < _RUNS_ENOUGH:
            return self.makespan_s
        return own.measured_s

    @property
    def gap(self) -> float | None:
        """Relative distance of the makespan from its lower bound; None if there is no bound.

        The bound is that of the scheduling problem. Simulation only adds to its times (submission, hand-offs), so the
        bound also holds for the predicted makespan, and no plan can be better by more than the gap.
        """
        if self.lower_bound_s <= 0.0:
            return None
        return max(0.0, self.makespan_s / self.lower_bound_s - 1.0)

    def instructions(self) -> Iterator[tuple[Lane, Instruction]]:
        """Yield every instruction with its lane, in the plan's global order."""
        pairs = [(lane, i) for lane in self.lanes for i in lane.instructions]
        yield from sorted(pairs, key=lambda pair: pair[1].id)

    def __str__(self) -> str:
        return plan_text(self)

    def __repr__(self) -> str:
        size = f"{plural(len(self.tasks), 'task')} on {plural(len(self.lanes), 'lane')}"
        return f"<Plan of {self.name!r}, policy {self.policy!r}: {size}, {format_seconds(self.expected_s)} predicted>"

    def _repr_html_(self) -> str:
        small = sum(len(lane.instructions) for lane in self.lanes) <= MAX_PICTURED
        return sections_html(plan_sections(self), chart_png(plan_gantt(self)) if small else None)

    def explain(self, task: str) -> str:
        """Explain a task's placement: device, times, the work it waits for, and its cost on other devices.

        Parameters
        ----------
        task : str
            Name of a task of the original graph or of the plan.

        Returns
        -------
        str
            A few lines of text. For a merged task they describe the merged whole, for a split one its chunks.

        Raises
        ------
        GraphError
            If the plan has no such task.

        Examples
        --------
        >>> import syclsched
        >>> from syclsched.kernels import get
        >>> graph = syclsched.TaskGraph()
        >>> task = graph.kernel(get("scale"), name="double", x=graph.array("x", (1 << 20,)), alpha=2.0)
        >>> print(syclsched.plan(graph, syclsched.describe("max1550"), policy="heft").explain("double"))
        double...
        """
        return explain_task(self, task)

    def report(self, path: str | Path) -> None:
        """Write one HTML page about the plan, to open in a browser; it needs no network.

        It has the predicted Gantt chart (to zoom, with the history of each task), the memory in use, the reasons of
        idle lanes, the critical path, and the plans that were compared.

        Parameters
        ----------
        path : str or Path
            The file to write, as ``plan.html``.

        Raises
        ------
        StorageError
            If the file cannot be written.
        """
        plan_report(self, path)

    def gantt(self, path: str | Path | None = None) -> Any:
        """Draw the plan's predicted times as a Gantt chart: a row for each lane, a colour for each family of tasks.

        Parameters
        ----------
        path : str or Path, optional
            File to write, as PNG, SVG or PDF by its ending.

        Returns
        -------
        matplotlib.figure.Figure
            The chart; notebooks show it.

        Examples
        --------
        >>> import syclsched
        >>> graph = syclsched.TaskGraph("two")
        >>> x = graph.array("x", (1000,), "float64")
        >>> task = graph.host(lambda x: x.fill(1.0), x=x.write(), name="fill")
        >>> task = graph.host(lambda x: x.sum(), x=x.read(), name="sum")
        >>> plan = syclsched.plan(graph, syclsched.describe("max1550"), policy="heft")
        >>> figure = plan.gantt("plan.svg")
        >>> len(figure.axes)
        1
        """
        return plan_gantt(self, path)

    def to_json(self, *, indent: int | None = 1) -> str:
        """Return the plan as JSON text; `Plan.from_json` reads it back.

        Examples
        --------
        >>> import syclsched
        >>> from syclsched.kernels import get
        >>> graph = syclsched.TaskGraph()
        >>> task = graph.kernel(get("scale"), name="double", x=graph.array("x", (1 << 20,)), alpha=2.0)
        >>> plan = syclsched.plan(graph, syclsched.describe("max1550"), policy="heft")
        >>> with open("plan.json", "w", encoding="utf-8") as file:
        ...     length = file.write(plan.to_json())
        """
        from syclsched.model.plan_file.plan_document import plan_to_json  # it needs the classes of this module

        return plan_to_json(self, indent=indent)

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
            If it is not a valid plan; names the place and what is expected there.

        Examples
        --------
        >>> import syclsched
        >>> from syclsched.kernels import get
        >>> graph = syclsched.TaskGraph()
        >>> task = graph.kernel(get("scale"), name="double", x=graph.array("x", (1 << 20,)), alpha=2.0)
        >>> text = syclsched.plan(graph, syclsched.describe("max1550"), policy="heft").to_json()
        >>> syclsched.Plan.from_json(text).policy
        'heft'
        >>> syclsched.Plan.from_json("{}", where="plan.json")
        Traceback (most recent call last):
        syclsched.errors.FormatError: plan.json...
        """
        from syclsched.model.plan_file.plan_document import plan_from_json

        return plan_from_json(text, where=where)
