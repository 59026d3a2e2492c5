# SPDX-License-Identifier: Apache-2.0
"""Tasks with stated costs instead of code: they can be planned and simulated, but not run.

Graphs from files consist of them. Such a task has accesses, an operation and a signature like any other. Its operation
has one implementation of kind ``cost-only``, and its cost is stored in the signature's scalars, where the cost model
and the graph's fingerprint find it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from syclsched.errors import ArgumentError, ExecutionError
from syclsched.model.access import AccessMode
from syclsched.model.graph import TaskGraph
from syclsched.model.operation import Implementation, Operation, Parameter, Scalar, Signature, Work
from syclsched.model.task import ArrayRows, LogicalArray, Task

#: FLOP/s of the reference core for seconds stated without a device: 2.5 GHz with 16 double-precision operations a cycle
#: (two fused multiply-adds on 256 bits), a common server core. It only sets the scale when devices are compared.
REFERENCE_CORE_FLOPS = 2.5e9 * 16

#: Bytes per second of the reference link, for communication costs stated in seconds.
REFERENCE_LINK_BYTES_PER_S = 10e9

#: Limits: 30,000 years, and 9 PB, beyond which a double does not represent every byte count.
MAX_SECONDS = 1e12
MAX_BYTES = 1 << 53
#: Most cores of one task: a hundred times those of the largest machines.
MAX_CORES = 1e9

#: Pseudo device name for all devices that are not named.
ANY_DEVICE = "any"

#: Name of the only implementation of a cost-only operation.
STATED = "stated"

_SECONDS, _CORES, _ON = "seconds", "cores", "seconds_"


@dataclass(frozen=True, slots=True)
class StatedCost:
    """Stated cost of a task.

    Parameters
    ----------
    seconds : float or None, optional
        Seconds on ``cores`` reference cores (`REFERENCE_CORE_FLOPS`); None if the task runs only on the devices of
        ``on``.
    on : Mapping[str, float], optional
        Seconds by device name, by device kind (``cpu``, ``gpu``, ``accelerator``), or for ``any`` other device; takes
        precedence over ``seconds``.
    cores : float, optional
        Number of cores that the task keeps busy, 1 for a sequential task. It takes longer on a device with fewer.
    """

    seconds: float | None = None
    on: Mapping[str, float] = field(default_factory=dict)
    cores: float = 1.0

    def problem(self) -> str | None:
        """Return a description of the first invalid number, or None."""
        if self.seconds is None and not self.on:
            return "no cost is given"
        named = {} if self.seconds is None else {_SECONDS: self.seconds}
        for name, value in (*named.items(), *((f"{_ON}{device}", value) for device, value in self.on.items())):
            if not 0.0 <= value <= MAX_SECONDS:
                return f"{name} is {value!r}, not from 0 to {MAX_SECONDS:g}"
        if not 1.0 <= self.cores <= MAX_CORES:
            return f"cores is {self.cores!r}, not from 1 to {MAX_CORES:g}"
        return None

    def scalars(self) -> dict[str, Scalar]:
        """Return the cost as scalars of a signature."""
        found: dict[str, Scalar] = {} if self.seconds is None else {_SECONDS: float(self.seconds)}
        found[_CORES] = float(self.cores)
        found.update((f"{_ON}{device}", float(self.on[device])) for device in sorted(self.on))
        return found


def stated_cost(signature: Signature) -> StatedCost:
    """Return the stated cost in the signature of a task made by `add_cost_only`."""
    scalars = signature.scalars
    return StatedCost(
        seconds=scalars.get(_SECONDS),
        on={name.removeprefix(_ON): value for name, value in scalars.items() if name.startswith(_ON)},
        cores=scalars[_CORES],
    )


def is_cost_only(task: Task) -> bool:
    """Return whether a task has a stated cost instead of code."""
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
    """Add a task with a stated cost instead of code; raise `ArgumentError` if the cost is invalid.

    ``accesses`` lists each array or range of rows once, with its mode; ``family`` is the kind of work in reports.
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
    """Return the operation shared by all cost-only tasks with the same family, access modes and scalars."""
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
    """Return the work that the reference cores do in the stated time."""
    cost = stated_cost(signature)
    seconds = cost.seconds if cost.seconds is not None else min(cost.on.values())
    return Work(flops=seconds * REFERENCE_CORE_FLOPS * cost.cores, bytes=0.0, parallelism=cost.cores)
