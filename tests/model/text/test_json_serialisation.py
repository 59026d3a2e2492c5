# SPDX-License-Identifier: Apache-2.0
"""JSON files: round trips, and one kind of error with the place for anything else."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.strategies import ScheduledGraph, cases, platforms
from support.synthetic import random_trace, two_devices

from syclsched.errors import FormatError
from syclsched.model.plan import Plan
from syclsched.model.platform import Link, Platform
from syclsched.model.profile import DeviceProfile
from syclsched.model.text.json_serialisation import from_json, to_json
from syclsched.model.trace import Trace
from syclsched.planning import build_plan, verify
from syclsched.simulation import predict

PROFILES = sorted((Path(__file__).parents[3] / "device_profiles").glob("*.json"))


def planned(case: ScheduledGraph) -> Plan:
    return predict(build_plan(case.graph, case.platform, case.schedule, case.durations_s))


@given(cases())
def test_a_plan_is_restored_from_json(case: ScheduledGraph) -> None:
    plan = planned(case)
    for indent in (1, None):
        back = Plan.from_json(plan.to_json(indent=indent))
        assert back == plan
        verify(back, case.graph)
    assert Plan.from_json(plan.to_json().encode()) == plan


@given(platforms())
def test_a_platform_is_restored_from_json(platform: Platform) -> None:
    assert from_json(Platform, to_json(platform), where="here") == platform


def test_a_trace_is_restored_from_json() -> None:
    trace = random_trace(50)
    assert from_json(Trace, to_json(trace), where="here") == trace


@pytest.mark.parametrize("path", PROFILES, ids=lambda p: p.stem)
def test_shipped_profiles_are_restored_from_json(path: Path) -> None:
    profile = from_json(DeviceProfile, path.read_bytes(), where=path.name)
    assert from_json(DeviceProfile, to_json(profile), where=path.name) == profile


def some_plan() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(two_devices().to_json())
    return found


def plan_of_version_1() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(to_json(replace(two_devices(), format="syclsched-plan/1")))
    return found


@given(cases())
def test_a_plan_of_version_1_can_be_read(case: ScheduledGraph) -> None:
    plan = planned(case)
    assert Plan.from_json(to_json(replace(plan, format="syclsched-plan/1"))) == plan


def refused(document: Any) -> str:
    text = document if isinstance(document, (str, bytes)) else json.dumps(document)
    with pytest.raises(FormatError) as caught:
        Plan.from_json(text, where="plan.json")
    assert str(caught.value).startswith("plan.json: at ")
    assert "Expected a Plan" in str(caught.value)
    return caught.value.what


@pytest.mark.parametrize(
    ("place", "value", "said"),
    [
        (("makespan_s",), "NaN", "at makespan_s"),
        (("makespan_s",), -1.0, "at makespan_s: Input should be greater than or equal to 0, it is -1.0"),
        (("makespan_s",), 1e999, "finite number, it is inf"),
        (("makespan_s",), "1.0", "at makespan_s: Input should be a valid number, it is '1.0'"),
        (("makespan_s",), True, "at makespan_s"),
        (("format",), "syclsched-plan/3", "at format: Input should be 'syclsched-plan/2'"),
        (("surprise",), 1, "at surprise"),
        (("lanes", 0, "kind"), "magic", "at lanes.0.kind: Input should be 'compute', 'copy' or 'host', it is 'magic'"),
        (("lanes", 0, "instructions", "id", 1), "4", "at lanes.0.instructions.id.1"),
        (("lanes", 0, "instructions", "id", 1), -4, "at lanes.0.instructions.id.1"),
        (("lanes", 0, "instructions", "id"), [0], "at lanes.0.instructions.kind: 2 values, where 1 are needed"),
        (("lanes", 0, "instructions", "surprise"), [0, 0], "at lanes.0.instructions.surprise"),
        (("lanes", 1, "instructions", "waits", 0), [1.5], "at lanes.1.instructions.waits.0.0"),
        (("lanes", 1, "instructions", "waits", 0), [2**64], "at lanes.1.instructions.waits.0.0"),
        (("lanes", 0, "instructions", "kind", "values", 1), "exec", "at lanes.0.instructions.kind.values.1"),
        (("lanes", 0, "instructions", "id", 1), 2**63, "at lanes.0.instructions.id.1"),
        (("lanes", 0, "instructions", "again"), [0, 2**63], "at lanes.0.instructions.again.1"),
        (("lanes", 0, "instructions", "nbytes", 0), 2**53 + 1, "at lanes.0.instructions.nbytes.0"),
        (("lanes", 0, "instructions", "task", "index", 1), 7, "task.index.1: it is 7, and there are 1 values"),
        (("lanes", 0, "instructions", "uses", "count", 1), 2**62, "at lanes.0.instructions.uses.array: 2 values"),
        (
            ("lanes", 0, "instructions", "uses", "mode", "values"),
            ["look"],
            "at lanes.0.instructions.uses.mode.values.0",
        ),
        (
            ("arrays",),
            {"name": {"values": ["x"]}, "shape": [[1]], "dtype": {"values": ["int8"]}, "nbytes": [10**30]},
            "at arrays.nbytes.0",
        ),
        (("tasks", "name", "values", 0), "", "at tasks.name.values.0"),
        (("tasks", "name", "values", 0), "x" * 600, "at tasks.name.values.0"),
        (("platform", "devices", 0, "lanes"), 0, "at platform.devices.0.lanes"),
        (("platform", "devices"), {}, "at platform.devices"),
        (("peak_bytes",), {"cpu": -1}, "at peak_bytes.cpu"),
        (("options", "seconds", 0), None, "at options.seconds.0"),
    ],
)
def test_a_wrong_value_is_named_by_its_place(place: tuple[Any, ...], value: Any, said: str) -> None:
    check_refusal(some_plan(), place, value, said)


@pytest.mark.parametrize(
    ("place", "value", "said"),
    [
        (("makespan_s",), -1.0, "at makespan_s: Input should be greater than or equal to 0, it is -1.0"),
        (("surprise",), 1, "at surprise"),
        (("lanes", 0, "instructions", 1, "id"), "4", "at lanes.0.instructions.1.id"),
        (("lanes", 0, "instructions", 1, "id"), -4, "at lanes.0.instructions.1.id"),
        (("lanes", 0, "instructions", 1, "waits"), [1.5], "at lanes.0.instructions.1.waits.0"),
        (("lanes", 0, "instructions", 1, "kind"), "exec", "at lanes.0.instructions.1.kind"),
        (("lanes", 0, "instructions", 1, "id"), 2**63, "at lanes.0.instructions.1.id"),
        (("lanes", 0, "instructions", 1, "waits"), [2**64], "at lanes.0.instructions.1.waits.0"),
        (("lanes", 0, "instructions", 1, "again"), 2**63, "at lanes.0.instructions.1.again"),
        (("lanes", 0, "instructions", 1, "nbytes"), 2**53 + 1, "at lanes.0.instructions.1.nbytes"),
        (("arrays",), [{"name": "x", "shape": [1], "dtype": "int8", "nbytes": 10**30}], "at arrays.0.nbytes"),
        (("tasks", 0, "name"), "", "at tasks.0.name"),
        (("tasks", 0, "name"), "x" * 600, "at tasks.0.name"),
        (("platform", "devices", 0, "lanes"), 0, "at platform.devices.0.lanes"),
        (("platform", "devices"), {}, "at platform.devices"),
        (("peak_bytes",), {"cpu": -1}, "at peak_bytes.cpu"),
        (("options", 0, "seconds"), None, "at options.0.seconds"),
    ],
)
def test_a_wrong_value_in_version_1_is_named_by_its_place(place: tuple[Any, ...], value: Any, said: str) -> None:
    check_refusal(plan_of_version_1(), place, value, said)


def check_refusal(document: Any, place: tuple[Any, ...], value: Any, said: str) -> None:
    inner = document
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    what = refused(document)
    assert said in what
    assert len(what) < 300


@pytest.mark.parametrize("field", ["name", "lanes", "schedule", "platform", "fingerprint"])
def test_a_missing_field_is_named(field: str) -> None:
    document = some_plan()
    del document[field]
    assert f"at {field}: Field required" in refused(document)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "null",
        "[]",
        '"plan"',
        "{}",
        "\x00",
        b"\xff\xfe\x00",
        "[" * 100_000,
        '{"name": "\\ud800"}',
        "NaN",
        "1" * 5000,
    ],
)
def test_texts_without_a_plan_are_refused(text: str | bytes) -> None:
    refused(text)


def test_a_file_truncated_anywhere_is_refused() -> None:
    text = json.dumps(some_plan())
    for end in range(0, len(text) - 1, 37):
        refused(text[:end])


@given(st.data())
def test_a_damaged_file_is_refused_or_is_a_plan(data: st.DataObject) -> None:
    text = json.dumps(some_plan())
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, min(len(text), start + 20)))
    junk = data.draw(st.text(max_size=8))
    try:
        plan = Plan.from_json(text[:start] + junk + text[end:], where="plan.json")
    except FormatError as error:
        assert str(error).startswith("plan.json: ")
    else:
        assert Plan.from_json(plan.to_json()) == plan


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(), lambda s: st.lists(s) | st.dictionaries(st.text(), s)
    )
)
def test_any_json_at_all(document: Any) -> None:
    refused(document)


def test_a_larger_file_than_any_of_ours_is_refused_unread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("syclsched.model.text.json_serialisation.MAX_TEXT_BYTES", 10)
    with pytest.raises(FormatError, match="larger than 10 bytes"):
        Plan.from_json("x" * 11)


def test_profiles_are_not_carried_by_plans() -> None:
    (path, *_) = PROFILES
    profile = from_json(DeviceProfile, path.read_bytes(), where=path.name)
    platform = from_json(Platform, json.dumps(some_plan()["platform"]), where="here")
    rich = replace(platform, devices=tuple(replace(d, profile=profile) for d in platform.devices))
    assert rich.without_profiles() == platform
    assert from_json(Platform, to_json(rich), where="here") == rich


def test_infinite_numbers_are_not_read_back_as_finite() -> None:
    link = Link("a", "b", float("inf"), 1.0)  # an infinite bandwidth is stored as the largest number
    with pytest.raises(FormatError, match="at latency_s"):
        from_json(Link, to_json(link), where="here")
