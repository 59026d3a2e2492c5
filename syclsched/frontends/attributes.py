# SPDX-License-Identifier: Apache-2.0
"""Task and edge costs from the node and edge attributes of DOT and GraphML files."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from syclsched.errors import FormatError
from syclsched.frontends.assemble import ListedTask, check_bytes, check_name, quoted_name
from syclsched.frontends.graph_units import Units
from syclsched.model.cost_only import MAX_SECONDS

#: Node attributes that hold a cost; a device name may follow, for the cost on that device (``seconds_cpu``).
_COSTS = ("seconds", "cost", "weight")

#: Other recognised attributes of nodes, and those of edges; all others are ignored.
_OF_NODE = frozenset({"cores", "priority", "family"})
_OF_EDGE = frozenset({"bytes", "cost", "weight"})

#: Most devices with a cost of their own in one node.
_MAX_DEVICES = 64

#: Largest number of a file, for any count.
_MOST = max(MAX_SECONDS, 1e18)

#: Accepted number syntax. Python's ``float`` accepts more (``1_000``, digits of other scripts).
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")

#: Refused with a message of their own: they are numbers, but not finite.
_NOT_FINITE = frozenset({"nan", "+nan", "-nan", "inf", "+inf", "-inf", "infinity", "+infinity", "-infinity"})


@dataclass(frozen=True, slots=True)
class AttributeNames:
    """The recognised attribute names: the built-in ones, in any letter case, or those the user gives."""

    #: See `Units`.
    task_cost: str | None = None
    edge_cost: str | None = None

    def of_node(self, name: str) -> str | None:
        """Return the canonical name of a node attribute; None if it is not recognised."""
        if name.lower() in _OF_NODE:
            return name.lower()
        if self.task_cost is not None:
            known = name == self.task_cost or name.startswith(f"{self.task_cost}_")
            return f"cost{name[len(self.task_cost) :]}" if known else None
        kind, joint, device = name.partition("_")
        return kind.lower() + joint + device if kind.lower() in _COSTS else None

    def of_edge(self, name: str) -> str | None:
        """Return the canonical name of an edge attribute; None if it is not recognised."""
        if self.edge_cost is not None:
            return "cost" if name == self.edge_cost else None
        return name.lower() if name.lower() in _OF_EDGE else None


def is_cost(attribute: str) -> bool:
    """Return whether a node attribute holds a cost, by its canonical name."""
    return attribute.partition("_")[0] in _COSTS


def parse_number(text: str, what: str, where: str) -> float:
    """Parse a finite, non-negative number."""
    if not _NUMBER.fullmatch(text.strip()) and text.strip().lower() not in _NOT_FINITE:
        raise FormatError(f"{what} is {quoted_name(text)}, expected a number", where=where)
    value = float(text)
    if not 0.0 <= value <= _MOST:
        raise FormatError(f"{what} is {quoted_name(text)}, expected a finite number from 0 to {_MOST:g}", where=where)
    return value


def listed_task(name: str, attributes: Mapping[str, str], units: Units, where: str) -> ListedTask:
    """Convert a node's attributes to a task."""
    seconds_on: dict[str, float] = {}
    seconds: float | None = None
    # Later keys take precedence over earlier ones.
    for key, unit_s in (("weight", units.time_s), ("cost", units.time_s), ("seconds", 1.0)):
        if key in attributes:
            seconds = parse_number(attributes[key], key, where) * unit_s
        for attribute, text in attributes.items():
            if attribute.startswith(f"{key}_"):
                seconds_on[check_name(attribute[len(key) + 1 :], where)] = parse_number(text, attribute, where) * unit_s
    if seconds is None and not seconds_on:
        raise FormatError(
            f"task {quoted_name(name)} has no cost, expected an attribute "
            + (units.task_cost or "seconds, cost or weight, or seconds_<device>"),
            where=where,
            hint="If an attribute of another name holds the costs, name it: --task-cost, or Units(task_cost=...)",
        )
    if len(seconds_on) > _MAX_DEVICES:
        raise FormatError(f"costs for {len(seconds_on)} devices, expected {_MAX_DEVICES} at most", where=where)
    cores = parse_number(attributes.get("cores", "1"), "cores", where)
    return ListedTask(
        name,
        units.cost(seconds, seconds_on, cores),
        where,
        family=check_name(attributes.get("family", "task"), where),
        priority=_priority(attributes.get("priority", "0"), where),
    )


def edge_bytes(attributes: Mapping[str, str], units: Units, where: str) -> int:
    """Return the bytes transferred along an edge; 0 if no attribute gives them."""
    if "bytes" in attributes:
        return check_bytes(parse_number(attributes["bytes"], "bytes", where), where)
    for key in ("cost", "weight"):
        if key in attributes:
            return check_bytes(parse_number(attributes[key], key, where) * units.bytes, where)
    return 0


def _priority(text: str, where: str) -> int:
    try:
        value = int(text)
    except ValueError:
        raise FormatError(f"priority is {quoted_name(text)}, expected a whole number", where=where) from None
    if not -(1 << 31) <= value < 1 << 31:
        raise FormatError(f"priority is {quoted_name(text)}, expected a number of 32 bits", where=where)
    return value
