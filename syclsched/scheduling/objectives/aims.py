# SPDX-License-Identifier: Apache-2.0
"""Objective and constraints of a plan, as data: ``minimize(X).subject_to(Y <= ...)``."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Final

from syclsched.errors import PolicyError, did_you_mean
from syclsched.model.text.quantities import Dimension, format_quantity, parse_quantity

#: Metrics that can be minimised or bounded from above, with their dimensions.
METRICS: Final[dict[str, Dimension]] = {
    "makespan": "time", "interval": "time", "energy": "energy", "memory": "bytes",
}  # fmt: skip

#: Name that users type for the initiation interval; its limits are from below.
THROUGHPUT: Final = "throughput"
#: Name that users of models type for the makespan of one run.
LATENCY: Final = "latency"

_METRIC: Final = re.compile(r"\s*([a-z]+)\s*(?:\[\s*([^\[\]]+?)\s*\])?\s*")
_SIDES: Final = re.compile(r"([^<>=≤≥]*)(<=|>=|==|<|>|=|≤|≥)(.*)")


@dataclass(frozen=True, slots=True)
class Constraint:
    """A limit on one metric."""

    metric: str  # ``makespan``, ``interval``, ``energy`` or ``memory``
    limit: float  # upper limit in seconds, joules or bytes
    #: For ``memory``: one space, named as on the platform or by a device whose home it is; None for every space.
    space: str | None = None

    def __post_init__(self) -> None:
        _check_metric(self.metric, self.space, "constraint")
        if not self.limit >= 0.0:
            raise PolicyError(f"{self.limit!r} is not a limit of zero or more", where=f"constraint on {self.label}")

    @property
    def label(self) -> str:
        """The metric as it is typed, such as ``memory[gpu]``."""
        return _label_of(self.metric, self.space)

    def __str__(self) -> str:
        return f"{self.label} <= {format_quantity(self.limit, METRICS[self.metric])}"

    @classmethod
    def parse(cls, text: str) -> Constraint:
        """Parse a constraint from the text that users type."""
        where = f"constraint {text.strip()!r}"
        sides = _SIDES.fullmatch(text)
        if not sides:
            raise PolicyError("there is no '<='", where=where, hint="As makespan <= 20ms")
        metric, space = _parse_metric(sides[1], where)
        rate = metric == THROUGHPUT
        wanted = (">=", "≥") if rate else ("<=", "≤")
        if sides[2] not in wanted:
            raise PolicyError(f"{metric} can be limited by {wanted[0]!r} only, not {sides[2]!r}", where=where)
        if not rate:
            return cls(metric, parse_quantity(sides[3], METRICS[metric], where=where, raising=PolicyError), space)
        least = parse_quantity(sides[3], "rate", where=where, raising=PolicyError)
        if least == 0.0:
            raise PolicyError("every throughput is at least 0", where=where, hint="Leave it out")
        return cls("interval", 1.0 / least)


@dataclass(frozen=True, slots=True)
class Aim:
    """Objective and constraints of a search; made by `minimize`."""

    metric: str = "makespan"  # ``makespan``, ``interval`` (initiation interval in steady state), ``energy``, ``memory``
    space: str | None = None  # for ``memory``: as in `Constraint`
    constraints: tuple[Constraint, ...] = ()  # all must hold

    def __post_init__(self) -> None:
        _check_metric(self.metric, self.space, "minimize")

    def subject_to(self, *constraints: str | Constraint) -> Aim:
        """Return the same aim with more constraints."""
        more = tuple(Constraint.parse(c) if isinstance(c, str) else c for c in constraints)
        return replace(self, constraints=self.constraints + more)

    @property
    def label(self) -> str:
        """The minimised metric as it is typed."""
        return _label_of(self.metric, self.space)

    @property
    def plain(self) -> bool:
        """Whether this is the unconstrained makespan, the objective of every policy."""
        return self.metric == "makespan" and not self.constraints

    def uses(self, metric: str) -> bool:
        """Return whether a metric is minimised or limited."""
        return self.metric == metric or any(c.metric == metric for c in self.constraints)

    def __str__(self) -> str:
        limits = ", ".join(map(str, self.constraints))
        return f"minimize {self.label}" + (f" subject to {limits}" if limits else "")


def minimize(metric: str) -> Aim:
    """Return an aim without constraints.

    Examples
    --------
    >>> str(minimize("energy").subject_to("makespan <= 20ms", "memory[gpu] <= 1GiB"))
    'minimize energy subject to makespan <= 20.00 ms, memory[gpu] <= 1.000 GiB'
    """
    name, space = _parse_metric(metric, "minimize")
    return Aim("interval" if name == THROUGHPUT else name, space)


def _label_of(metric: str, space: str | None) -> str:
    """Return a metric as it is typed."""
    return metric if space is None else f"{metric}[{space}]"


# --- inside ---------------------------------------------------------------------------------------


def _parse_metric(text: str, where: str) -> tuple[str, str | None]:
    found = _METRIC.fullmatch(text)
    if not found:
        raise PolicyError(f"{text.strip()!r} is not a metric", where=where, hint=_known_metrics())
    name, space = found[1], found[2]
    if name == THROUGHPUT:
        if space is not None:
            raise PolicyError("only memory has a space", where=where, hint="As memory[gpu]")
        return name, None
    name = "makespan" if name == LATENCY else name
    _check_metric(name, space, where)
    return name, space


def _check_metric(metric: str, space: str | None, where: str) -> None:
    if metric not in METRICS:
        known = [*METRICS, LATENCY, THROUGHPUT]
        raise PolicyError(f"no metric {metric!r}", where=where, hint=did_you_mean(metric, known) + _known_metrics())
    if space is not None and metric != "memory":
        raise PolicyError("only memory has a space", where=where, hint="As memory[gpu]")


def _known_metrics() -> str:
    return f"There are {', '.join([*METRICS, LATENCY, THROUGHPUT])}, memory[SPACE]"
