# SPDX-License-Identifier: Apache-2.0
"""Costs from the attributes of nodes and edges, as DOT and GraphML files carry them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from syclsched.errors import FormatError
from syclsched.frontends.assemble import ListedTask, check_bytes, check_name, shown
from syclsched.frontends.units import Units
from syclsched.model.costonly import MAX_SECONDS

#: Attributes of a node, and of an edge, that say something here; all others are left out.
NODE_ATTRIBUTES = frozenset({"seconds", "cost", "weight", "cores", "priority", "family"})
EDGE_ATTRIBUTES = frozenset({"bytes", "cost", "weight"})

#: Costs for single devices: ``seconds_cpu``, ``cost_max1550``.
_ON_DEVICE = ("seconds_", "cost_", "weight_")

#: More devices than this are not told apart in one node.
_MAX_DEVICES = 64


def is_node_attribute(name: str) -> bool:
    """Whether an attribute of a node says something here."""
    return name in NODE_ATTRIBUTES or name.startswith(_ON_DEVICE)


def number(text: str, what: str, where: str) -> float:
    """Return a finite number of zero or more.

    Raises
    ------
    FormatError
        If the text is none.
    """
    try:
        value = float(text)
    except ValueError:
        raise FormatError(f"{what} is {shown(text)}, expected a number", where=where) from None
    if not 0.0 <= value <= max(MAX_SECONDS, 1e18):
        raise FormatError(f"{what} is {shown(text)}, expected a finite number of zero or more", where=where)
    return value


def listed_task(name: str, attributes: Mapping[str, str], units: Units, where: str) -> ListedTask:
    """Return a node as a task.

    Parameters
    ----------
    name : str
        The node's.
    attributes : Mapping[str, str]
        Text by attribute.
    units : Units
        What ``cost`` and ``weight`` mean.
    where : str
        File and place, for errors.

    Returns
    -------
    ListedTask
        With its cost.

    Raises
    ------
    FormatError
        If no cost is given, or a number is none.
    """
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
            f"task {shown(name)} has no cost, expected an attribute seconds, cost or weight, or seconds_<device>",
            where=where,
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
    """Return the bytes that flow along an edge; 0 if it says nothing of them.

    Raises
    ------
    FormatError
        If a number is none.
    """
    if "bytes" in attributes:
        return check_bytes(number(attributes["bytes"], "bytes", where), where)
    for key in ("cost", "weight"):
        if key in attributes:
            return check_bytes(number(attributes[key], key, where) * units.bytes, where)
    return 0


def relevant(pairs: Iterable[tuple[str, str]], *, of_node: bool) -> dict[str, str]:
    """Keep the attributes that say something here."""
    return {k: v for k, v in pairs if (is_node_attribute(k) if of_node else k in EDGE_ATTRIBUTES)}


def _priority(text: str, where: str) -> int:
    try:
        value = int(text)
    except ValueError:
        raise FormatError(f"priority is {shown(text)}, expected a whole number", where=where) from None
    if not -(1 << 31) <= value < 1 << 31:
        raise FormatError(f"priority is {shown(text)}, expected a number of 32 bits", where=where)
    return value
