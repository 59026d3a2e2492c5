# SPDX-License-Identifier: Apache-2.0
"""The file format of plans: JSON with arrays, tasks, assignments, instructions and options as columns.

Version 1 has an object for each of them, which takes five times the space and ten times the time; it can be read.
"""

from __future__ import annotations

import re
from dataclasses import MISSING, field, fields, make_dataclass, replace
from functools import lru_cache
from typing import Any, Final, Literal, get_type_hints

from syclsched.model.plan import PLAN_FORMAT, Instruction, Lane, Option, Plan, PlannedArray, PlannedTask
from syclsched.model.plan_file.columns import columns_type, decode, encode
from syclsched.model.plan_file.instruction_columns import decode_table, encode_table
from syclsched.model.schedule import Assignment, Schedule
from syclsched.model.tables.lazy_objects import lane_table, lazy_lane
from syclsched.model.text.bulk_objects import paused_collection
from syclsched.model.text.json_serialisation import Serialisable, from_json, jsonable, to_text
from syclsched.model.usm import ArrayMemory

#: Fields of a plan that are held as columns, with the class of their rows.
_TABLES: Final[dict[str, type[Any]]] = {
    "arrays": PlannedArray,
    "tasks": PlannedTask,
    "options": Option,
    "memory": ArrayMemory,
}

_HINT: Final = "Expected a Plan"

#: Text that only a file of version 1 contains: within a JSON string the quotes would be escaped.
_VERSION_1_NAME: Final = "syclsched-plan/1"
_VERSION_1: Final = rf'"format"\s*:\s*"{_VERSION_1_NAME}"'


def plan_to_json(plan: Plan, *, indent: int | None) -> str:
    """Return a plan as JSON text; columns are on one line each, with ``indent`` spaces for each level above them."""
    with paused_collection():
        return to_text(_document(plan), indent=indent)


def _document(plan: Plan) -> dict[str, Any]:
    found: dict[str, Any] = {"format": PLAN_FORMAT}
    for each in fields(Plan):
        value = getattr(plan, each.name)
        if each.name == "lanes":
            found["lanes"] = [_lane(lane) for lane in plan.lanes]
        elif each.name == "schedule":
            assignments = encode(plan.schedule.assignments, Assignment)
            found["schedule"] = {"policy": plan.schedule.policy, "assignments": assignments}
        elif each.name != "format" and value != _default(each):
            found[each.name] = encode(value, _TABLES[each.name]) if each.name in _TABLES else jsonable(value)
    return found


def _lane(lane: Lane) -> dict[str, Any]:
    found = {"name": lane.name, "device": lane.device, "kind": lane.kind}
    table = lane_table(lane)
    return {**found, "instructions": encode_table(table)} if len(table) else found


def plan_from_json(text: str | bytes, *, where: str) -> Plan:
    """Read a plan of either version."""
    with paused_collection():
        if _is_version_1(text):
            return replace(from_json(Plan, text, where=where), format=PLAN_FORMAT)
        document = from_json(_document_type(), text, where=where)
        found = {each.name: getattr(document, each.name) for each in fields(Plan)}
        for name, row in _TABLES.items():
            found[name] = _rows(found[name], row, name, where)
        schedule = document.schedule
        assignments = _rows(schedule.assignments, Assignment, "schedule.assignments", where)
        found["schedule"] = Schedule(schedule.policy, assignments)
        found["lanes"] = tuple([_read_lane(n, lane, where) for n, lane in enumerate(document.lanes)])
        return Plan(**found)


def _read_lane(number: int, lane: Any, where: str) -> Lane:
    found = Lane(lane.name, lane.device, lane.kind)
    if lane.instructions is None:
        return found
    table = decode_table(lane.instructions, f"lanes.{number}.instructions", where, _HINT)
    return lazy_lane(found, lambda: table)


def _rows(columns: Any, row: type[Any], place: str, where: str) -> tuple[Any, ...]:
    return () if columns is None else tuple(decode(columns, row, place, where, _HINT))


def _is_version_1(text: str | bytes) -> bool:
    # Few texts contain the name of the version, and a search for it is ten times as fast.
    if isinstance(text, str):
        return _VERSION_1_NAME in text and re.search(_VERSION_1, text) is not None
    return _VERSION_1_NAME.encode() in text and re.search(_VERSION_1.encode(), text) is not None


@lru_cache(maxsize=1)
def _document_type() -> type[Any]:
    """Return the dataclass of a plan's file, for validation."""
    tables = {name: columns_type(row) for name, row in _TABLES.items()}
    lane: Any = _changed(Lane, {"instructions": columns_type(Instruction)})
    schedule = _changed(Schedule, {"assignments": columns_type(Assignment)})
    version = Literal["syclsched-plan/2"]
    return _changed(Plan, {**tables, "lanes": tuple[lane, ...], "schedule": schedule, "format": version})


def _changed(kind: type[Any], changes: dict[str, Any]) -> type[Any]:
    """Return a dataclass with the fields of another one, some with another type; tuples of rows may be left out."""
    hints = get_type_hints(kind, include_extras=True) | changes
    members: list[Any] = []
    for each in fields(kind):
        if _default(each) is MISSING:
            members.append((each.name, hints[each.name]))
        elif each.name in changes and _default(each) == ():
            members.append((each.name, changes[each.name] | None, field(default=None)))
        else:
            given = (
                {"default": each.default} if each.default is not MISSING else {"default_factory": each.default_factory}
            )
            members.append((each.name, hints[each.name], field(**given)))
    named = {"document_name": f"a {kind.__name__}"}
    return make_dataclass(
        f"{kind.__name__}Document", members, bases=(Serialisable,), namespace=named, frozen=True, slots=True
    )


def _default(each: Any) -> Any:
    """Return a field's default; `MISSING` if it has none."""
    return each.default if each.default_factory is MISSING else each.default_factory()
