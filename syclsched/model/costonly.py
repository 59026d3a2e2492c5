# SPDX-License-Identifier: Apache-2.0
"""Tasks that are known by what they cost, without code: they can be planned and simulated, not run.

Graphs from files are made of them. Such a task is an ordinary task of the graph: it touches arrays, it has an operation
and a signature. Its operation's one implementation is of kind ``cost-only``, and the cost stands among the signature's
scalars, where the cost model and the graph's fingerprint find it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from syclsched.errors import ArgumentError, ExecutionError
from syclsched.model.access import AccessMode
from syclsched.model.graph import TaskGraph
from syclsched.model.operation import Implementation, Operation, Parameter, Scalar, Signature, Work
from syclsched.model.task import ArrayRows, LogicalArray, Task

#: FLOP/s of the core that seconds without a device are stated for: 2.5 GHz with 16 double-precision operations a cycle
#: (two fused multiply-adds on 256 bits), a common server core. It only fixes what 1.0 means when devices are compared.
REFERENCE_CORE_FLOPS = 2.5e9 * 16

#: Bytes a second of the link that communication costs without bytes are stated for.
REFERENCE_LINK_BYTES_PER_S = 10e9

#: Longer times (30,000 years) and larger arrays (9 PB, beyond which a double does not count bytes) are mistakes.
MAX_SECONDS = 1e12
MAX_BYTES = 1 << 53

#: In place of a device's name: every device that is not named.
ANY_DEVICE = "any"

#: Name of the implementation of every cost-only operation.
STATED = "stated"

_SECONDS, _CORES, _ON = "seconds", "cores", "seconds_"


@dataclass(frozen=True, slots=True)
class StatedCost:
    """What a task takes.

    Parameters
    ----------
    seconds : float or None, optional
        On ``cores`` reference cores (`REFERENCE_CORE_FLOPS`); None if the task runs on the devices of ``on`` only.
    on : Mapping[str, float], optional
        Seconds on a device by its name, by its kind (``cpu``, ``gpu``, ``accelerator``), or on ``any`` other; what
        they say comes before ``seconds``.
    cores : float, optional
        How many cores it keeps busy, 1 for a sequential task; on a device with fewer it takes longer.
    """

    seconds: float | None = None
    on: Mapping[str, float] = field(default_factory=dict)
    cores: float = 1.0

    def problem(self) -> str | None:
        """Return what is wrong with the numbers, or None."""
        if self.seconds is None and not self.on:
            return "no cost is given"
        named = {} if self.seconds is None else {_SECONDS: self.seconds}
        for name, value in (*named.items(), *((f"{_ON}{device}", value) for device, value in self.on.items())):
            if not 0.0 <= value <= MAX_SECONDS:
                return f"{name} is {value!r}, not from 0 to {MAX_SECONDS:g}"
        if not 1.0 <= self.cores < math.inf:
            return f"cores is {self.cores!r}, not 1 or more"
        return None

    def scalars(self) -> dict[str, Scalar]:
        """Return it as scalars of a signature."""
        found: dict[str, Scalar] = {} if self.seconds is None else {_SECONDS: float(self.seconds)}
        found[_CORES] = float(self.cores)
        found.update((f"{_ON}{device}", float(self.on[device])) for device in sorted(self.on))
        return found


def stated_cost(signature: Signature) -> StatedCost:
    """Return the cost that the signature of a cost-only task states.

    Parameters
    ----------
    signature : Signature
        Of a task made by `add_cost_only`.

    Returns
    -------
    StatedCost
        As given there.
    """
    scalars = signature.scalars
    return StatedCost(
        seconds=scalars.get(_SECONDS),
        on={name.removeprefix(_ON): value for name, value in scalars.items() if name.startswith(_ON)},
        cores=scalars[_CORES],
    )


def is_cost_only(task: Task) -> bool:
    """Whether a task has costs instead of code."""
    operation = task.operation
    return operation is not None and all(i.kind == "cost-only" for i in operation.implementations)


def add_cost_only(
    graph: TaskGraph,
    name: str,
    cost: StatedCost,
    accesses: Sequence[tuple[LogicalArray | ArrayRows, AccessMode]] = (),
    *,
    family: str = "task",
    priority: int = 0,
) -> Task:
    """Add a task with costs instead of code.

    Parameters
    ----------
    graph : TaskGraph
        To which.
    name : str
        Unique task name.
    cost : StatedCost
        What it takes.
    accesses : sequence of (LogicalArray or ArrayRows, AccessMode), optional
        The arrays, or the rows of some, that it touches, each once, and how.
    family : str, optional
        What kind of work it is, for reports and charts.
    priority : int, optional
        Larger runs earlier among equals.

    Returns
    -------
    Task
        The new task.

    Raises
    ------
    ArgumentError
        If the cost is none: missing, negative, not a number, or too large.
    """
    wrong = cost.problem()
    if wrong is not None:
        raise ArgumentError(wrong, where=f"task {name!r}")
    scalars = cost.scalars()
    operation = _operation(family, tuple(mode for _, mode in accesses), tuple(scalars))
    arguments: dict[str, Any] = {f"a{i}": array for i, (array, _) in enumerate(accesses)}
    return graph.kernel(operation, name=name, priority=priority, retries=0, **arguments, **scalars)


@lru_cache(maxsize=4096)
def _operation(family: str, modes: tuple[AccessMode, ...], scalars: tuple[str, ...]) -> Operation:
    """Return the operation of all tasks that touch as many arrays in the same ways."""
    arrays = tuple([Parameter(f"a{i}", mode) for i, mode in enumerate(modes)])
    numbers = tuple([Parameter(scalar, dtype="float64") for scalar in scalars])
    return Operation(
        name=family,
        parameters=(*arrays, *numbers),
        implementations=(Implementation(STATED, "cost-only", load=_refuse, efficiency=1.0),),
        work=_work,
    )


def _refuse(signature: Signature) -> Any:
    raise ExecutionError(
        "it has costs only: it can be planned and simulated, not run", hint="Give the task an operation with code"
    )


def _work(signature: Signature) -> Work:
    """Return as many operations as the reference cores do in the time, spread over as many cores."""
    cost = stated_cost(signature)
    seconds = cost.seconds if cost.seconds is not None else min(cost.on.values())
    return Work(flops=seconds * REFERENCE_CORE_FLOPS * cost.cores, bytes=0.0, parallelism=cost.cores)
