# SPDX-License-Identifier: Apache-2.0
"""Costs from the attributes of nodes and edges, as DOT and GraphML files carry them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from syclsched.errors import FormatError
from syclsched.frontends.assemble import ListedTask, check_bytes, check_name, shown
from syclsched.frontends.units import Units
from syclsched.model.costonly import MAX_SECONDS

#: Attributes of a node that say what it costs; with a device's name behind: what it costs there (``seconds_cpu``).
_COSTS = ("seconds", "cost", "weight")

#: Other attributes of a node that say something here, and those of an edge; all others are left out.
_OF_NODE = frozenset({"cores", "priority", "family"})
_OF_EDGE = frozenset({"bytes", "cost", "weight"})

#: More devices than this are not told apart in one node.
_MAX_DEVICES = 64

#: Numbers as files write them; Python would read more than that (``1_000``, digits of other scripts).
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")

#: Refused, too, but for what they are.
_NOT_FINITE = frozenset({"nan", "+nan", "-nan", "inf", "+inf", "-inf", "infinity", "+infinity", "-infinity"})


@dataclass(frozen=True, slots=True)
class Names:
    """Which attributes say something here: those that are known, in any case of letters, or those the user names."""

    #: See `Units`.
    task_cost: str | None = None
    edge_cost: str | None = None

    @classmethod
    def of(cls, units: Units) -> Names:
        """Return the names that go with units."""
        return cls(units.task_cost, units.edge_cost)

    def of_node(self, name: str) -> str | None:
        """Return what an attribute of a node is called here; None if it says nothing."""
        if name.lower() in _OF_NODE:
            return name.lower()
        if self.task_cost is not None:
            known = name == self.task_cost or name.startswith(f"{self.task_cost}_")
            return f"cost{name[len(self.task_cost) :]}" if known else None
        kind, joint, device = name.partition("_")
        return kind.lower() + joint + device if kind.lower() in _COSTS else None

    def of_edge(self, name: str) -> str | None:
        """Return what an attribute of an edge is called here; None if it says nothing."""
        if self.edge_cost is not None:
            return "cost" if name == self.edge_cost else None
        return name.lower() if name.lower() in _OF_EDGE else None


def number(text: str, what: str, where: str) -> float:
    """Return a finite number of zero or more."""
    if not _NUMBER.fullmatch(text.strip()) and text.strip().lower() not in _NOT_FINITE:
        raise FormatError(f"{what} is {shown(text)}, expected a number", where=where)
    value = float(text)
    if not 0.0 <= value <= max(MAX_SECONDS, 1e18):
        raise FormatError(f"{what} is {shown(text)}, expected a finite number of zero or more", where=where)
    return value


def listed_task(name: str, attributes: Mapping[str, str], units: Units, where: str) -> ListedTask:
    """Return a node as a task."""
    on: dict[str, float] = {}
    seconds: float | None = None
    # What comes later in this order comes first in meaning.
    for key, unit_s in (("weight", units.time_s), ("cost", units.time_s), ("seconds", 1.0)):
        if key in attributes:
            seconds = number(attributes[key], key, where) * unit_s
        for attribute, text in attributes.items():
            if attribute.startswith(f"{key}_"):
                on[check_name(attribute[len(key) + 1 :], where)] = number(text, attribute, where) * unit_s
    if seconds is None and not on:
        raise FormatError(
            f"task {shown(name)} has no cost, expected an attribute "
            + (units.task_cost or "seconds, cost or weight, or seconds_<device>"),
            where=where,
            hint="If an attribute of another name holds the costs, name it: --task-cost",
        )
    if len(on) > _MAX_DEVICES:
        raise FormatError(f"costs for {len(on)} devices, expected {_MAX_DEVICES} at most", where=where)
    cores = number(attributes.get("cores", "1"), "cores", where)
    return ListedTask(
        name,
        units.cost(seconds, on, cores),
        where,
        family=check_name(attributes.get("family", "task"), where),
        priority=_priority(attributes.get("priority", "0"), where),
    )


def edge_bytes(attributes: Mapping[str, str], units: Units, where: str) -> int:
    """Return the bytes that flow along an edge; 0 if it says nothing of them."""
    if "bytes" in attributes:
        return check_bytes(number(attributes["bytes"], "bytes", where), where)
    for key in ("cost", "weight"):
        if key in attributes:
            return check_bytes(number(attributes[key], key, where) * units.bytes, where)
    return 0


def _priority(text: str, where: str) -> int:
    try:
        value = int(text)
    except ValueError:
        raise FormatError(f"priority is {shown(text)}, expected a whole number", where=where) from None
    if not -(1 << 31) <= value < 1 << 31:
        raise FormatError(f"priority is {shown(text)}, expected a number of 32 bits", where=where)
    return value
